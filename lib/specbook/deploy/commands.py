"""`specbook deploy`: one overlay, one cluster, one command each."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from specbook.console import complain, one_clear_message, out
from specbook.errors import ClusterError, ConfigError

if TYPE_CHECKING:
    from specbook.deploy.kubectl import Kubectl
    from specbook.deploy.manifests import Manifest

app = typer.Typer(help="Render, apply, watch and roll back the server on Kubernetes.", no_args_is_help=True)

Overlay = Annotated[str, typer.Argument(help="One of deploy/overlays, or a folder with a kustomization.")]
Context = Annotated[str | None, typer.Option(help="A context of the kubeconfig; default: the current one.")]
Kubeconfig = Annotated[Path | None, typer.Option(help="Default: $KUBECONFIG, else ~/.kube/config.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask: for scripts.")]
Timeout = Annotated[float, typer.Option(help="Seconds.", min=1)]
Force = Annotated[bool, typer.Option("--force-conflicts", help="Take over fields that others have set.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for weights and pods.")]


def _objects(overlay: str) -> "list[Manifest]":
    from specbook.deploy import manifests

    return manifests.render(manifests.overlay(overlay))


def _cluster(context: str | None, kubeconfig: Path | None) -> "Kubectl":
    from specbook.deploy.kubectl import Kubectl

    cluster = Kubectl(context, kubeconfig)
    name, server = cluster.where()
    _say(f"context {name}  ({server})")
    return cluster


def _fitting(manifests: "list[Manifest]", cluster: "Kubectl") -> "list[Manifest]":
    """The objects in the words of the cluster's version; says which it changed."""
    from specbook.deploy.manifests import translated

    fitting, notes = translated(manifests, cluster.minor())
    for note in notes:
        _say(f"in this cluster's words: {note}")
    return fitting


def _served(manifests: "list[Manifest]") -> "tuple[str, str, Manifest]":
    """Namespace, name and object of the Deployment that serves."""
    from specbook.deploy.manifests import deployment

    manifest = deployment(manifests)
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"], manifest


def _confirm(what: str, yes: bool) -> None:
    if yes:
        return
    if not _interactive():
        raise ClusterError(f"nothing was changed. To fix: to {what} without asking, give --yes")
    if not typer.confirm(f"{what}?"):
        raise ClusterError("nothing was changed")


def _interactive() -> bool:
    return sys.stdin.isatty()


def _say(line: str) -> None:
    out.print(line, markup=False, soft_wrap=True)


@app.command()
def render(overlay: Overlay) -> None:
    """Print an overlay's objects as YAML, secrets hidden: to read, not to apply."""
    from specbook.deploy.manifests import printable

    typer.echo(yaml.safe_dump_all([printable(m) for m in _objects(overlay)], sort_keys=False), nl=False)


@app.command()
def check(overlay: Overlay) -> None:
    """Say what an overlay would do wrong on a cluster; asks no cluster."""
    if _problems(_objects(overlay)):
        raise typer.Exit(1)
    _say(f"{overlay}: nothing to fix")


def _problems(manifests: "list[Manifest]") -> list[str]:
    from specbook.deploy.checks import problems

    faults = problems(manifests)
    for problem in faults:
        complain("to fix:", problem)
    return faults


@app.command()
def diff(
    overlay: Overlay, context: Context = None, kubeconfig: Kubeconfig = None, force: Force = False
) -> None:
    """Show what applying would change, as the server sees it. Secrets are hidden. Changes nothing."""
    from specbook.deploy.apply import plan, summary

    manifests, cluster = _objects(overlay), _cluster(context, kubeconfig)
    steps = plan(cluster, _fitting(manifests, cluster), force)
    for step in steps:
        if step.diff:
            _say(step.diff)
    _say(summary(steps))


@app.command()
def apply(
    overlay: Overlay, context: Context = None, kubeconfig: Kubeconfig = None, yes: Yes = False,
    force: Force = False, timeout: Timeout = 1800, no_wait: NoWait = False,
) -> None:  # fmt: skip
    """Check, try on the server, ask, apply, and wait for the rollout."""
    from specbook.deploy import apply as applying
    from specbook.deploy import rollout

    manifests = _objects(overlay)
    if faults := _problems(manifests):
        raise ConfigError(f"nothing was changed: {len(faults)} things to fix first")
    cluster = _cluster(context, kubeconfig)
    steps = applying.plan(cluster, _fitting(manifests, cluster), force)
    if any(step.action != "unchanged" for step in steps):
        _confirm(f"apply {overlay}: {applying.summary(steps)}", yes)
        applying.apply(cluster, steps, _say, force, None if no_wait else timeout)
    else:
        _say("nothing to change")
    if not no_wait:
        rollout.for_rollouts(cluster, manifests, timeout, _say)


