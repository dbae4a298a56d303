"""`specbook deploy`: one overlay, one cluster, one command each."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from specbook.console import complain, one_clear_message, out
from specbook.errors import ClusterError, ConfigError

if TYPE_CHECKING:
    from specbook.deploy.cluster import Cluster
    from specbook.deploy.render import Manifest

app = typer.Typer(help="Render, apply, watch and roll back the server on Kubernetes.", no_args_is_help=True)

Overlay = Annotated[str, typer.Argument(help="One of deploy/overlays, or a folder with a kustomization.")]
Context = Annotated[str | None, typer.Option(help="A context of the kubeconfig; default: the current one.")]
Kubeconfig = Annotated[Path | None, typer.Option(help="Default: $KUBECONFIG, else ~/.kube/config.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask: for scripts.")]
Namespace = Annotated[str, typer.Option(help="Of the server.")]
Name = Annotated[str, typer.Option(help="Of the Deployment, its Service and its autoscaler.")]
Timeout = Annotated[float, typer.Option(help="Seconds.", min=1)]
Force = Annotated[bool, typer.Option("--force-conflicts", help="Take over fields that others have set.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for weights and pods.")]
SERVER = "specbook-server"


def _objects(overlay: str) -> "list[Manifest]":
    from specbook.deploy import render

    return render.render(render.overlay(overlay))


@contextmanager
def _cluster(context: str | None, kubeconfig: Path | None) -> "Iterator[Cluster]":
    from specbook.deploy.cluster import connect

    with connect(context, kubeconfig) as cluster:
        yield cluster


def _confirm(cluster: "Cluster", what: str, yes: bool) -> None:
    out.print(f"context {cluster.context}  ({cluster.server})", markup=False, soft_wrap=True)
    if yes:
        return
    if not _interactive():
        raise ClusterError(
            f"nothing was changed: to {what} on {cluster.context!r} without asking, give --yes"
        )
    if not typer.confirm(f"{what}?"):
        raise ClusterError("nothing was changed")


def _interactive() -> bool:
    return sys.stdin.isatty()


def _say(line: str) -> None:
    out.print(line, markup=False, soft_wrap=True)


@app.command()
def render(overlay: Overlay) -> None:
    """Print an overlay's objects as YAML, secrets hidden: to read, not to apply."""
    from specbook.deploy.redact import shown

    with one_clear_message():
        typer.echo(yaml.safe_dump_all([shown(m) for m in _objects(overlay)], sort_keys=False), nl=False)


@app.command()
def check(overlay: Overlay) -> None:
    """Say what an overlay would do wrong on a cluster; asks no cluster."""
    with one_clear_message():
        problems = _problems(_objects(overlay))
    if problems:
        raise typer.Exit(1)
    _say(f"{overlay}: nothing to mend")


def _problems(manifests: "list[Manifest]") -> list[str]:
    from specbook.deploy.checks import problems

    found = problems(manifests)
    for problem in found:
        complain("mend:", problem)
    return found


@app.command()
def diff(
    overlay: Overlay, context: Context = None, kubeconfig: Kubeconfig = None, force: Force = False
) -> None:
    """Show what applying would change, as the server sees it. Secrets are hidden. Changes nothing."""
    from specbook.deploy.apply import plan, summary

    with one_clear_message(), _cluster(context, kubeconfig) as cluster:
        steps = plan(cluster, _objects(overlay), force)
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
    from specbook.deploy import follow

    with one_clear_message(), _cluster(context, kubeconfig) as cluster:
        manifests = _objects(overlay)
        if found := _problems(manifests):
            raise ConfigError(f"nothing was changed: {len(found)} things to mend first")
        steps = applying.plan(cluster, manifests, force)
        if not any(step.action != "unchanged" for step in steps):
            _say(f"context {cluster.context}: nothing to change")
        else:
            _confirm(cluster, f"apply {overlay}: {applying.summary(steps)}", yes)
            applying.apply(
                cluster, steps, _say, force, None if no_wait else follow.weights(cluster, timeout, _say)
            )
        if not no_wait:
            follow.deployments(cluster, manifests, timeout, _say)


