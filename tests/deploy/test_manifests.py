"""Every overlay and component renders, and is valid to the last four Kubernetes versions."""

import functools
import json

import kubernetes_validate
import pytest
import yaml
from deploy_fixtures import (
    COMPONENTS,
    DEPLOY,
    OVERLAYS,
    ROOT,
    component_on_top,
    manifests,
    vllm_source,
)
from kubernetes_validate import utils

from specbook.config import machines, models
from specbook.deploy.manifests import find, flag, pod_templates, quantity, render, server, title
from specbook.engine.base import OPEN_PATHS
from specbook.engine.vllm.engine import Vllm

# For each document it would read two megabytes of definitions again.
utils.schema_contents = functools.cache(utils.schema_contents)
VERSIONS = ("1.34", "1.35", "1.36", "1.37")
CUSTOM = {
    "PodMonitor": "monitoring.coreos.com/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
    "ScaledObject": "keda.sh/v1alpha1",
    "InterceptorRoute": "http.keda.sh/v1beta1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
}
"""Kinds that the API server does not have by itself. Pod templates in them are held to the core schema."""


def schema_errors(documents: list, version: str) -> list[str]:
    for document in documents:
        if document["kind"] in CUSTOM:
            assert document["apiVersion"] == CUSTOM[document["kind"]]
    core = [document for document in documents if document["kind"] not in CUSTOM]
    return [error for document in core for error in errors_of(json.dumps(document), version)]


@functools.cache
def errors_of(text: str, version: str) -> list[str]:
    """Overlays share most of their documents."""
    document = json.loads(text)
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{title(document)}: {'.'.join(map(str, error.path))}: {error.message}"]
    return []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", ["base", *OVERLAYS])
def test_an_overlay_fits_the_strict_schema(overlay, version):
    assert schema_errors(manifests(overlay), version) == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_fits_the_strict_schema(component, version, with_component):
    assert schema_errors(with_component(component), version) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_misspelt_field_would_be_found(version):
    documents = manifests("gpu")
    server(documents).spec["terminationGracePeriodSecond"] = 1
    assert schema_errors(documents, version) != []


def test_pods_in_custom_resources_fit_the_schema_too(with_component):
    custom = [pod for pod in pod_templates(with_component("multi-node")) if pod.owner["kind"] in CUSTOM]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": pod.labels}, "spec": pod.spec}
        for pod in custom
    ]
    assert len(pods) == 2
    assert schema_errors(pods, VERSIONS[-1]) == []


def test_what_a_kind_user_applies_needs_no_operator():
    assert not {document["kind"] for document in manifests("cpu")} & set(CUSTOM)


# kubectl as people have it


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.usefixtures("oldest_kubectl")
def test_an_older_kubectl_renders_an_overlay_alike(overlay):
    wanted = manifests(overlay)
    assert render(DEPLOY / "overlays" / overlay) == wanted


@pytest.mark.parametrize("component", COMPONENTS)
def test_an_older_kubectl_renders_a_component_alike(component, with_component, on_top, request):
    wanted = with_component(component)
    request.getfixturevalue("oldest_kubectl")
    assert render(on_top(component_on_top(component))) == wanted


def test_every_folder_is_rendered_by_some_test():
    assert {
        "cpu",
        "gpu",
        "gpu-scarce",
        "tensor-parallel",
        "neuron",
        "neuron-dra",
        "keda",
        "ngram-fallback",
    } <= set(OVERLAYS)
    assert {"external-metrics-adapter", "campaign", "multi-node", "dashboard", "model-labels"} <= set(
        COMPONENTS
    )


def test_the_example_secret_is_valid_and_never_applied():
    secrets = list(yaml.safe_load_all((DEPLOY / "base" / "secret.example.yaml").read_text()))
    assert schema_errors(secrets, VERSIONS[-1]) == []
    assert {value for secret in secrets for value in secret["stringData"].values()} == {"replace-me"}
    assert not [name for name in ["base", *OVERLAYS] if find(manifests(name), "Secret")]


# what the server is told


def engine_flags() -> str:
    return vllm_source("engine", "arg_utils.py") + vllm_source("entrypoints", "launchers", "cli_args.py")


def knows(flag_name: str, source: str) -> bool:
    """Written as an option, or as a field of a class whose fields become options."""
    field = flag_name.removeprefix("--").removeprefix("no-").replace("-", "_")
    return f'"{flag_name}"' in source or f"\n    {field}: " in source


def serving_containers(documents: list):
    pods = [pod for pod in pod_templates(documents) if pod.labels.get("app.kubernetes.io/name") == "specbook"]
    containers = [container for pod in pods for container in pod.spec["containers"]]
    return [container for container in containers if any("vllm" in part for part in container["command"])]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_engine_knows_every_flag(overlay):
    source = engine_flags()
    (container,) = serving_containers(manifests(overlay))
    flags = [arg.partition("=")[0] for arg in container["args"]]
    assert [name for name in flags if not knows(name, source)] == []
    assert not knows("--shutdown-timeoutt", source)


