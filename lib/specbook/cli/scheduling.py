"""The command `schedule`: K by batch from a plan's records."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from specbook.cli.options import Group, Hardware, OwnDrafts, OwnPrompts, OwnTarget, Settings
from specbook.console import busy, complain
from specbook.errors import ConfigError

if TYPE_CHECKING:
    from specbook.analysis.schedule import Schedule
    from specbook.config.schema import Target
    from specbook.records.run_set import RunSet

FORMS = ("table", "option", "profile", "patch")
"""For people, for `vllm serve`, for profiles.yaml, for a folder of deploy/overlays."""
NEVER = "no K is shown to be as fast as no speculation: serve without --speculative-config"


def schedule(
    chapter: Annotated[str, typer.Argument(help="Whose plan was measured, e.g. 02_eagle3 (or 02).")],
    hardware: Hardware = "cpu", group: Group = "full",
    form: Annotated[str, typer.Option("--as", help="`table`, `option`, `profile` or `patch`.")] = "table",
    overlay: Annotated[str, typer.Option(help="Of deploy/overlays: what a patch is laid over.")] = "cpu",
    machine: Annotated[str | None, typer.Option(help="A folder of results/; default: as the book.")] = None,
    target: OwnTarget = None, draft: OwnDrafts = None, prompts: OwnPrompts = None, settings: Settings = None,
) -> None:  # fmt: skip
    """Say from records how many tokens to draft at each batch: 0 where no K is shown to be as fast."""
    from specbook import config, records
    from specbook.analysis import schedule as choosing
    from specbook.config import plan_overrides
    from specbook.deploy import manifests
    from specbook.suggestions import near

    if form not in FORMS:
        raise ConfigError(f"no form {form!r}{near(form, FORMS)}")
    given = plan_overrides.given(target, draft or [], prompts, settings or [])
    name, *others = config.chapters([chapter], hardware)
    if others:
        raise ConfigError(f"{chapter!r} names {[name, *others]}. To fix: name one of them")
    with busy("reading records"):
        runs = records.replay(config.load(name, hardware, group, **given), machine)
        every = choosing.measured(runs)
    if machine not in (None, runs.machine):
        raise ConfigError(f"machine {machine!r} has no record of it. To fix: --machine {runs.machine}")
    served = runs.drafting[0].point.target
    server = _server(overlay, served) if form == "patch" else {}
    seqs = manifests.flag(server, "max-num-seqs") or served.max_num_seqs
    chosen = choosing.schedules(every, int(seqs))
    for one in (one for one in every if one.estimate.low is None):
        complain("left out:", f"{one.draft.label} at batch {one.batch}, {one.estimate.format('×')}")
    text = _written(form, chosen, runs)
    if form == "patch":
        text += kustomization(overlay, server, _config(chosen[0]))
    typer.echo(text.rstrip())


def _server(overlay: str, target: "Target") -> dict[str, Any]:
    """The container that serves the target; says so where it does otherwise than was measured."""
    from specbook.deploy import manifests

    deployment = manifests.deployment(manifests.render(manifests.overlay(overlay)))
    server = deployment["spec"]["template"]["spec"]["containers"][0]
    name, dtype = (manifests.flag(server, key) for key in ("served-model-name", "dtype"))
    if name != target.name:
        raise ConfigError(f"overlay {overlay!r} serves {name}, not {target.name}. To fix: give its --overlay")
    mode = "eager" if "--enforce-eager" in server["args"] else "compiled"
    if (dtype or "auto", mode) != (target.dtype, target.execution):
        complain(
            "note:", f"measured in {target.dtype}, {target.execution}; served in {dtype or 'auto'}, {mode}"
        )
    return server


def _config(best: "Schedule") -> dict[str, Any] | None:
    return best.draft and best.draft.engine_config()


def _written(form: str, chosen: "Sequence[Schedule]", runs: "RunSet") -> str:
    """All schedules in a table, or the first: as an option, a profile, or the comments above a patch."""
    from specbook.report.provenance_line import credit
    from specbook.report.text import answers_text
    from specbook.suggestions import listed

    best, target = chosen[0], runs.drafting[0].point.target
    option = f"--speculative-config {shlex.quote(json.dumps(_config(best)))}" if best.draft else NEVER
    if form == "option":
        return option
    source = f"{credit(runs, listed(sorted({run.point.traffic.domain for run in runs})))}, {target.execution}"
    if form == "table":
        each = ["\n  ".join([f"\n{one.method}", *answers_text.reasons(one)]) for one in chosen]
        beside = ["", *answers_text.side_by_side(chosen)] if len(chosen) > 1 else []
        return "\n".join([source, *each, *beside, "", option])
    opening = f"{best.method}: {NEVER}" if best.draft is None else best.method
    text = "".join(f"# {line}\n" for line in (source, opening, *answers_text.reasons(best)))
    if form == "patch":
        return text
    served = {"target": target} | ({"speculation": best.draft} if best.draft else {})
    body = {key: one.model_dump(mode="json", exclude_defaults=True) for key, one in served.items()}
    named = {f"{target.name}-by-batch": body}
    return text + yaml.safe_dump(named, sort_keys=False, default_flow_style=None, width=999)


def kustomization(overlay: str, server: dict[str, Any], config: Mapping[str, Any] | None) -> str:
    """The text of a `kustomization.yaml` in a folder beside the overlay's; no config takes the draft away.

    The draft's weights stay where the overlay has them, and the patch tests the argument that it replaces.
    `server`: the container that serves, of the overlay's Deployment.

    Raises:
        ConfigError: if the overlay serves no draft of this kind.
    """
    from specbook.deploy.manifests import flag

    served = flag(server, "speculative-config")
    old = json.loads(served or "{}")
    kinds = [(one.get("method"), one.get("parallel_drafting", False)) for one in (old, config or old)]
    if served is None or kinds[0] != kinds[1]:
        raise ConfigError(f"overlay {overlay!r} serves no such draft. To fix: give the --overlay that does")
    argument = f"--speculative-config={served}"
    path = f"/spec/template/spec/containers/0/args/{server['args'].index(argument)}"
    change = {"op": "remove", "path": path}
    if config:
        model = {"model": old["model"]} if "model" in old else {}
        new = json.dumps({**config, **model}, separators=(",", ":"))
        change = {"op": "replace", "path": path, "value": f"--speculative-config={new}"}
    operations = [{"op": "test", "path": path, "value": argument}, change]
    patch = yaml.safe_dump(operations, sort_keys=False, width=10_000).replace("\n", "\n      ").rstrip()
    return (
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n\n"
        f"resources: [../{overlay}]\npatches:\n  - target: {{kind: Deployment, name: specbook-server}}\n"
        f"    patch: |-\n      {patch}\n"
    )
