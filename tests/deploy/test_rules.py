"""Rules and dashboard: they parse, read only what is exported, and do on made series what they say."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml
from deploy_fixtures import DEPLOY, ROOT, engine_metrics, manifests, metrics, state_metrics

from specbook.deploy.checks import recorded
from specbook.deploy.manifests import find
from specbook.stats.monitors import Cusum, Growth, Reference

CASES = sorted((Path(__file__).parent / "rules").glob("*.yaml"))
DASHBOARD = json.loads((DEPLOY / "components" / "dashboard" / "dashboard.json").read_text())
VARIABLES = {"$__rate_interval": "2m", "$namespace": "specbook", "$usd_per_replica_hour": "2.5"}
ALERTS = {
    "SpecbookQueueWaitHigh",
    "SpecbookAutoscalerAtMax",
    "SpecbookAutoscalerBlind",
    "SpecbookMetricAbsent",
    "SpecbookRolloutStuck",
    "SpecbookAcceptanceDrop",
    "SpecbookAcceptanceDrift",
    "SpecbookDraftTargetMismatch",
}
MADE_BELOW = {"SpecbookAcceptanceDrift"}
"""A day that swings is no series to write by hand."""


def groups() -> list:
    (rule,) = find(manifests("base"), "PrometheusRule")
    return rule["spec"]["groups"]


def rules() -> list:
    return [rule for group in groups() for rule in group["rules"]]


def unknown(expression: str) -> set[str]:
    """Metrics of an expression that nobody exports."""
    return metrics(expression) - engine_metrics() - state_metrics() - recorded(manifests("base"))


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60)


@pytest.fixture
def rule_file(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": groups()}))
    return path


def test_the_rules_parse(promtool, rule_file):
    done = run(promtool, "check", "rules", rule_file, cwd=rule_file.parent)
    assert done.returncode == 0, done.stderr
    assert f"{len(rules())} rules found" in done.stdout


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_rules_do_what_they_say(case, promtool, rule_file):
    (rule_file.parent / case.name).write_text(case.read_text())
    done = run(promtool, "test", "rules", case.name, cwd=rule_file.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_made_to_fire_and_to_be_silent():
    cases = [test for path in CASES for test in yaml.safe_load(path.read_text())["tests"]]
    tried = [alert for test in cases for alert in test.get("alert_rule_test", [])]
    assert {rule["alert"] for rule in rules() if "alert" in rule} == ALERTS
    assert {alert["alertname"] for alert in tried if alert["exp_alerts"]} == ALERTS - MADE_BELOW
    assert {alert["alertname"] for alert in tried if not alert["exp_alerts"]} == ALERTS - MADE_BELOW


def test_a_wrong_expectation_would_be_found(promtool, rule_file):
    case = next(path for path in CASES if path.stem == "signal")
    (rule_file.parent / "wrong.yaml").write_text(case.read_text().replace("value: 2000}", "value: 2001}"))
    assert run(promtool, "test", "rules", "wrong.yaml", cwd=rule_file.parent).returncode != 0


@pytest.mark.parametrize(("waiting", "per_10_s"), [(0, 0), (1, 0), (3, 1), (12, 40), (100, 320)])
def test_the_rule_is_littles_law_with_a_floor(waiting, per_10_s, promtool, rule_file):
    """A server is granted 0.2 completions a second where the window holds hardly any."""
    labels = '{job="specbook", namespace="n", pod="a"'
    want = 1000 * waiting / max(per_10_s / 10, 0.2)
    test = {
        "interval": "10s",
        "input_series": [
            {"series": f"vllm:num_requests_waiting{labels}}}", "values": f"{waiting}x40"},
            {"series": f"vllm:request_success_total{labels}}}", "values": f"0+{per_10_s}x40"},
        ],
        "promql_expr_test": [
            {
                "expr": f"abs(specbook:queue_wait_ms - {want!r}) < bool 1e-6",
                "eval_time": "5m",
                "exp_samples": [{"labels": '{namespace="n"}', "value": 1}],
            }
        ],
    }
    case = {"rule_files": ["rules.yaml"], "evaluation_interval": "10s", "tests": [test]}
    (rule_file.parent / "case.yaml").write_text(yaml.safe_dump(case))
    done = run(promtool, "test", "rules", "case.yaml", cwd=rule_file.parent)
    assert done.returncode == 0, done.stdout + done.stderr


LABELS = '{job="specbook", namespace="n", model_name="m", pod="a"}'
STEADY_H = 26
"""Hours of traffic before the drift: the alert's day, and the hour that it leaves out."""