@app.command()
def wait(
    overlay: Overlay, context: Context = None, kubeconfig: Kubeconfig = None, timeout: Timeout = 1800
) -> None:
    """Follow an overlay's rollout to its end; when it cannot end, say which pod and why."""
    from specbook.deploy.rollout import for_rollouts

    with one_clear_message("no longer waiting; the rollout goes on."):
        manifests = _objects(overlay)
        _served(manifests)
        for_rollouts(_cluster(context, kubeconfig), manifests, timeout, _say)


@app.command("port-forward")
def port_forward(
    overlay: Overlay,
    port: Annotated[int, typer.Option(help="Of 127.0.0.1; 0 takes any.", min=0, max=65535)] = 8000,
    context: Context = None, kubeconfig: Kubeconfig = None,
) -> None:  # fmt: skip
    """Bring an overlay's server to a port of this machine until Ctrl-C."""
    with one_clear_message("no longer forwarding."):
        namespace, name, served = _served(_objects(overlay))
        ports = served["spec"]["template"]["spec"]["containers"][0]["ports"]
        inside = (f"--namespace={namespace}", f"deployment/{name}", f"{port}:{ports[0]['containerPort']}")
        cluster = _cluster(context, kubeconfig)
        with cluster.listening("port-forward", "--address=127.0.0.1", *inside) as (local, lines):
            _say(f"http://127.0.0.1:{local}/v1 -> {namespace}/{name}  (Ctrl-C ends it)")
            last = [line for line in lines if not line.startswith(("Handling", "Forwarding"))]
        raise ClusterError(f"{' '.join(last).strip()}. To fix: forward again, when a pod is ready")


@app.command()
def watch(
    overlay: Overlay,
    duration: Annotated[float, typer.Option(help="Seconds.", min=0)] = 600,
    every: Annotated[float, typer.Option(help="Seconds.", min=0.1)] = 5,
    output: Annotated[Path | None, typer.Option(help="Also write the timeline here, as CSV.")] = None,
    context: Context = None, kubeconfig: Kubeconfig = None,
) -> None:  # fmt: skip
    """Watch an overlay's scaling as a timeline: pods wanted and serving, and the metrics behind it."""
    from specbook.deploy.rollout import timeline, write_timeline

    with one_clear_message("no longer watching."):
        namespace, name, _ = _served(_objects(overlay))
        with _cluster(context, kubeconfig).proxy() as client:
            rows = []
            for sample in timeline(client, namespace, name, duration, every):
                _say(str(sample))
                rows.append(sample.row())
                if output:
                    write_timeline(output, rows)


@app.command()
def rollback(
    overlay: Overlay,
    to_revision: Annotated[int, typer.Option(help="Default: the one before.", min=0)] = 0,
    context: Context = None, kubeconfig: Kubeconfig = None, yes: Yes = False, timeout: Timeout = 1800,
) -> None:  # fmt: skip
    """Go back to an earlier pod template, and wait for it. Fix the overlay too: applying it goes forward."""
    from specbook.deploy.rollout import rollout, until_done

    namespace, name, served = _served(_objects(overlay))
    cluster = _cluster(context, kubeconfig)
    back = (f"deployment/{name}", f"--namespace={namespace}", f"--to-revision={to_revision}")
    images = re.findall(r"Image:\s*(\S+)", cluster.run("rollout", "undo", *back, "--dry-run=client"))
    where = f"revision {to_revision}" if to_revision else "the revision before"
    _confirm(f"roll {namespace}/{name} back to {where} ({', '.join(dict.fromkeys(images))})", yes)
    _say(cluster.run("rollout", "undo", *back).strip())
    until_done(lambda: rollout(cluster, served), timeout, _say)


@app.command()
def delete(
    overlay: Overlay, context: Context = None, kubeconfig: Kubeconfig = None, yes: Yes = False,
    everything: Annotated[bool, typer.Option("--everything", help="Volumes and namespaces too.")] = False,
) -> None:  # fmt: skip
    """Delete an overlay's objects; the namespace and the model cache stay unless --everything is given."""
    from specbook.deploy import apply as applying

    manifests, cluster = _objects(overlay), _cluster(context, kubeconfig)
    manifests = _fitting(manifests, cluster)
    _confirm(f"delete {len(list(applying.deletable(manifests, everything)))} objects of {overlay}", yes)
    applying.delete(cluster, manifests, _say, everything)
