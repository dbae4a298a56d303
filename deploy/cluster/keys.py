"""Certificates, tokens and the kubeconfig of one cluster's life, in build/cluster/run."""

import json
import secrets
from pathlib import Path

from places import NODE_IP, PORTS, RUN, SERVICE_IP, call

from specbook.deploy.kubectl import LOCAL_CONTEXT

DAYS = "365"


def make_keys() -> None:
    """One authority signs for the API server, for its calls to kubelet and adapter, and for the adapter."""
    call("openssl", "genrsa", "-out", "sa.key", "2048", cwd=RUN)
    call("openssl", "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub", cwd=RUN)
    subject = ["-subj", "/CN=specbook-local-authority"]
    call("openssl", "req", "-x509", *key_options("ca"), "-out", "ca.crt", "-days", DAYS, *subject, cwd=RUN)
    addresses = (
        f"DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:{SERVICE_IP},IP:{NODE_IP}"
    )
    sign("apiserver", "/CN=kube-apiserver", addresses)
    sign("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
    sign("aggregator", "/CN=aggregator")
    sign("adapter", "/CN=adapter", "DNS:localhost,DNS:external-metrics-adapter.specbook-metrics.svc")
    token = secrets.token_hex(24)
    private("tokens.csv", f"{token},admin,admin,system:masters\n")
    private("kubeconfig", json.dumps(kubeconfig(token), indent=1))


def key_options(name: str) -> list[str]:
    """openssl's words for a new key without a passphrase."""
    return ["-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key"]


def sign(name: str, subject: str, addresses: str = "") -> None:
    """A key and a certificate of our authority."""
    call("openssl", "req", *key_options(name), "-out", f"{name}.csr", "-subj", subject, cwd=RUN)
    (RUN / f"{name}.ext").write_text(
        f"subjectAltName={addresses}" if addresses else "extendedKeyUsage=clientAuth"
    )
    authority = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", DAYS]
    command = ["openssl", "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *authority]
    call(*command, "-extfile", f"{name}.ext", cwd=RUN)


def private(name: str, text: str) -> Path:
    """A file that only its owner may read: whoever reads it administers the cluster."""
    file = RUN / name
    file.touch(mode=0o600)
    file.write_text(text)
    return file


def kubeconfig(token: str) -> dict:
    """An administrator's access to the API server."""
    cluster = {
        "server": f"https://127.0.0.1:{PORTS['apiserver']}",
        "certificate-authority": str(RUN / "ca.crt"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": LOCAL_CONTEXT,
        "contexts": [{"name": LOCAL_CONTEXT, "context": {"cluster": LOCAL_CONTEXT, "user": "admin"}}],
        "clusters": [{"name": LOCAL_CONTEXT, "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
    }