@app.command()
def wait(
    namespace: Namespace = "specbook", name: Name = SERVER, context: Context = None,
    kubeconfig: Kubeconfig = None, timeout: Timeout = 1800,
) -> None:  # fmt: skip
    """Follow a rollout to its end; when it cannot end, say which pod and why."""
    from specbook.deploy.wait import wait as follow

    with (
        one_clear_message("no longer waiting; the rollout goes on."),
        _cluster(context, kubeconfig) as cluster,
    ):
        follow(cluster, namespace, name, timeout, _say)


@app.command("port-forward")
def port_forward(
    port: Annotated[int, typer.Option(help="Of 127.0.0.1; 0 takes any.", min=0, max=65535)] = 8000,
    namespace: Namespace = "specbook", name: Name = SERVER, context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:  # fmt: skip
    """Bring the server to a port of this machine until Ctrl-C."""
    from specbook.deploy.forward import forwarded

    with (
        one_clear_message("no longer forwarding."),
        _cluster(context, kubeconfig) as cluster,
        forwarded(cluster, namespace, name, port, _say) as local,
    ):
        _say(f"http://127.0.0.1:{local}/v1 -> {cluster.context} {namespace}/{name}  (Ctrl-C ends it)")
        while True:
            time.sleep(1)


@app.command()
def watch(
    duration: Annotated[float, typer.Option(help="Seconds.", min=0)] = 600,
    every: Annotated[float, typer.Option(help="Seconds.", min=0.1)] = 5,
    output: Annotated[Path | None, typer.Option(help="Also write the timeline here, as CSV.")] = None,
    namespace: Namespace = "specbook", name: Name = SERVER, context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:  # fmt: skip
    """Watch scaling as a timeline: pods wanted and serving, and the metrics behind it."""
    from specbook.deploy import watch as watching

    with one_clear_message("no longer watching."), _cluster(context, kubeconfig) as cluster:
        rows = []
        for sample in watching.timeline(cluster, namespace, name, duration, every):
            _say(watching.line(sample))
            rows.append(watching.row(sample))
            if output:
                watching.write(output, rows)


@app.command()
def rollback(
    to_revision: Annotated[int | None, typer.Option(help="Default: the one before.", min=1)] = None,
    namespace: Namespace = "specbook", name: Name = SERVER, context: Context = None,
    kubeconfig: Kubeconfig = None, yes: Yes = False, timeout: Timeout = 1800,
) -> None:  # fmt: skip
    """Go back to an earlier pod template, and wait for it. Mend the overlay too: applying it goes forward."""
    from specbook.deploy import wait as waiting

    with one_clear_message(), _cluster(context, kubeconfig) as cluster:
        chosen = waiting.earlier(cluster, namespace, name, to_revision)
        image = chosen["spec"]["template"]["spec"]["containers"][0]["image"]
        _confirm(
            cluster, f"roll {namespace}/{name} back to revision {waiting.revision(chosen)} ({image})", yes
        )
        waiting.roll_back(cluster, namespace, name, chosen)
        waiting.wait(cluster, namespace, name, timeout, _say)


@app.command()
def delete(
    overlay: Overlay, context: Context = None, kubeconfig: Kubeconfig = None, yes: Yes = False,
    everything: Annotated[bool, typer.Option("--everything", help="Volumes and namespaces too.")] = False,
) -> None:  # fmt: skip
    """Delete an overlay's objects; the namespace and the model cache stay unless --everything is given."""
    from specbook.deploy import apply as applying

    with one_clear_message(), _cluster(context, kubeconfig) as cluster:
        manifests = _objects(overlay)
        number = len(list(applying.deletable(manifests, everything)))
        _confirm(cluster, f"delete {number} objects of {overlay}", yes)
        applying.delete(cluster, manifests, _say, everything)
