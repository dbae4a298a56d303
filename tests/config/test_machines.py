"""Named servers of machines: every shipped one validates, a misspelt one names the near match."""

import pytest
import yaml

from specbook import config
from specbook.config import machines, prices
from specbook.errors import ConfigError

SHIPPED = [f"{hardware}/{name}" for hardware in config.hardwares() for name in machines.profiles(hardware)]
TARGET = {"name": "t", "model": "org/t", "max_model_len": 64}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_profile_is_one_and_its_price_is_listed(name):
    found = machines.profile(name)
    assert found.price is None or prices.machine(found.price).usd_per_hour > 0


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes params/cpu/profiles.yaml."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "params" / "cpu").mkdir(parents=True)
    (tmp_path / "params" / "h100").mkdir()
    return lambda body: (tmp_path / "params" / "cpu" / "profiles.yaml").write_text(yaml.safe_dump(body))


def test_a_profile_is_a_target_with_or_without_speculation(write):
    ngram = {"method": "ngram", "num_speculative_tokens": 3}
    write({"plain": {"target": TARGET}, "fast": {"target": TARGET, "speculation": ngram, "price": "x"}})
    assert machines.profile("cpu/plain").speculation is None
    assert machines.profile("cpu/fast").speculation.label == "ngram K=3"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cpu/eagel3", r"no profile 'cpu/eagel3' \(did you mean 'cpu/eagle3'\?\)"),
        ("cpu", r"no profile 'cpu'.*did you mean 'cpu/|known: cpu/eagle3"),
        ("eagle3", r"no hardware 'eagle3' \(known: cpu\)"),
        ("cpuu/eagle3", "did you mean 'cpu'"),
        ("h100/eagle3", "no hardware 'h100'"),
        ("cpu/typo", r"profile cpu/typo: target\.max_model_length.*did you mean 'max_model_len'"),
        ("cpu/empty", "profile cpu/empty: "),
    ],
)
def test_what_is_not_there_or_wrong_is_named(write, name, message):
    typo = {"name": "t", "model": "m", "max_model_length": 8}
    write({"eagle3": {"target": TARGET}, "typo": {"target": typo}, "empty": None})
    with pytest.raises(ConfigError, match=message):
        machines.profile(name)
