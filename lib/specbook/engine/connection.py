"""How a server is reached over HTTP: its address, key, certificate and proxy, and a line for each failure."""

import ipaddress
import json
import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from specbook.errors import ConfigError

KEY_VARIABLE = "SPECBOOK_API_KEY"
NO_KEY_ON_A_COMMAND_LINE = (
    "--api-key would show the key to every user of this machine, in the list of processes: set "
    f"{KEY_VARIABLE}, or use --api-key-file or --ask-api-key"
)
PAGE_TIMEOUT_S = 10
DIRECT = {"http://": None, "https://": None, "all://": None}
"""Transports that pass by the environment's proxies: none of them reaches this machine's own servers."""
PROXY = "the proxy of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY"
UNREACHED = (httpx.HTTPError, httpx.InvalidURL, OverflowError, UnicodeError)
"""What httpx raises for an address that it cannot reach; a port beyond 65535 overflows."""
ENDPOINT = re.compile(r"/((chat/)?completions|(?<=/v1/)models)/*$")
MEANING = {
    401: f"it wants a key: --api-key-file, or {KEY_VARIABLE}",
    403: "the key may not do this, or a gateway lets nobody in from here",
    404: "is it a server? Give the address before /v1, with the prefix of its path",
    405: "is it a server? Give the address before /v1, with the prefix of its path",
    407: f"{PROXY} wants a password: write it into that address, or put the host into NO_PROXY",
    408: "it took too long",
    429: "too many requests for this key or server: wait, or have the limit raised",
    500: "its log says why",
    502: "a gateway finds no server behind it: wait until one is ready",
    503: "no server is ready yet, or all are busy: wait until one is",
    504: "the server behind a gateway took too long",
}
UNVERIFIED = {
    10: "have it renewed",
    62: "give the name that it is for",
    64: "give the name that it is for",
}
"""OpenSSL's number of a certificate's fault to its fix; for all others, the authority is not known here."""
SAID = 300
"""Characters of a server's own words that a message quotes."""


def read_api_key(file: Path | None) -> str | None:
    """The key in `file`, else in the environment; None where there is none.

    Raises:
        ConfigError: if the file cannot be read or is empty, or the key cannot be sent; the key is not quoted.
    """
    if file is None:
        return _sendable(os.environ.get(KEY_VARIABLE, ""), KEY_VARIABLE) or None
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--api-key-file {str(file)!r} cannot be read: {error}") from error
    if not (key := _sendable(text, f"--api-key-file {str(file)!r}")):
        raise ConfigError(f"--api-key-file {str(file)!r} is empty: write the key into it")
    return key


def _sendable(text: str, origin: str) -> str:
    """The key without the word `Bearer` before it, which belongs to the header."""
    key = re.sub(r"^Bearer\s+", "", text.strip().lstrip("\ufeff"))
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(f"{origin} has spaces, lines or letters beyond ASCII: write the key alone into it")
    return key


def address(url: str) -> str:
    """The address of a server, without the endpoint and the slash at its end.

    Raises:
        ConfigError: if it holds a password, which the list of processes would show, or a query.
    """
    url = ENDPOINT.sub("", url.strip()).rstrip("/")
    place = re.sub(r"^[\w+.-]+://", "", url)
    if "@" in place.partition("/")[0]:
        shown = url.replace(place, place.rpartition("@")[2])
        raise ConfigError(f"--url {shown} was given with a password, which others could read: {MEANING[401]}")
    if "?" in place or "#" in place:
        raise ConfigError(f"--url {url} has a query: give the address alone, such as http://127.0.0.1:8000")
    return url


def is_local(url: str) -> bool:
    """Whether the address is of this machine."""
    try:
        host = httpx.URL(url).host
        return host == "localhost" or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except (httpx.InvalidURL, ValueError):
        return False


def http_client(url: str, api_key: str | None, ca: Path | None) -> httpx.Client:
    """A client for the server at `url`; it follows the environment's proxies to other machines.

    Args:
        url: with its scheme.
        api_key: sent to this host only.
        ca: certificates of the authority to trust; None for those of SSL_CERT_FILE, else of Mozilla.

    Raises:
        ConfigError: if certificates cannot be read, or a proxy cannot be used.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    https, local = url.startswith("https:"), is_local(url)
    try:
        # To read certificates takes time, and plain http needs none.
        verify = ssl.create_default_context(cafile=ca) if https and ca else https
        return httpx.Client(
            trust_env=https or not local, mounts=DIRECT if local else None, verify=verify,
            timeout=PAGE_TIMEOUT_S, headers=headers,
        )  # fmt: skip
    except OSError as error:  # ssl.SSLError too: a file without a certificate
        origin = f"--ca {str(ca)!r}" if ca else f"SSL_CERT_FILE {os.environ.get('SSL_CERT_FILE')}"
        raise ConfigError(f"{origin} holds no certificates that can be read: {error.strerror}") from error
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"{PROXY} cannot be used ({error}): correct it, or put the host into NO_PROXY"
        ) from error


def refusal(response: httpx.Response, api_key: str | None) -> str:
    """A status that is no success: its number, what it means here, and what the server says.

    The response is read. The key stands nowhere in it, though a server may quote it.
    """
    code, message = response.status_code, words(response)
    fix = MEANING.get(code, "it cannot answer this")
    if code == 401 and api_key:
        fix = fix.replace("it wants a key", "it wants a key, and not this one")
    if response.is_redirect:
        fix = f"it redirects to {response.headers.get('location')}: give that address"
    elif seconds := response.headers.get("retry-after"):
        fix += f" (it says for {seconds} s)" if seconds.isdigit() else ""
    return hidden(f"{code}: {fix}" + (f". It says: {message}" if message else ""), api_key)


def words(response: httpx.Response) -> str:
    """The message of an error's body, on one line and not too long."""
    text = response.text
    try:
        body: Any = json.loads(text)
    except ValueError:
        body = re.sub(r"(?s)<(style|script)\b.*?</\1>|<[^>]*>", " ", text)
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and body.get(key):
            body = body[key]
    return " ".join((body if isinstance(body, str) else text).split())[:SAID]


def hidden(message: str, api_key: str | None) -> str:
    """The message without the key."""
    return message.replace(api_key, "***") if api_key else message


def failure(error: BaseException) -> str:
    """Why a server could not be reached, or did not go on, in a few words."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            trust = "give its authority's certificate with --ca FILE, or in SSL_CERT_FILE"
            return f"its certificate cannot be verified ({cause.verify_message}): " + UNVERIFIED.get(
                cause.verify_code, trust
            )
        if isinstance(cause, ssl.SSLError):
            return f"it does not speak TLS as it should ({cause.reason}): is the address https, or http?"
    if isinstance(error, httpx.ProxyError):
        return f"{PROXY} refused ({error}): correct it, or put the host into NO_PROXY"
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection in {PAGE_TIMEOUT_S} s: is there a firewall, a VPN or a proxy between?"
    if isinstance(error, httpx.TimeoutException):
        waited_s = error.request.extensions.get("timeout", {}).get("read") or PAGE_TIMEOUT_S
        return f"it sent nothing for {waited_s:g} s"
    if isinstance(error, httpx.UnsupportedProtocol):
        return "an address begins with http:// or https://"
    return str(error) or type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
