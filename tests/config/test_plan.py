"""Parameter files and notebook parameters become points, in a fair order; misspelt ones are refused."""

import math
from collections import Counter
from itertools import groupby
from pathlib import Path

import pandas as pd
import pytest
import yaml

from specbook import config as plan
from specbook.errors import ConfigError

PARAMS = Path(__file__).parents[2] / "params"
TARGET = {"name": "t", "model": "org/t", "max_model_len": 512}
GROUP = {
    "target": TARGET,
    "baselines": ["compiled", "eager"],
    "drafts": [{"method": "ngram"}],
    "num_speculative_tokens": [1, 5],
    "domains": ["json", "code"],
    "concurrency": [1, 8],
    "num_requests": {1: 4, 8: 16},
    "request_rate_per_s": [2],
    "poisson_window_s": 5,
    "max_tokens": 64,
    "restarts": 5,
}
BODY = {"hardware": "cpu", "full": GROUP, "quick": GROUP | {"restarts": 1}}


def build(group="full", overrides=None, **changes):
    body = BODY | {group: BODY[group] | changes}
    return plan.build("02_x", body, hardware="cpu", group=group, overrides=overrides or {})


@pytest.fixture
def params(tmp_path, monkeypatch):
    """A project with the chapters 01_a and 02_x for a CPU."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    folder = tmp_path / "params" / "cpu"
    folder.mkdir(parents=True)
    for chapter in ("01_a", "02_x"):
        (folder / f"{chapter}.yaml").write_text(yaml.safe_dump(BODY))
    (folder / "profiles.yaml").write_text("{}")
    (tmp_path / "models/heldout").mkdir(parents=True)
    for domain in GROUP["domains"]:
        (tmp_path / f"models/heldout/{domain}.jsonl").touch()
    return folder


# the order of points


def test_a_draft_may_have_its_own_k_unless_k_is_given():
    drafts = [{"method": "ngram"}, {"method": "suffix", "num_speculative_tokens": [8]}]
    swept = build(drafts=drafts)
    assert [s.label for s in swept.speculations()] == ["ngram K=1", "ngram K=5", "suffix K=8"]
    assert [s.label for s in swept.speculations((3,))] == ["ngram K=3", "suffix K=3"]
    asked = build(drafts=drafts, overrides={"num_speculative_tokens": [2]})
    assert [s.label for s in asked.speculations()] == ["ngram K=2", "suffix K=2"]


def test_every_arm_load_and_domain_is_measured_in_every_restart():
    points = build().points()
    # The first baseline takes the Poisson rate too; the other and the two K do not.
    assert len(points) == 5 * 2 * (3 + 3 * 2)
    assert len({point.key for point in points}) == len(points)
    assert all(point.load.concurrency for point in points if point.speculation)


def servers(points):
    return [list(group) for _, group in groupby(points, key=lambda p: (p.restart, p.arm))]


def test_points_of_one_server_are_neighbours():
    groups = servers(build().points())
    assert len(groups) == 5 * 4  # every arm is started once a restart
    assert [group[0].restart for group in groups] == sorted(group[0].restart for group in groups)


def test_the_same_prompts_and_order_in_every_arm():
    assert len({(p.traffic.domain, p.traffic.seed, p.traffic.max_tokens) for p in build().points()}) == 2


def test_warm_up_fills_every_batch():
    plan = build()
    loads = plan.loads(plan.arms()[0])
    assert [(x.concurrency, x.num_requests, x.num_warmups) for x in loads[:2]] == [(1, 4, 4), (8, 16, 8)]
    assert (loads[2].request_rate_per_s, loads[2].num_requests) == (2, 10)


def test_quick_is_a_plan_of_its_own():
    assert Counter(p.restart for p in build("quick").points()) == {0: 18}


# overrides and mistakes


def test_overrides_replace_fields_and_none_leaves_them():
    found = build(overrides={"domains": ["json"], "restarts": None, "seed": 3})
    assert (found.domains, found.restarts, found.seed) == (("json",), 5, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_speculative_token": [1]}, "did you mean 'num_speculative_tokens'"),
        ({"target": TARGET | {"max_modle_len": 8}}, r"target\.max_modle_len.*did you mean 'max_model_len'"),
        ({"drafts": [{"method": "eagle3", "modell": "m"}]}, r"drafts\.0: .*modell.*did you mean 'model'"),
        ({"lossless": {"num_speculative_token": 5}}, r"lossless\..*did you mean 'num_speculative_tokens'"),
        ({"target": {"name": "t", "model": "m"}}, r"target\.max_model_len: Field required"),
        ({"concurrency": [1, 4]}, r"num_requests has no entry for concurrency \[4\]: add it"),
        ({"concurrency": [1, 1]}, "twice"),
        ({"target": TARGET | {"max_num_seqs": 4}}, r"concurrency \[8\] exceeds max_num_seqs 4 of the target"),
        ({"domains": ["jsno"]}, "no domain 'jsno' .did you mean 'json'"),
        ({"num_requests": {1: 0, 8: 1}}, "num_requests: .* greater than or equal to 1, got 0"),
        ({"poisson_window_s": 0}, "num_requests: .* got 0"),
        ({"num_speculative_tokens": [0]}, "num_speculative_tokens: .* got 0"),
        ({"drafts": [{"method": "eagle3"}]}, "needs `model`"),
        ({"drafts": 1}, r"drafts\.0: .*got 1"),
        ({"temperature": -1}, "temperature: .* got -1"),
        ({"restarts": 0}, "restarts: .* got 0"),
        ({"restarts": 1_000_000_000}, "restarts: .* less than or equal to 1000"),
        ({"num_requests": {1: 10**12, 8: 1}}, "num_requests: .* less than or equal to 1000000"),
        ({"request_rate_per_s": [math.nan]}, r"request_rate_per_s\.0: "),
        ({"request_rate_per_s": [math.inf]}, r"request_rate_per_s\.0: "),
        ({"poisson_window_s": math.inf}, "poisson_window_s: "),
        ({"request_rate_per_s": [1e6], "poisson_window_s": 86_400}, "num_requests: .* less than or equal"),
        ({"temperature": math.inf}, "temperature: "),
        ({"max_tokens": 512}, "max_tokens 512 leaves no room for a prompt in max_model_len 512"),
        ({"domains": ["<script>alert(1)</script>"]}, "written into pages and tables, and may not hold '<'"),
        ({"target": TARGET | {"name": "a`b"}}, "may not hold '`'"),
        ({"target": TARGET | {"model": "models/<b>"}}, "may not hold '<'"),
        ({"target": TARGET | {"name": ""}}, r"target\.name: .* at least 1 character"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_it_is(changes, message):
    with pytest.raises(ConfigError, match=message):
        build(**changes)


def test_a_domain_with_prompts_of_its_own_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "models" / "heldout").mkdir(parents=True)
    (tmp_path / "models" / "heldout" / "tickets.jsonl").touch()
    assert build(domains=["tickets"]).domains == ("tickets",)


@pytest.mark.parametrize(
    ("group", "message"), [("quik", "did you mean 'quick'"), (None, "known: full, quick")]
)
def test_an_unknown_group_names_the_near_match(group, message):
    with pytest.raises(ConfigError, match=message):
        plan.build("02_x", BODY, hardware="cpu", group=group, overrides={})


@pytest.mark.parametrize("hardware", ["../params/cpu", "cpu/", "../..", "", ".", "/"])
def test_a_hardware_outside_params_is_no_hardware(params, hardware):
    with pytest.raises(ConfigError, match="no hardware profile"):
        plan.load("02_x", hardware, "full")
    with pytest.raises(ConfigError, match="named without a folder"):
        plan.load("../cpu/02_x", "cpu", "full")


def test_unknown_hardware_and_chapters_name_the_near_match(params):
    with pytest.raises(ConfigError, match=r"no hardware profile 'cpuu' \(did you mean 'cpu'\?\)"):
        plan.load("02_x", "cpuu", "full")
    with pytest.raises(ConfigError, match=r"no parameter file .*02_y\.yaml \(did you mean '02_x'\?\)"):
        plan.load("02_y", "cpu", "full")
    with pytest.raises(ConfigError, match=r"no chapter '02_y' for hardware 'cpu' .did you mean '02_x'"):
        plan.chapters(["02_y"], "cpu")


@pytest.mark.parametrize(
    ("names", "want"),
    [(["all"], ["01_a", "02_x"]), (["02", "01_a"], ["01_a", "02_x"]), (["02_x", "02"], ["02_x"])],
)
def test_chapters_by_name_prefix_or_all_in_the_books_order(params, names, want):
    assert plan.chapters(names, "cpu") == want


@pytest.mark.parametrize("names", [[""], ["all"], ["profiles"]])
def test_hardware_without_such_a_plan_is_an_error(params, names):
    for chapter in ("01_a", "02_x"):
        (params / f"{chapter}.yaml").unlink()
    with pytest.raises(ConfigError, match="no chapter"):
        plan.chapters(names, "cpu")


def test_a_misspelt_group_beside_a_right_one_is_refused():
    with pytest.raises(ConfigError, match=r"unknown key 'quik' in the parameter file of 02_x .did you mean"):
        plan.build("02_x", BODY | {"quik": GROUP}, hardware="cpu", group="full", overrides={})


def test_a_plan_in_another_encoding_is_named(params):
    (params / "02_x.yaml").write_bytes("größe: 1".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"02_x\.yaml is not UTF-8"):
        plan.load("02_x", "cpu", "full")


@pytest.mark.parametrize(
    ("text", "message"), [("a: [", "is not YAML"), ("- 1", "holds list"), ("", "NoneType")]
)
def test_a_file_that_holds_no_plan_is_named(params, text, message):
    (params / "02_x.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"02_x\.yaml.*{message}"):
        plan.load("02_x", "cpu", "full")


# notebooks


def notebook(**changes):
    """What `globals()` holds in the cell after a notebook's parameters."""
    return {
        "__name__": "__main__", "__builtins__": {}, "_": "", "_i1": "hardware = ...", "_ih": [""], "_oh": {},
        "In": ["", "hardware = ..."], "Out": {}, "exit": exit, "quit": quit, "open": open,
        "get_ipython": print, "math": math, "Markdown": pd.DataFrame, "hardware": "cpu", "group": "quick",
        "source": "records", "domains": None, "restarts": None,
    } | changes  # fmt: skip


