"""Prices: each with its source and a date, none assumed; names nobody could verify have none."""

import pytest

from specbook import paths
from specbook.config import prices
from specbook.errors import ConfigError
from specbook.records import published

MACHINE = (
    "{name: a, usd_per_hour: 1, accelerators: 1, device: d, purchase: spot, source: s, date: 2026-01-01}"
)
API = (
    "{name: b, host: h, model: m, input_usd_per_million: 1, output_usd_per_million: 2, source: s, "
    "date: 2026-01-01}"
)


def listed(*machines: str, apis: tuple[str, ...] = ()) -> str:
    return f"machines: [{', '.join(machines)}]\napis: [{', '.join(apis)}]"


def test_every_listed_price_has_its_source_and_date():
    found = prices.load()
    assert found.machines
    assert found.apis
    assert all(entry.source.strip() and entry.date for entry in (*found.machines, *found.apis))
    assert prices.machine("trn2.48xlarge capacity block").usd_per_hour / 16 == pytest.approx(2.235, abs=1e-3)


def test_api_prices_are_those_in_the_published_table():
    table = {
        (row.target_model.split(" (")[0], row.metric, row.number)
        for row in published.load() if row.system == "api_price"
    }  # fmt: skip
    for api in prices.load().apis:
        if api.verified:
            assert (api.name, "usd_per_1M_input", api.input_usd_per_million) in table
            assert (api.name, "usd_per_1M_output", api.output_usd_per_million) in table


def test_a_name_nobody_could_verify_has_no_price_and_says_so():
    unverified = [api for api in prices.load().apis if not api.verified]
    assert [api.name for api in unverified] == ["Claude Sonnet 4.7"]
    assert all(api.note and api.output_usd_per_million is None for api in unverified)


def test_every_rule_of_thumb_for_tokens_has_its_source():
    thumbs = [api for api in prices.load().apis if api.characters_per_token]
    assert {api.host for api in thumbs} == {"anthropic", "openai"}
    assert all(api.characters_source for api in thumbs)


def test_no_price_is_assumed():
    with pytest.raises(ConfigError, match=r"price unknown for 'm7a.large on deman'.*did you mean.*demand"):
        prices.machine("m7a.large on deman")
    with pytest.raises(ConfigError, match="price unknown for 'GPT-9'"):
        prices.api("GPT-9")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (listed(MACHINE.replace("source: s, ", "")), "machines.0.source"),
        (listed(MACHINE.replace("source: s", "source: ' '")), "machines.0.source"),
        (listed(MACHINE.replace(", date: 2026-01-01", "")), "machines.0.date"),
        (listed(apis=(API.replace(", date: 2026-01-01", ""),)), "apis.0.date"),
        (listed(MACHINE.replace("usd_per_hour: 1", "usd_per_hour: -1")), "machines.0.usd_per_hour"),
        (listed(MACHINE.replace("usd_per_hour: 1", "usd_per_hour: .inf")), "machines.0.usd_per_hour"),
        (listed(MACHINE.replace("spot", "borrowed")), "machines.0.purchase"),
        (listed(apis=(API.replace("input_usd_per_million: 1, ", ""),)), "b: a verified name has both prices"),
        (listed(apis=(API.replace("}", ", verified: false}"),)), "only a verified one has any"),
        (listed(apis=(API.replace("}", ", characters_per_token: 4}"),)), "go together"),
        (listed(MACHINE, MACHINE), "twice"),
        ("machines: {", "is not YAML"),
    ],
)
def test_a_price_without_source_or_date_is_refused(monkeypatch, tmp_path, text, message):
    (tmp_path / "prices.yaml").write_text(text)
    monkeypatch.setattr(paths, "params_dir", lambda: tmp_path)
    with pytest.raises(ConfigError, match=message):
        prices.load()
