"""No secret on a screen, in a log or in a record: values of Secrets, and of variables that sound like one."""

import copy
import hashlib
import re
import secrets

from specbook.deploy.render import Manifest

SECRET_NAME = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD)(_|$)")
SALT = secrets.token_bytes(16)
"""Another in each process: a digest must not serve to guess a short secret."""
SERVER_FIELDS = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def hidden(value: str) -> str:
    """Says only whether two values are the same."""
    return f"<hidden {hashlib.blake2b(value.encode(), key=SALT, digest_size=3).hexdigest()}>"


def shown(manifest: Manifest) -> Manifest:
    """A copy that may be printed: what only the server writes is left out, secrets are hidden."""
    clean = copy.deepcopy(manifest)
    clean.pop("status", None)
    metadata = clean.get("metadata", {})
    for name in SERVER_FIELDS:
        metadata.pop(name, None)
    metadata.get("annotations", {}).pop(LAST_APPLIED, None)  # repeats the whole object, secrets included
    if clean.get("kind") == "Secret":
        # All under `data`: there what is hidden is no base64, so nobody applies it by mistake.
        values = (clean.pop("data", None) or {}) | (clean.pop("stringData", None) or {})
        clean["data"] = {key: hidden(str(value)) for key, value in values.items()}
    _hide_variables(clean)
    return clean


def sounds_secret(variable: Manifest) -> bool:
    """Whether this is an environment variable with a secret's name and a value written out."""
    name, value = variable.get("name"), variable.get("value")
    return isinstance(name, str) and isinstance(value, str) and bool(SECRET_NAME.search(name.upper()))


def _hide_variables(node: object) -> None:
    if isinstance(node, list):
        for item in node:
            _hide_variables(item)
    elif isinstance(node, dict):
        if sounds_secret(node):
            node["value"] = hidden(node["value"])
        for item in node.values():
            _hide_variables(item)
