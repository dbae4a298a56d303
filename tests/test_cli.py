"""The command line: a mistake the user can fix is one message and exit 1, never a traceback."""

import signal
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import factories
from pocket import train
from specbook import config, records
from specbook.bench import campaign, dry_run, experiments, plan_notes, provenance
from specbook.cli import ask, doctor, main
from specbook.cli.main import app
from specbook.config import machines
from specbook.deploy import kubectl
from specbook.engine import running
from specbook.engine import server as engine_server
from specbook.errors import EngineError
from specbook.report import render

COMMANDS = (
    "doctor", "run", "book", "check", "compare", "export", "gate", "import", "pack", "probe", "readme",
    "schedule", "serve", "skill", "ask", "train", "watch",
)  # fmt: skip


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    monkeypatch.delenv("SPECBOOK_API_KEY", raising=False)
    held = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, held)


@pytest.fixture(params=["20", "200"], ids=lambda width: f"{width} columns")
def terminal(request, monkeypatch):
    """Messages are read by people and by grep: they must not depend on how wide a window is."""
    monkeypatch.setenv("COLUMNS", request.param)
    monkeypatch.setenv("TERM", "xterm-256color")


def invoke(*arguments):
    return CliRunner().invoke(app, arguments)


def complaint(*arguments, code=1):
    """The one message of a command that must fail."""
    result = invoke(*arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    (line,) = result.stderr.splitlines()
    return line


def raising(error):
    def fail(*_, **__):
        raise error

    return fail


def test_help_lists_every_command(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = invoke("--help")
    assert listed.exit_code == 0
    assert all(f" {name} " in listed.output for name in COMMANDS)
    assert {command.name or command.callback.__name__ for command in app.registered_commands} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    assert invoke(command, "--help").exit_code == 0


# mistakes

MISTAKES = [
    (("run", "02_eagel3"), "no chapter '02_eagel3' for hardware 'cpu' (did you mean '02_eagle3'?)"),
    (("run", "all", "--hardware", "cpuu"), "no hardware profile 'cpuu' (did you mean 'cpu'?)"),
    (("run", "02", "--group", "ful"), "no group 'ful' in the plan of 02_eagle3 (did you mean 'full'?)"),
    (("book", "--hardware", "cpuu"), "no hardware profile 'cpuu' (did you mean 'cpu'?)"),
    (("book", "--source", "recrods"), "no source 'recrods' (did you mean 'records'?)"),
    (("serve", "--profile", "cpu/eagel3"), "no profile 'cpu/eagel3' (did you mean 'cpu/eagle3'?)"),
    (("ask", "why?", "--profile", "cpu/eagel3"), "no profile 'cpu/eagel3' (did you mean 'cpu/eagle3'?)"),
    (
        ("run", "02", "--set", "restarts"),
        "--set restarts: write KEY=VALUE, the key being a parameter of the plan",
    ),
    (("ask", "why?", "--usd-per-hour", "0"), "--usd-per-hour 0.0: give a positive price"),
    (
        ("run", "02", "--draft", "ngrm"),
        "no draft 'ngrm' (did you mean 'ngram'?): give a folder, a hub id, or a method",
    ),
    (("ask", "why?", "--usd-per-hour", "nan"), "--usd-per-hour nan: give a positive price"),
    (("train", "eagel3"), "nothing called 'eagel3' to train (did you mean 'eagle3'?)"),
]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: " ".join(value)[:40])
def test_a_mistake_is_one_line_that_names_what_was_meant(arguments, message):
    assert complaint(*arguments) == f"specbook: {message}"


NAMED = [
    ("run", "{}"),
    ("run", "02", "--hardware", "{}"),
    ("run", "02", "--group", "{}"),
    ("run", "02", "--target", "{}", "--draft", "ngram"),
    ("run", "02", "--draft", "{}"),
    ("run", "02", "--draft", "eagle3:{}"),
    ("run", "02", "--prompts", "{}"),
    ("run", "02", "--set", "prompts={}"),
    ("run", "02", "--set", "target.model={}", "--draft", "ngram"),
    ("book", "--hardware", "{}"),
    ("serve", "--profile", "cpu/{}"),
    ("serve", "--api-key-file", "{}"),
    ("ask", "why?", "--profile", "{}/eagle3"),
    ("ask", "why?", "--url", "https://127.0.0.1:9", "--ca", "{}"),
    ("probe", "{}", "--url", "http://127.0.0.1:9"),
    ("readme", "--chapter", "{}"),
    ("skill", "--hardware", "{}"),
    ("train", "{}"),
    ("deploy", "check", "{}"),
    ("deploy", "diff", "cpu", "--kubeconfig", "{}"),
    ("deploy", "diff", "cpu", "--context", "{}"),
]
"""Commands that open, look for or make what a user names."""
NO_NAMES = {
    "too long": "x" * 5000,
    "one part too long": "y" * 300,
    "a path too long": "/".join(["z" * 200] * 30),
    "undecodable": "a\udcffb",
    "two lines": "a\nb",
}


@pytest.mark.parametrize("name", NO_NAMES)
@pytest.mark.parametrize("arguments", NAMED, ids=" ".join)
def test_a_name_that_no_file_can_have_is_one_line(arguments, name):
    said = complaint(*(each.replace("{}", NO_NAMES[name]) for each in arguments))
    assert said.startswith("specbook: ")
    assert len(said) < 500


@pytest.mark.parametrize("key", ["prompts", "target.model"])
def test_a_name_with_a_null_byte_is_one_line(key):
    assert "a\\x00b" in complaint("run", "02", "--draft", "ngram", "--set", f'{key}="a\\0b"')


@pytest.mark.parametrize("ending", [": long", "' quoted", ", and more"])
def test_only_the_long_word_of_a_message_is_cut(monkeypatch, ending):
    monkeypatch.setattr(campaign, "measure", raising(EngineError(f"it is '{'x' * 400}{ending}")))
    assert complaint("run", "01") == f"specbook: it is '{'x' * 60}...{ending}"


def test_what_stands_in_brackets_is_not_taken_for_markup(monkeypatch):
    """Logs, lists and extras hold brackets and colons: rich would swallow or refuse them."""
    message = "ERROR [core.py:1] pip install specbook[cpu] [/] [4] :warning: [bold]"
    monkeypatch.setattr(campaign, "measure", raising(EngineError(message)))
    assert complaint("run", "01") == f"specbook: {message}"


def test_the_help_keeps_what_stands_in_brackets(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert "such as domains=[json]." in invoke("run", "--help").output


@pytest.mark.parametrize("arguments", [("serve", "--port", "0"), ("serve", "--port", "99999"), ("ask",)])
def test_wrong_usage_is_told_by_the_command_line_itself(arguments):
    result = invoke(*arguments)
    assert (result.exit_code, "Traceback" in result.output) == (2, False)


@pytest.mark.parametrize(
    ("arguments", "module", "name"),
    [
        (("run", "01"), campaign, "measure"),
        (("book",), campaign, "measure"),
        (("check",), records, "validate_all"),
        (("doctor",), doctor, "checks"),
        (("serve",), machines, "profile"),
        (("ask", "why?"), machines, "profile"),
        (("train", "card"), train, "run"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_ctrl_c_ends_any_command_with_130(monkeypatch, arguments, module, name):
    monkeypatch.setattr(module, name, raising(KeyboardInterrupt()))
    assert complaint(*arguments, code=130).startswith("specbook: ")


def test_sigterm_ends_a_campaign_as_ctrl_c_does(monkeypatch):
    monkeypatch.setattr(campaign, "measure", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    assert complaint("run", "01", code=130).startswith("specbook: ")


# run, book, check


def test_run_says_how_many_points_failed_and_why(monkeypatch):
    bad = factories.failed_run(factories.point())
    monkeypatch.setattr(campaign, "measure", lambda plans, since, **_: [bad])
    result = invoke("run", "01")
    assert result.exit_code == 1
    assert "1 points measured now, 1 of them failed" in result.output
    assert "failed: baseline (compiled), batch 1: it crashed" in result.output


def test_a_copy_that_cannot_be_made_is_left_out_and_said(monkeypatch):
    kept = []
    why = {"build/pocket-dense-next": "train it first"}
    monkeypatch.setattr(train, "make_copies", lambda models, report: why)
    monkeypatch.setattr(campaign, "measure", lambda plans, since, **_: kept.extend(plans) or [])
    result = invoke("run", "04")
    assert result.exit_code == 1
    assert "left out: build/pocket-dense-next: train it first" in result.output
    (chapter,) = kept
    assert {point.target.model for point in chapter.points()} == {"models/pocket-dense"}
    assert {one.parameters["target"]["model"] for one in chapter.experiments} == {"models/pocket-dense"}
    assert chapter.experiments[-1].name == "fallback"


def test_an_untrained_head_is_left_out_before_the_start(monkeypatch):
    kept, said, head = [], [], "models/pocket-dense-next-eagle3"

    def measure(plans, since, **_):
        assert said
        return kept.extend(plans) or []

    monkeypatch.setattr(
        train, "missing", lambda models, report: {head: "train it first"} if head in [*models] else {}
    )
    monkeypatch.setattr(campaign, "measure", measure)
    monkeypatch.setattr(main, "complain", lambda label, text: said.append(f"{label} {text}"))
    assert invoke("run", "04").exit_code == 1
    assert set(said) == {f"left out: {head}: train it first"}
    (chapter,) = kept
    whole = config.load("04_domain_drift", "cpu", "full")
    assert head in whole.models()
    assert head not in chapter.models()
    assert len(chapter.sweeps) == len(whole.sweeps)
    assert chapter.experiments == whole.experiments


def test_a_chapter_on_kubernetes_needs_a_cluster_and_says_which(monkeypatch, project):
    monkeypatch.setenv("KUBECONFIG", str(project / "none"))
    monkeypatch.setenv("SPECBOOK_CONTEXT", "nowhere")
    result = invoke("run", "07_hpa", "--dirty")
    assert result.exit_code == 1
    assert "no context 'nowhere' in the kubeconfig" in result.stderr
    assert not (project / "results").exists()  # no failed record of each run


def test_experiments_never_take_the_current_context(monkeypatch, project):
    monkeypatch.delenv("SPECBOOK_CONTEXT", raising=False)
    monkeypatch.setattr(kubectl, "local_kubeconfig", lambda: project / "none")
    result = invoke("run", "07_hpa", "--dirty")
    assert result.exit_code == 1
    assert "no cluster is named for experiments" in result.stderr


def test_chapters_with_their_cluster_are_measured(monkeypatch):
    kept = []
    monkeypatch.setattr(train, "make_copies", lambda models, report: {})
    found = experiments._REGISTRY["cluster"]._replace(lacking=lambda: "no cluster here")
    monkeypatch.setitem(experiments._REGISTRY, "cluster", found)
    monkeypatch.setattr(campaign, "measure", lambda plans, since, **_: kept.extend(plans) or [])
    result = invoke("run", "07", "08")
    assert result.exit_code == 1
    assert "left out: 07_hpa: no cluster here" in result.stderr
    assert "07_hpa" not in [one.chapter for one in kept]
    assert "08_cost" in [one.chapter for one in kept]


def test_a_dry_run_counts_what_is_lacking_too(monkeypatch):
    said = []
    monkeypatch.setattr(train, "untrained", lambda models: {"models/x": "train it first"})
    monkeypatch.setattr(
        dry_run, "preview", lambda plans, *_: said.extend(plans) or dry_run.Preview([], "counted")
    )
    result = invoke("run", "04", "--dry-run")
    assert result.exit_code == 0
    assert "left out: models/x: train it first" in result.stderr
    assert said == [config.load("04_domain_drift", "cpu", "full")]


def test_a_head_past_its_training_is_warned_of_once(monkeypatch):
    measured = []
    monkeypatch.setattr(campaign, "measure", lambda plans, since, **_: measured.extend(plans) or [])
    result = invoke("run", "02_eagle3", "--set", "num_speculative_tokens=[5, 8]")
    assert (result.exit_code, len(measured)) == (0, 1), result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: EAGLE-3 K=8 for pocket-dense: models/pocket-dense-eagle3 was trained to")
    assert line.endswith("or lower num_speculative_tokens to 5")


def test_a_dry_run_says_last_why_a_plan_would_be_refused(monkeypatch):
    said = dry_run.Preview(["vllm serve"], "9 points to measure", "64 requests at concurrency 32 are too few")
    monkeypatch.setattr(dry_run, "preview", lambda *_: said)
    result = invoke("run", "02_eagle3", "--dry-run")
    assert result.exit_code == 1
    assert "9 points to measure" in result.stdout
    assert "too few" in result.stderr


def test_run_passes_replicate_and_dirty_on(monkeypatch):
    asked = []
    monkeypatch.setattr(campaign, "measure", lambda plans, since, **how: asked.append(how) or [])
    for flags in ((), ("--replicate",), ("--dirty",)):
        assert invoke("run", "02_eagle3", *flags).exit_code == 0
    assert [(how["replicate"], how["dirty"]) for how in asked] == [
        (False, False),
        (True, False),
        (False, True),
    ]


def test_dry_run_starts_nothing_and_prints_shell_commands(monkeypatch):
    monkeypatch.setattr(campaign, "measure", raising(AssertionError("measured")))
    monkeypatch.setattr(provenance, "weights_sha256", lambda *_: {"target": "A"})
    result = invoke("run", "all", "--group", "quick", "--dry-run")
    assert result.exit_code == 0, result.output
    commands = [line for line in result.output.splitlines() if "vllm.entrypoints" in line]
    plans = [config.load(name, "cpu", "quick") for name in config.chapters(["all"], "cpu")]
    arms = {repr(arm): arm for one in plans for sweep in one.parts() for arm in sweep.arms()}
    assert len(commands) == len(arms)  # the baseline is shared between the chapters
    drafting = [command for command in commands if "--speculative-config '{" in command]
    assert len(drafting) == sum(speculation is not None for _, speculation in arms.values())
    last = result.output.splitlines()[-1]
    assert "points to measure" in last
    assert "about " in last or "no estimate" in last


@pytest.mark.parametrize(
    ("arguments", "measured"),
    [
        ([], True),
        (["--group", "full"], False),
        (["--source", "records"], False),
        (["--group", "full", "--source", "hardware"], True),
    ],
)
def test_book_measures_the_quick_plan_and_replays_the_full_one(monkeypatch, arguments, measured):
    calls = []
    monkeypatch.setattr(campaign, "measure", lambda plans: calls.append(plans))
    monkeypatch.setattr(render, "build", lambda *_, **__: "index.html")
    result = invoke("book", *arguments)
    assert (result.exit_code, bool(calls)) == (0, measured), result.output
    for plans in calls:  # and of chapters that the quick book replays, nothing
        assert all(config.in_book(one.chapter, "cpu", one.group) == one.group for one in plans)
    assert "index.html" in result.output


def test_book_says_what_to_know_before_it_measures(monkeypatch):
    said = []
    monkeypatch.setattr(plan_notes, "say", lambda sweeps: said.extend(sweep.chapter for sweep in sweeps))
    monkeypatch.setattr(campaign, "measure", lambda plans: said.append("measured"))
    monkeypatch.setattr(render, "build", lambda *_, **__: "index.html")
    assert invoke("book").exit_code == 0
    assert said[0] == "01_baseline"
    assert said.index("measured") == len(said) - 1


def test_check_passes_where_there_is_nothing(project):
    assert invoke("check").output == "0 records read, 0 bad\n"


def test_check_names_the_corrupted_record_and_fails(project):
    good = records.append(factories.write_run(factories.point(), 10.0))
    bad = records.append(factories.write_run(factories.point(restart=1), 10.0))
    bad.write_text(bad.read_text()[:100])
    result = invoke("check")
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == "2 records read, 1 bad"
    assert bad.name in result.stderr
    assert good.name not in result.stderr


def test_packed_records_are_checked_one_by_one(project):
    for restart in range(3):
        records.append(factories.write_run(factories.point(restart=restart), 10.0))
    assert invoke("pack").output == "1 packs written, 0 records dropped\n"
    assert invoke("check").output == "3 records read, 0 bad\n"
    assert invoke("pack").output == "0 packs written, 0 records dropped\n"


def test_nothing_is_dropped_that_no_commit_holds(project, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(project))
    path = records.append(factories.write_run(factories.point(), 10.0))
    assert "lies in no git checkout" in complaint("pack", "--drop-unshipped")
    assert path.exists()


def test_check_names_a_record_that_cannot_be_read(project):
    folder = project / "results" / "cpu" / "x" / "y.json"
    folder.mkdir(parents=True)
    assert "y.json cannot be read" in complaint("check")


# serve, ask, train


class FakeServer:
    client, log_path = SimpleNamespace(base_url="http://127.0.0.1:8000/v1"), "x.log"

    def __init__(self, target, speculation=None, **_):
        self.target = target

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def is_alive(self):
        return False

    def obituary(self):
        return "vLLM exited with code 1: out of memory"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(engine_server, "Server", FakeServer)


@pytest.mark.usefixtures("server")
def test_a_server_that_ends_by_itself_is_an_error():
    result = invoke("serve")
    assert result.exit_code == 1
    assert "out of memory" in result.stderr
    assert "http://127.0.0.1:8000/v1" in result.stdout


@pytest.mark.usefixtures("server")
def test_a_key_never_stands_on_the_command_line(tmp_path, monkeypatch):
    """Every user of the machine can read it there."""
    given = []
    monkeypatch.setattr(FakeServer, "__init__", lambda self, *_, **more: given.append(more["api_key"]))
    assert "list of processes: set SPECBOOK_API_KEY" in complaint("serve", "--api-key", "secret")
    file = tmp_path / "key"
    assert "cannot be read" in complaint("serve", "--api-key-file", str(file))
    file.write_text("\n")
    assert "is empty" in complaint("serve", "--api-key-file", str(file))
    file.write_text("from-a-file\n")
    monkeypatch.setattr(FakeServer, "target", SimpleNamespace(name="x"), raising=False)
    invoke("serve", "--api-key-file", str(file))
    CliRunner().invoke(app, ["serve", "--ask-api-key"], input="typed\n")
    monkeypatch.setenv("SPECBOOK_API_KEY", "from-the-environment")
    invoke("serve")
    monkeypatch.setenv("SPECBOOK_API_KEY", "")
    invoke("serve")
    assert given == ["from-a-file", "typed", "from-the-environment", None]


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("arguments", "cost"),
    [([], "no price"), (["--usd-per-hour", "0.36"], "$10.00 per 1M output tokens at $0.36")],
)
def test_ask_streams_the_answer_as_it_is_and_then_four_lines(monkeypatch, arguments, cost):
    asked = []

    def answer(server, question, max_tokens, write):
        asked.append(max_tokens)
        write("x[0]:\n\tpass :x: ")
        write("[/]")
        return ask.Reply(ttft_s=0.1, e2e_s=1.0, output_tokens=10, spec_decode=None)

    monkeypatch.setattr(ask, "ask", answer)
    result = invoke("ask", "why?", "--max-tokens", "50", *arguments)
    assert result.exit_code == 0, result.output
    assert asked == [16, 50]  # the first one only warms the server up
    assert result.stdout.startswith("x[0]:\n\tpass :x: [/]\n\n[serve] ")
    kinds = [line.split()[0] for line in result.stdout.splitlines()[-4:]]
    assert kinds == ["[serve]", "[decode]", "[latency]", "[cost]"]
    assert cost in result.stdout


def test_ask_takes_the_url_of_a_server_that_runs(monkeypatch):
    given = []
    monkeypatch.setattr(
        running, "Running", lambda *at, **how: given.append((at, how)) or SimpleNamespace(title="vLLM there")
    )
    reply = ask.Reply(ttft_s=0.1, e2e_s=1.0, output_tokens=10, spec_decode=None)
    monkeypatch.setattr(ask, "ask", lambda *_: reply)
    result = invoke("ask", "why?", "--url", "http://127.0.0.1:8000")
    assert result.exit_code == 0, result.output
    assert given == [(("http://127.0.0.1:8000", None), {"model": None, "ca": None})]
    assert "[serve] vLLM there" in result.stdout
    assert result.stderr == ""  # nothing was started


def test_run_hands_your_own_model_and_prompts_to_the_plan(monkeypatch):
    given, planned = [], config.load("02_eagle3", "cpu", "quick")
    monkeypatch.setattr(config, "load", lambda *_, **own: given.append(own) or planned)
    monkeypatch.setattr(campaign, "measure", lambda plans, since, **_: [])
    own = ("--target", "m", "--draft", "ngram", "--draft", "h", "--prompts", "p.jsonl")
    more = ("--set", "target.dtype=auto", "--set", "concurrency=[1, 4]")
    for arguments in (own, more, (*own, *more), ()):
        assert invoke("run", "02", *arguments).exit_code == 0
    wanted = {"target": {"model": "m"}, "drafts": ["ngram", "h"], "prompts": "p.jsonl"}
    others = {"target": {"dtype": "auto"}, "concurrency": [1, 4]}
    assert given == [wanted, others, wanted | others | {"target": {"model": "m", "dtype": "auto"}}, {}]