def test_the_engine_knows_every_flag_of_several_nodes(with_component):
    leader, worker = serving_containers(with_component("multi-node"))
    flags = [arg.partition("=")[0] for arg in [*leader["args"], *worker["command"]] if arg.startswith("--")]
    assert [name for name in flags if not knows(name, engine_flags())] == []
    assert "--headless" in flags


def test_cpu_serves_the_profile_of_the_book():
    profile = yaml.safe_load((ROOT / "params" / "cpu" / "profiles.yaml").read_text())["eagle3"]
    target, speculation = profile["target"], profile["speculation"]
    (container,) = serving_containers(manifests("cpu"))
    for name in ("dtype", "max_model_len", "max_num_seqs"):
        assert flag(container, name.replace("_", "-")) == str(target[name])
    assert flag(container, "model") == f"/opt/specbook/{target['model']}"
    assert ("--enforce-eager" in container["args"]) == (target["execution"] == "eager")
    served = json.loads(flag(container, "speculative-config"))
    assert served == speculation | {"model": f"/opt/specbook/{speculation['model']}"}


def test_gpu_serves_the_profile_of_the_book():
    profile = machines.profile("h100/eagle3")
    documents = manifests("gpu")
    (container,) = serving_containers(documents)
    (fetched,) = [d["data"] for d in find(documents, "ConfigMap") if "TARGET_REPO" in d.get("data", {})]
    assert fetched["TARGET_REPO"] == profile.target.model
    assert fetched["DRAFT_REPO"] == profile.speculation.model
    assert flag(container, "max-model-len") == str(profile.target.max_model_len)
    assert flag(container, "max-num-seqs") == str(profile.target.max_num_seqs)
    k = json.loads(flag(container, "speculative-config"))["num_speculative_tokens"]
    assert k == profile.speculation.num_speculative_tokens


@pytest.mark.parametrize(("overlay", "opened"), [("gpu", "/health /metrics"), ("cpu", "/health")])
def test_a_key_guards_every_path_but_these(overlay, opened):
    guarded = vllm_source("entrypoints", "serve", "middleware", "authenticate.py")
    assert (
        'GUARDED_PREFIX = ("/v1", "/v2", "/inference", "/cohere")' in guarded
    )  # so vLLM's own is not enough
    (container,) = serving_containers(manifests(overlay))
    assert [flag(container, "middleware")] == [*Vllm.lock_arguments[1:]]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables[OPEN_PATHS] == opened
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": Vllm.health_path, "port": "http"}


@pytest.mark.parametrize("overlay", ["gpu", "tensor-parallel", "neuron"])
def test_what_is_downloaded_is_what_params_models_pins(overlay):
    (fetched,) = [
        d["data"] for d in find(manifests(overlay), "ConfigMap") if "TARGET_REPO" in d.get("data", {})
    ]
    model = models.load(models.by_hub_id(fetched["TARGET_REPO"])[0])
    (weights,) = [one for one in model.weights.values() if one.model == fetched["TARGET_REPO"]]
    assert fetched["TARGET_REVISION"] == fetched["DRAFT_FOR"] == weights.revision
    assert fetched["DRAFT_REVISION"] == model.head_of(fetched["DRAFT_REPO"]).draft.revision


def test_compiled_graphs_of_neuron_outlive_the_pod():
    documents = manifests("neuron")
    spec = server(documents).spec
    claims = {
        volume["name"]: volume.get("persistentVolumeClaim", {}).get("claimName") for volume in spec["volumes"]
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    (cache,) = [e["value"] for e in spec["containers"][0]["env"] if e["name"] == "NEURON_COMPILE_CACHE_URL"]
    assert claims["cache"] in {
        claim["metadata"]["name"] for claim in find(documents, "PersistentVolumeClaim")
    }
    assert cache.startswith(f"{mounts['cache']}/")


def test_revisions_reach_the_pods_labels():
    documents = manifests("gpu")
    (models,) = [d for d in find(documents, "ConfigMap") if "TARGET_REVISION" in d.get("data", {})]
    pod = server(documents)
    assert pod.labels["specbook/target-version"] == models["data"]["TARGET_REVISION"]
    assert pod.labels["specbook/draft-for"] == models["data"]["DRAFT_FOR"]
    assert pod.spec["containers"][0]["envFrom"][0]["configMapRef"]["name"] == models["metadata"]["name"]
    assert models["metadata"]["name"] != "specbook-models"  # hashed: another model is a rollout


@pytest.mark.parametrize(
    ("text", "want"),
    [("123m", 0.123), ("0", 0), ("2k", 2000), ("1Gi", 2**30), ("1e3", 1000), ("-1500m", -1.5)],
)
def test_quantity_is_a_quantity(text, want):
    assert quantity(text) == pytest.approx(want)


@pytest.mark.parametrize("text", ["", "NaN", "5 m", "1Q", "i", "1ki"])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="no Kubernetes quantity"):
        quantity(text)
