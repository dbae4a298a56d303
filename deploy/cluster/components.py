"""The command line of each component, and the files that they read."""

import json
import sys
from pathlib import Path

import yaml
from image import PAUSE
from places import BIN, BRIDGE, NODE, NODE_IP, POD_RANGE, PORTS, RUN, SERVICE_RANGE, STORE

from specbook import paths

LOCAL = "127.0.0.1"
BASE = paths.root() / "deploy" / "base"
SOCKET = RUN / "containerd.sock"
# restrict_oom_score_adj, disable_apparmor: a virtual machine may lack CAP_SYS_RESOURCE and AppArmor.
CONTAINERD = f"""version = 2
root = "{STORE}"
state = "{RUN}/containerd-state"
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{RUN}/cni"
"""


def network() -> dict:
    """Pods on one bridge; no way out to the internet, and no NetworkPolicy is enforced."""
    ranges = {"type": "host-local", "ranges": [[{"subnet": POD_RANGE}]], "routes": [{"dst": "0.0.0.0/0"}]}
    ranges["dataDir"] = str(RUN / "addresses")
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "hairpinMode": True, "ipam": ranges}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "specbook", "plugins": [bridge, ports]}


def kubelet_settings() -> dict:
    """One node that evicts and collects nothing by itself; only the API server may call it."""
    return {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "cgroupDriver": "cgroupfs",
        "failSwapOn": False,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(RUN / "ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "address": NODE_IP,
        "port": PORTS["kubelet"],
        "healthzPort": PORTS["kubelet-health"],
        "readOnlyPort": 0,
        "enforceNodeAllocatable": [],
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi"},
        "maxPods": 30,
    }


def prometheus_settings() -> dict:
    """Scrapes as the PodMonitor asks, and evaluates the shipped rules."""
    endpoint = yaml.safe_load((BASE / "podmonitor.yaml").read_text())["spec"]["podMetricsEndpoints"][0]
    job = {
        "job_name": "pods",
        "metrics_path": endpoint["path"],
        "scrape_interval": endpoint["interval"],
        "scrape_timeout": endpoint["scrapeTimeout"],
        "file_sd_configs": [{"files": [str(RUN / "targets.json")], "refresh_interval": "2s"}],
    }
    return {"rule_files": [str(RUN / "rules.yaml")], "scrape_configs": [job]}


def write_settings() -> None:
    """Every component's settings, in build/cluster/run."""
    (RUN / "cni").mkdir(exist_ok=True)
    (RUN / "cni" / "10-specbook.conflist").write_text(json.dumps(network()))
    (RUN / "containerd.toml").write_text(CONTAINERD)
    (RUN / "kubelet.yaml").write_text(json.dumps(kubelet_settings()))
    (RUN / "prometheus.yaml").write_text(json.dumps(prometheus_settings()))
    groups = yaml.safe_load((BASE / "prometheusrule.yaml").read_text())["spec"]
    (RUN / "rules.yaml").write_text(json.dumps(groups))
    (RUN / "targets.json").write_text("[]")


def etcd() -> list[str]:
    """The store; without fsync, since its data lives as long as the cluster."""
    client, peers = f"http://{LOCAL}:{PORTS['etcd']}", f"http://{LOCAL}:{PORTS['etcd-peers']}"
    return [
        str(BIN / "etcd"),
        f"--data-dir={RUN}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",
    ]


def apiserver() -> list[str]:
    """The API server, on this machine only."""
    return [
        str(BIN / "kube-apiserver"),
        f"--etcd-servers=http://{LOCAL}:{PORTS['etcd']}",
        f"--secure-port={PORTS['apiserver']}",
        f"--bind-address={LOCAL}",
        f"--advertise-address={NODE_IP}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=RBAC",
        "--tls-cert-file=apiserver.crt",
        "--tls-private-key-file=apiserver.key",
        "--client-ca-file=ca.crt",
        "--token-auth-file=tokens.csv",
        "--kubelet-client-certificate=kubelet-client.crt",
        "--kubelet-client-key=kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=sa.pub",
        "--service-account-signing-key-file=sa.key",
        "--requestheader-client-ca-file=ca.crt",
        "--requestheader-allowed-names=aggregator",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--proxy-client-cert-file=aggregator.crt",
        "--proxy-client-key-file=aggregator.key",
        "--cert-dir=certificates",
    ]


def controller(name: str) -> list[str]:
    """The controller manager or the scheduler; one of each, so nobody has to be elected."""
    access = [f"--{use}kubeconfig=kubeconfig" for use in ("", "authentication-", "authorization-")]
    where = [f"--bind-address={LOCAL}", f"--secure-port={PORTS[name]}", "--port=0", "--cert-dir=certificates"]
    return [str(BIN / f"kube-{name}"), *access, *where, "--leader-elect=false"]


def kubelet() -> list[str]:
    """The node."""
    return [
        str(BIN / "kubelet"),
        "--config=kubelet.yaml",
        "--kubeconfig=kubeconfig",
        "--container-runtime=remote",
        f"--container-runtime-endpoint=unix://{SOCKET}",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_IP}",
        f"--root-dir={RUN}/kubelet",
        f"--cert-dir={RUN}/certificates",
        "--runtime-cgroups=/",
        "--kubelet-cgroups=/",
    ]


def proxy() -> list[str]:
    """Services, as rules of iptables; the machine's conntrack limits stay as they are."""
    return [
        str(BIN / "kube-proxy"),
        "--kubeconfig=kubeconfig",
        f"--hostname-override={NODE}",
        "--proxy-mode=iptables",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
        f"--metrics-bind-address={LOCAL}:{PORTS['proxy-metrics']}",
        f"--healthz-bind-address={LOCAL}:{PORTS['proxy-health']}",
    ]


def prometheus() -> list[str]:
    """Debian's Prometheus; it knows no Kubernetes, so the adapter writes its targets."""
    return [
        "prometheus",
        "--config.file=prometheus.yaml",
        f"--storage.tsdb.path={RUN}/prometheus",
        f"--web.listen-address={LOCAL}:{PORTS['prometheus']}",
    ]


def commands() -> dict[str, list[str]]:
    """Name -> command line, in the order in which they start."""
    signing = ["--service-account-private-key-file=sa.key", "--root-ca-file=ca.crt"]
    return {
        "containerd": ["containerd", f"--config={RUN}/containerd.toml"],
        "etcd": etcd(),
        "apiserver": apiserver(),
        "controller-manager": [*controller("controller-manager"), *signing],
        "scheduler": controller("scheduler"),
        "kubelet": kubelet(),
        "proxy": proxy(),
        "prometheus": prometheus(),
        "adapter": [sys.executable, str(Path(__file__).with_name("metrics.py"))],
    }