def drifting(fall: float, minutes: int, drafts: int = 1024) -> dict[str, str]:
    """Counters, minute by minute: of each draft 2 tokens are accepted, swinging by an eighth; then fewer."""
    swing = [drafts // 8 * (1 if minute // 2 % 2 else -1) for minute in range(60 * STEADY_H)]
    grown = [2 * drafts + by for by in swing] + [int(2 * drafts - fall * drafts / 8)] * minutes
    accepted = np.concatenate([[0], np.cumsum(grown)])
    return {
        f"vllm:spec_decode_num_drafts_total{LABELS}": f"0+{drafts}x{len(grown)}",
        f"vllm:spec_decode_num_accepted_tokens_total{LABELS}": " ".join(map(str, accepted)),
    }


def drift_case(rule_file: Path, series: dict[str, str], **checks: list) -> Path:
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        **checks,
    }
    order = ["specbook-speculation", "specbook-drift", "specbook-alerts"]
    case = {
        "rule_files": ["rules.yaml"], "evaluation_interval": "2m", "group_eval_order": order, "tests": [test],
    }  # fmt: skip
    (rule_file.parent / "drift.yaml").write_text(yaml.safe_dump(case))
    return rule_file.parent / "drift.yaml"


def near(expression: str, want: float, minutes: int, within: float = 0.05) -> dict:
    return {
        "expr": f"abs({expression} - {want!r}) < bool {within}",
        "eval_time": f"{60 * STEADY_H + minutes}m",
        "exp_samples": [{"labels": '{namespace="n", model_name="m"}', "value": 1}],
    }


def fires(minutes: int, *, firing: bool) -> dict:
    rule = next(rule for rule in rules() if rule.get("alert") == "SpecbookAcceptanceDrift")
    told = {name: text.replace("{{ $labels.model_name }}", "m") for name, text in rule["annotations"].items()}
    alert = {
        "exp_labels": {"severity": "ticket", "namespace": "n", "model_name": "m"},
        "exp_annotations": told,
    }
    return {
        "alertname": "SpecbookAcceptanceDrift", "eval_time": f"{60 * STEADY_H + minutes}m",
        "exp_alerts": [alert] if firing else [],
    }  # fmt: skip


def passes(promtool, case: Path) -> None:
    done = run(promtool, "test", "rules", case.name, cwd=case.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_drift_alert_is_the_books_cusum(promtool, rule_file):
    """The swing is the day's standard deviation, so each stretch after the drift scores `fall` of them."""
    want = Cusum(0.5).statistics(np.full(6, 2.0))
    checks = [near("specbook:acceptance_fall:cusum", float(want[i]), 2 * i + 2) for i in range(1, 5)]
    alerts = [fires(10, firing=False), fires(12, firing=True)]
    series = drifting(fall=2.0, minutes=60)
    passes(promtool, drift_case(rule_file, series, promql_expr_test=checks, alert_rule_test=alerts))


def test_a_stretch_of_few_drafts_weighs_little(promtool, rule_file):
    """Stretches of 2 min, drafts and accepted tokens a minute; the last one falls, by few drafts."""
    day = [(1024, 2176), (128, 192), (1024, 1920), (128, 320)] * (30 * STEADY_H // 4)
    drafts, accepted = np.array([*day, (128, 128)], dtype=float).T
    seen = Growth(np.arange(1.0, len(drafts) + 1), drafts, accepted)
    (want,) = Reference.of(seen.between(0, len(day))).scores(seen.between(len(day), np.inf))
    names = ("num_drafts", "num_accepted_tokens")
    series = {
        f"vllm:spec_decode_{name}_total{LABELS}": " ".join(f"{total:.0f}" for total in [0, *totals])
        for name, totals in zip(names, (np.cumsum(np.repeat(c, 2)) for c in (drafts, accepted)), strict=True)
    }
    checks = [near("specbook:acceptance_fall:score", float(want), 2)]
    case = drift_case(rule_file, series, promql_expr_test=checks)
    passes(promtool, case)


def test_the_drift_alert_ends_once_nothing_is_drafted(promtool, rule_file):
    series = drifting(fall=3.0, minutes=60)
    for name, values in series.items():
        last = 1024 * (60 * STEADY_H + 60) if "num_drafts" in name else values.split()[-1]
        series[name] = f"{values} {last}x90"
    alerts = [fires(70, firing=True), fires(60 + 40, firing=False)]
    passes(promtool, drift_case(rule_file, series, alert_rule_test=alerts))


def test_the_drift_alert_comes_back_as_fast_after_hours(promtool, rule_file):
    series = drifting(fall=3.0, minutes=180)
    name = next(name for name in series if "accepted" in name)
    last = int(series[name].split()[-1])
    series[name] += " " + " ".join(str(last + 2048 * minute) for minute in range(1, 121))
    series[next(name for name in series if "num_drafts" in name)] = f"0+1024x{60 * STEADY_H + 300}"
    alerts = [fires(170, firing=True), fires(180 + 60, firing=False)]
    passes(promtool, drift_case(rule_file, series, alert_rule_test=alerts))


def test_the_drift_alert_needs_traffic_and_a_day_before(promtool, rule_file):
    quiet = drift_case(rule_file, drifting(3.0, 60, drafts=16), alert_rule_test=[fires(60, firing=False)])
    passes(promtool, quiet)
    young = {name: " ".join(v.split()[-300:]) for name, v in drifting(3.0, 60).items() if "accepted" in name}
    young |= {name: "0+1024x300" for name in drifting(3.0, 60) if "num_drafts" in name}
    early = fires(0, firing=False) | {"eval_time": "299m"}
    passes(promtool, drift_case(rule_file, young, alert_rule_test=[early]))


# names


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("record") or rule["alert"])
def test_a_rule_reads_only_what_is_exported(rule):
    assert metrics(rule["expr"])
    assert unknown(rule["expr"]) == set()


def test_an_alert_on_a_metric_that_does_not_exist_is_found():
    assert unknown("vllm:request_queue_time_milliseconds_bucket > 1") == {
        "vllm:request_queue_time_milliseconds_bucket"
    }
    assert unknown('absent(vllm:num_requests_queued{job="specbook"})') == {"vllm:num_requests_queued"}


def test_names_in_the_source_are_a_servers_own():
    text = (ROOT / "tests" / "data" / "metrics-before.txt").read_text()
    types = dict(re.findall(r"^# TYPE (vllm:\w+) (\w+)$", text, re.MULTILINE))
    shown = {name for name in types if not name.endswith("_created")}
    by_source = {re.sub(r"_(bucket|sum|count)$", "", name) for name in engine_metrics()}
    assert {name for name in shown if "estimated_" not in name} - {"vllm:cache_config_info"} <= by_source
    read = {name for rule in rules() for name in metrics(rule["expr"]) if name.startswith("vllm:")}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in read} <= shown


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("sum by (a, b) (rate(x_total[2m])) / on (a) group_left (c) y > 0", {"x_total", "y"}),
        ('x{le="0.5", job=~"y|z"} offset 1h or 0 * vector(1)', {"x"}),
        ('label_replace(x, "new", "$1", "old", "(.*)") unless ignoring (q) a:b:c', {"x", "a:b:c"}),
        ('quantile_over_time(0.5, x:y[1d] offset 1h) and {__name__="z"}', {"x:y", "z"}),
        ("1e6 * x", {"x"}),
    ],
)
def test_names_of_an_expression(expression, names):
    assert metrics(expression) == names


