"""`make cluster`: what it refuses, what it builds again, and that it serves what deploy/ ships."""

import importlib
import json
import socket
import sys

import pytest
import yaml

from specbook import paths
from specbook.errors import ClusterError

TOOLS = paths.root() / "deploy" / "cluster"


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    """The scripts import each other by file name; their names leave with the test, and hide nobody else's."""
    monkeypatch.syspath_prepend(TOOLS)
    for script in TOOLS.glob("*.py"):
        monkeypatch.delitem(sys.modules, script.stem, raising=False)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(TOOLS) in str(sys.modules[name].__file__):
            del sys.modules[name]


def tool(name: str):
    return importlib.import_module(name)


@pytest.mark.parametrize(
    ("uid", "system", "release", "said"),
    [
        (1000, "x86_64", "VERSION_CODENAME=bookworm", "this is user 1000. To fix: sudo make cluster"),
        (0, "aarch64", "VERSION_CODENAME=bookworm", "needs Debian 12 on x86_64"),
        (0, "x86_64", "VERSION_CODENAME=noble", "kind, minikube or EKS needs none of this"),
    ],
)
def test_another_machine_is_refused(uid, system, release, said):
    with pytest.raises(ClusterError, match=said):
        tool("machine").check_machine(uid, system, release)


def test_only_missing_packages_are_installed(tmp_path):
    machine = tool("machine")
    (tmp_path / "usr/sbin").mkdir(parents=True)
    (tmp_path / "usr/sbin/runc").touch()
    assert set(machine.COMMANDS) - set(machine.missing_packages(machine.COMMANDS, tmp_path)) == {"runc"}


def test_a_taken_port_is_named_with_its_component(monkeypatch):
    machine = tool("machine")
    monkeypatch.setattr(machine, "foreign_kubelet", lambda _: None)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ClusterError, match=rf"{port} \(etcd\).*`ss -ltnp`"):
            machine.check_free({"etcd": port}, {})
        machine.check_free({"etcd": port}, {"etcd": 1})  # our own


def test_another_kubernetes_is_named(monkeypatch):
    machine = tool("machine")
    monkeypatch.setattr(machine, "foreign_kubelet", lambda _: 4711)
    with pytest.raises(ClusterError, match=r"another Kubernetes runs here \(process 4711\)"):
        machine.check_free({}, {})


def test_an_interrupted_build_goes_on_behind_its_last_layer(tmp_path, monkeypatch):
    layers = tool("layers")
    for name, place in {"IMAGE": "", "BLOBS": "blobs", "STAMPS": "layers.json"}.items():
        monkeypatch.setattr(layers, name, tmp_path / place)
    made = []

    def make(tree):
        made.append(tree.name)
        (tree / "etc").mkdir(parents=True)
        (tree / "etc" / "file").write_text(str(len(made)))

    first = layers.layer("system", "key", make)
    assert layers.layer("system", "key", make) == first
    assert made == ["system.part"]
    again = layers.layer("system", "another key", make)
    assert again != first
    assert [blob.name for blob in (tmp_path / "blobs").iterdir()] == [again[0]]


def test_a_linked_venv_is_packed_and_left_as_it_is(tmp_path, monkeypatch):
    layers, tree = tool("layers"), tmp_path / "tree"
    folder, link = tmp_path / "elsewhere" / ".venv", tmp_path / "root" / ".venv"
    for each in (folder / "bin", folder / "lib", link.parent):
        each.mkdir(parents=True)
    link.symlink_to(folder)
    (folder / "bin" / "python").symlink_to("/somewhere/python")
    (folder / "bin" / "tool").write_text(f"#!{folder}/bin/python\n")
    monkeypatch.setattr(layers.paths, "root", lambda: link.parent)
    layers.packages_tree(tree)
    packed = tree / layers.WORKDIR / ".venv" / "bin"
    assert (packed / "tool").read_text() == "#!/opt/specbook/.venv/bin/python\n"
    assert str((packed / "python").readlink()).startswith("/usr/bin/python3")
    assert str((folder / "bin" / "python").readlink()) == "/somewhere/python"
    assert (folder / "bin" / "tool").read_text() == f"#!{folder}/bin/python\n"


def test_the_image_is_the_dockerfiles():
    dockerfile = tool("dockerfile")
    assert dockerfile.suite() == "bookworm"
    assert {"python3.11", "libtcmalloc-minimal4"} <= set(dockerfile.packages())
    assert "SPECBOOK_COMMIT=abc" in dockerfile.environment("abc")


def test_prometheus_scrapes_and_evaluates_what_is_shipped(tmp_path, monkeypatch):
    components = tool("components")
    monkeypatch.setattr(components, "RUN", tmp_path)
    components.write_settings()
    job = yaml.safe_load((tmp_path / "prometheus.yaml").read_text())["scrape_configs"][0]
    monitor = yaml.safe_load((components.BASE / "podmonitor.yaml").read_text())
    assert job["scrape_interval"] == monitor["spec"]["podMetricsEndpoints"][0]["interval"]
    rules = json.loads((tmp_path / "rules.yaml").read_text())
    assert rules == yaml.safe_load((components.BASE / "prometheusrule.yaml").read_text())["spec"]


def test_every_component_listens_on_a_port_of_its_own():
    ports = tool("places").PORTS
    assert len(set(ports.values())) == len(ports)
    assert all(1024 < port < 30000 for port in ports.values())  # the kernel's and NodePorts begin there


@pytest.mark.parametrize(
    ("words", "said"),
    [(["frob"], "unknown command 'frob'"), (["stop", "etcd"], "only adapter and prometheus can be taken")],
)
def test_a_misspelt_command_is_one_line(words, said, capsys):
    assert tool("cluster").main(words) == 1
    assert said in capsys.readouterr().err


def test_a_process_is_ours_only_by_its_folder(tmp_path, monkeypatch):
    processes = tool("processes")
    monkeypatch.setattr(processes, "RUN", tmp_path)
    monkeypatch.setattr(processes, "PIDS", tmp_path / "pids.json")
    processes.keep({"gone": 1})  # the kernel gave the id to somebody else
    assert processes.pids() == {}
    pid = processes.start("sleeper", ["sleep", "60"])
    assert processes.pids() == {"sleeper": pid}
    assert processes.stop("sleeper", grace_s=2)
    assert not processes.ours(pid)


def test_networks_outlive_containerd_and_are_still_found(tmp_path, monkeypatch):
    teardown = tool("teardown")
    monkeypatch.setattr(teardown, "CNI_RECORDS", tmp_path)
    monkeypatch.setattr(teardown, "BRIDGE", "nosuchbridge0")
    namespace = tmp_path / "cni-a05e"
    namespace.touch()
    interfaces = [{"name": "specbook0"}, {"name": "eth0", "sandbox": str(namespace)}]
    record = json.dumps({"result": {"interfaces": interfaces}})
    for name in ("specbook-5b64-eth0", "cni-loopback-5b64-lo", "other-77aa-eth0"):
        (tmp_path / name).write_text(record)
    assert teardown.kept_namespaces() == [str(namespace)]
    teardown.remove_networks([namespace])
    assert [file.name for file in tmp_path.iterdir()] == ["other-77aa-eth0"]
