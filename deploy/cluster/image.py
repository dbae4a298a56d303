"""The server's image without a container engine: an OCI layout in build/cluster/image."""

import hashlib
import json
import subprocess
import time

import dockerfile
from layers import (
    BLOBS,
    WORKDIR,
    kept,
    layer,
    packages_key,
    packages_tree,
    project_key,
    project_tree,
    system_key,
    system_tree,
)
from places import IMAGE, RUN, call

from specbook import paths
from specbook.errors import ClusterError

SERVER = "docker.io/library/specbook-cpu:0.1.0"
PAUSE = "localhost/pause:1"
"""What holds a pod's network namespace: `sleep` of the same system layer."""
LAYERS = {
    "system": (system_key, system_tree),
    "packages": (packages_key, packages_tree),
    "project": (project_key, project_tree),
}
Descriptor = dict[str, object]


def stale() -> list[str]:
    """Layers that have to be made."""
    return [name for name, (key, _) in LAYERS.items() if kept(name, key()) is None]


def built() -> None:
    """Make the image's OCI layout or bring it up to date; interrupted, it goes on where it stopped."""
    made = []
    for name, (key, make) in LAYERS.items():
        began = time.monotonic()
        made.append(layer(name, key(), make))
        print(f"  layer {name}: {made[-1][1] / 1e6:.0f} MB, {time.monotonic() - began:.0f} s", flush=True)
    write_layout(*made)


def write_layout(system: tuple[str, int], packages: tuple[str, int], project: tuple[str, int]) -> None:
    """The index of both images over their layers."""
    commit = call("git", "-C", paths.root(), "rev-parse", "HEAD").strip()
    server = {
        "Env": dockerfile.environment(commit),
        "User": "10001:10001",
        "WorkingDir": f"/{WORKDIR}",
        "Cmd": ["specbook", "--help"],
    }
    pause = {"Cmd": ["/bin/sleep", "infinity"], "User": "65535:65535"}
    manifests = [manifest(SERVER, server, [system, packages, project]), manifest(PAUSE, pause, [system])]
    index = {"schemaVersion": 2, "manifests": manifests}
    (IMAGE / "index.json").write_text(json.dumps(index))
    (IMAGE / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


def manifest(name: str, config: dict, layers: list[tuple[str, int]]) -> Descriptor:
    """The descriptor of an image, its manifest and configuration stored beside its layers."""
    kind = "application/vnd.oci.image"
    ids = [f"sha256:{sha256}" for sha256, _ in layers]
    body = {"architecture": "amd64", "os": "linux", "config": config}
    body |= {
        "rootfs": {"type": "layers", "diff_ids": ids},
        "history": [{"created_by": "make cluster"} for _ in ids],
    }
    parts = [
        {"mediaType": f"{kind}.layer.v1.tar", "digest": f"sha256:{sha256}", "size": size}
        for sha256, size in layers
    ]
    whole = {"schemaVersion": 2, "mediaType": f"{kind}.manifest.v1+json"}
    whole |= {"config": stored(body, f"{kind}.config.v1+json"), "layers": parts}
    return stored(whole, f"{kind}.manifest.v1+json") | {"annotations": {"io.containerd.image.name": name}}


def stored(content: dict, media_type: str) -> Descriptor:
    """The descriptor of a JSON document, stored under its digest."""
    data = json.dumps(content).encode()
    sha256 = hashlib.sha256(data).hexdigest()
    (BLOBS / sha256).write_bytes(data)
    return {"mediaType": media_type, "digest": f"sha256:{sha256}", "size": len(data)}


def ctr(*arguments: str) -> list[str]:
    """The command line of containerd's client, in Kubernetes' namespace."""
    return ["ctr", "--address", str(RUN / "containerd.sock"), "--namespace", "k8s.io", *arguments]


def imported() -> None:
    """Hand the image to containerd: only what it does not hold, so a change of lib/ is 100 MB.

    Raises:
        ClusterError: if containerd refuses it.
    """
    held = set(call(*ctr("content", "ls", "--quiet")).split())
    index = json.loads((IMAGE / "index.json").read_text())
    wanted = {entry["digest"] for entry in index["manifests"]}
    if wanted <= held and {SERVER, PAUSE} <= set(call(*ctr("images", "ls", "--quiet")).split()):
        return
    names = [f"blobs/sha256/{blob.name}" for blob in BLOBS.iterdir() if f"sha256:{blob.name}" not in held]
    tar = subprocess.Popen(
        ["tar", "--create", f"--directory={IMAGE}", "oci-layout", "index.json", *names],
        stdout=subprocess.PIPE,
    )
    done = subprocess.run(ctr("images", "import", "-"), stdin=tar.stdout, capture_output=True, text=True)
    if tar.wait() != 0 or done.returncode != 0:
        raise ClusterError(f"containerd refuses the image: {done.stderr.strip()[-500:]}")


if __name__ == "__main__":
    built()