def test_the_autoscalers_metrics_reach_it(with_component):
    documents = with_component("external-metrics-adapter")
    (config,) = [d for d in find(documents, "ConfigMap") if "config.yaml" in d.get("data", {})]
    external = yaml.safe_load(config["data"]["config.yaml"])["externalRules"]
    asked = {re.search(r'__name__="([^"]+)"', rule["seriesQuery"])[1] for rule in external}
    served = {rule["name"]["as"] for rule in external}
    (scaler,) = find(documents, "HorizontalPodAutoscaler")
    wanted = [metric["external"]["metric"]["name"] for metric in scaler["spec"]["metrics"]]
    assert asked <= recorded(documents)
    assert served == set(wanted)


# dashboard


def panels() -> list:
    return DASHBOARD["panels"]


def expressions() -> dict[str, str]:
    found = {}
    for panel in panels():
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            found[f"panel:{panel['id']}:{target['refId']}"] = expression
    return found


def test_the_dashboards_queries_parse(promtool, tmp_path):
    records = [{"record": name, "expr": expression} for name, expression in expressions().items()]
    path = tmp_path / "dashboard.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
    done = run(promtool, "check", "rules", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(records)} rules found" in done.stdout
    assert not [expression for expression in expressions().values() if "$" in expression]


def test_the_dashboards_queries_name_existing_metrics():
    assert {name: unknown(text) for name, text in expressions().items() if unknown(text)} == {}


def test_the_dashboard_shows_what_an_sre_asks_for():
    read = set().union(*(metrics(text) for text in expressions().values()))
    assert {
        "vllm:generation_tokens_total",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total",
        "specbook:acceptance_length:30m",
        "specbook:queue_wait_ms",
        "vllm:e2e_request_latency_seconds_bucket",
        "kube_deployment_status_replicas_ready",
    } <= read
    titles = {panel["title"] for panel in panels()}
    assert {
        "Throughput",
        "Acceptance per position, joint",
        "Queue wait",
        "Replicas",
        "Cost per hour",
    } <= titles
    latency = [text for text in expressions().values() if "e2e_request_latency" in text]
    assert ["0.5" in latency[0], "0.99" in latency[1]] == [True, True]


def test_every_panel_has_unit_text_and_place():
    taken = set()
    for panel in panels():
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())