def test_a_notebooks_own_parameters_give_the_files_plan(params):
    assert plan.from_notebook("02_x", notebook()) == plan.load("02_x", "cpu", "quick")


def test_a_notebooks_parameters_override_the_file(params):
    found = plan.from_notebook("02_x", notebook(domains=["json"], restarts=2))
    assert (found.domains, found.restarts) == (("json",), 2)


def test_an_injected_parameter_file_is_the_plan(params):
    """`papermill -f params/...yaml` injects every key of the file."""
    ours = {"quick": GROUP | {"restarts": 3}, "full": GROUP}
    assert plan.from_notebook("02_x", notebook(**ours)).restarts == 3
    assert plan.from_notebook("02_x", notebook(**ours, group="full")).restarts == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_speculative_token": [5]}, "'num_speculative_token' .did you mean 'num_speculative_tokens'"),
        ({"hardwares": "cpu"}, "did you mean 'hardware'"),
        ({"zzz": 1}, "unknown parameter 'zzz'"),
        ({"targets": TARGET}, "unknown parameter .targets. .did you mean .target."),
        ({"source": "hardwrae"}, "source = 'hardwrae': use 'records'"),
        ({"group": "ful"}, "did you mean 'full'"),
        ({"quick": 3}, "no group 'quick'"),
        ({"quick": {"restart": 3}}, "did you mean 'restarts'"),
        ({"concurrency": 8}, "concurrency: .* got 8"),
        ({"concurrency": [2]}, "no entry for concurrency"),
    ],
)
def test_what_papermill_injects_by_mistake_is_refused(params, given, message):
    with pytest.raises(ConfigError, match=message):
        plan.from_notebook("02_x", notebook(**given))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("import os; x = 1", "import os"),
        ("a.b = 1", "a.b = 1"),
        ("a, b = 1", "a, b = 1"),
        ("domains[0] = 1", r"domains\[0\] = 1"),
        ("print(1); a = 1", r"print\(1\)"),
    ],
)
def test_a_name_that_is_code_is_refused_though_papermill_ran_it(params, line, shown):
    injected = f"# Parameters\nrestarts = 2\n{line}\n"
    with pytest.raises(ConfigError, match=f"name is code, and it was run: '{shown}': give a plain name"):
        plan.from_notebook("02_x", notebook(In=["", injected, "import os; os.x = plan"]))
    good = "# Parameters\nrestarts = 2\ntemperature = float('nan')\n"
    assert plan.from_notebook("02_x", notebook(In=["", good], restarts=2)).restarts == 2


def test_the_cell_can_be_run_once_more_after_later_cells(params):
    later = {"plan": build(), "runs": [object()], "table": pd.DataFrame(), "arms": ["a", "b"], "n": 3}
    assert plan.from_notebook("02_x", notebook(**later)).group == "quick"
    with pytest.raises(ConfigError, match="did you mean 'restarts'"):
        plan.from_notebook("02_x", notebook(**later, restart=3))


# what ships


@pytest.mark.parametrize(
    "path", sorted(PARAMS.glob("*/[0-9]*.yaml")), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_every_shipped_parameter_file_is_whole(path):
    body = plan.read_file(path)
    where = {} if path.parent.name == "shared" else {"hardware": path.parent.name}
    assert {**body, **where, "source": "records"} == body  # `papermill -f` injects these
    assert set(body) - {"experiment", "quick_book", *where} == {"group", "source", *plan.GROUPS}


@pytest.mark.parametrize("chapter", ["03_p_eagle", "04_domain_drift", "05_moe", "06_trainium"])
def test_a_quick_book_replays_what_takes_long_to_measure(chapter):
    assert plan.in_book(chapter, "cpu", "quick") == "full"
    assert plan.in_book("02_eagle3", "cpu", "quick") == "quick"
