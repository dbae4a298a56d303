"""deploy/README.md and the chapter on Kubernetes say what the manifests say."""

import re
import textwrap

import pytest
from deploy_fixtures import COMPONENTS, DEPLOY, OVERLAYS, manifests
from typer.testing import CliRunner

import chapters
from specbook.analysis import scaling
from specbook.cli.main import app
from specbook.deploy.checks import EXIT_S, bounds, problems, reaction_bound_s
from specbook.deploy.manifests import (
    accelerators,
    annotation,
    find,
    flag,
    pod_templates,
    render,
    server,
    title,
)

README = (DEPLOY / "README.md").read_text()
MARK = re.compile(r"<!-- numbers: [^>]*-->\n(.*)<!-- /numbers -->", re.DOTALL)
LABEL = {"release": "kube-prometheus-stack"}
HEAD = (
    "| overlay | cold start | preStop + drain + exit = grace | startup probe | deadline | scale-in window "
    "| replicas | accelerators | surge |\n|---|---|---|---|---|---|---|---|---|"
)


def row(overlay: str) -> str:
    documents = manifests(overlay)
    pod = server(documents)
    container, spec = pod.spec["containers"][0], pod.owner["spec"]
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain, grace = flag(container, "shutdown-timeout"), pod.spec["terminationGracePeriodSeconds"]
    probe = container["startupProbe"]
    scalers = [*find(documents, "HorizontalPodAutoscaler"), *find(documents, "ScaledObject")]
    least, most = bounds(scalers[0]) if scalers else ("1", "1")
    per_pod = accelerators(pod.spec)
    cells = [
        f"`{overlay}`",
        f"{annotation(pod, 'cold-start-seconds'):g} s",
        f"{pause} + {drain} + {EXIT_S} = {grace} s",
        f"{probe['failureThreshold']} x {probe['periodSeconds']} s",
        f"{spec['progressDeadlineSeconds']} s",
        window(scalers),
        f"{least} to {most}" if scalers else "1",
        f"{annotation(pod, 'accelerators'):g} / {per_pod}" if per_pod else "-",
        str(spec["strategy"]["rollingUpdate"]["maxSurge"]),
    ]
    return "| " + " | ".join(cells) + " |"


def window(scalers: list) -> str:
    if not scalers:
        return "-"
    spec = scalers[0]["spec"]
    behavior = spec.get("behavior") or spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    seconds = behavior["scaleDown"].get("stabilizationWindowSeconds")
    return "off" if seconds is None else f"{seconds} s"


def test_the_table_of_numbers_is_the_manifests():
    want = "\n".join([HEAD, *map(row, OVERLAYS)])
    assert MARK.search(README)[1].strip() == want, f"write this table into deploy/README.md:\n{want}"


@pytest.mark.parametrize("name", [*OVERLAYS, *COMPONENTS])
def test_every_folder_is_explained(name):
    assert f"`{name}`" in README


def test_every_alert_has_a_first_step():
    (rule,) = find(manifests("base"), "PrometheusRule")
    alerts = [r["alert"] for group in rule["spec"]["groups"] for r in group["rules"] if "alert" in r]
    assert [alert for alert in alerts if f"| {alert} |" not in README] == []


@pytest.mark.parametrize("text", re.findall(r"```yaml\n( *resources: .*?)```", README, re.DOTALL))
def test_its_kustomizations_render(text, on_top):
    assert render(on_top(textwrap.dedent(text)))


# labels that a cluster wants


def labelled(on_top, more: str = "") -> list:
    (asked,) = re.findall(r"```yaml\n(resources: \[\.\./gpu\]\nlabels:\n.*?)```", README, re.DOTALL)
    return render(on_top(asked + more))


def labels(document) -> dict:
    return document["metadata"].get("labels", {})


def test_its_labels_reach_every_object(on_top):
    documents = labelled(on_top)
    assert [title(each) for each in documents if labels(each).get("release") != LABEL["release"]] == []
    assert {"PodMonitor", "PrometheusRule", "Namespace"} <= {each["kind"] for each in documents}


def test_its_labels_change_nothing_else(on_top):
    documents = labelled(on_top)
    for each in documents:
        labels(each).pop("release")
    assert [without_empty(each) for each in documents] == [without_empty(each) for each in manifests("gpu")]


def without_empty(document) -> dict:
    metadata = {name: value for name, value in document["metadata"].items() if value}
    return document | {"metadata": metadata}


def test_labels_on_pods_leave_selectors_alone(on_top):
    documents = labelled(on_top, "    includeTemplates: true\n")
    pods = list(pod_templates(documents))
    assert [pod.name for pod in pods if pod.labels.get("release") != LABEL["release"]] == []
    (deployment,) = find(documents, "Deployment")
    assert "release" not in deployment["spec"]["selector"]["matchLabels"]
    assert problems(documents) == []


@pytest.mark.usefixtures("oldest_kubectl")
def test_an_older_kubectl_adds_the_labels_too(on_top):
    documents = labelled(on_top, "    includeTemplates: true\n")
    assert all(labels(each).get("release") == LABEL["release"] for each in documents)
    assert all(pod.labels.get("release") == LABEL["release"] for pod in pod_templates(documents))


def test_every_command_it_names_exists():
    for command in set(re.findall(r"`?specbook deploy\s+([a-z-]+)", README)):
        assert CliRunner().invoke(app, ["deploy", command, "--help"]).exit_code == 0, command


def test_the_reaction_time_is_the_arithmetic():
    stages = re.search(
        r"scrape (\d+) s \+ window (\d+) s \+ rule (\d+) s \+ adapter (\d+) s \+ autoscaler\s+(\d+) s", README
    )
    bound = reaction_bound_s(*map(int, stages.groups()), cold_start_s=300)
    assert f"With 300 s that is {bound:g} s" in README
    (monitor,) = find(manifests("base"), "PodMonitor")
    assert monitor["spec"]["podMetricsEndpoints"][0]["interval"] == f"{stages[1]}s"
    (rule,) = find(manifests("base"), "PrometheusRule")
    assert rule["spec"]["groups"][0]["interval"] == f"{stages[3]}s"
    assert f"[{stages[2]}s]" in rule["spec"]["groups"][0]["rules"][0]["expr"]


def test_the_chapter_names_the_drain_as_it_is_deployed():
    chapter = " ".join(" ".join(chapters.typed(chapters.cells("07_hpa"))).split())
    pod = server(manifests("cpu"))
    (container,) = pod.spec["containers"]
    assert f"keeps it serving for {container['lifecycle']['preStop']['sleep']['seconds']} s" in chapter
    assert f"gives it {flag(container, 'shutdown-timeout')} s to finish" in chapter
    assert f"kills it, is {pod.spec['terminationGracePeriodSeconds']} s" in chapter
    wait_s, queued_s = (scaling.TARGET_MS[name] / 1e3 for name in ("queue_wait_ms", "queue_time_p95_ms"))
    assert f"({wait_s:g} s of queue wait, or {queued_s:g} s of time in the queue at p95)" in chapter
