"""A client of a server: its own pages, chat over OpenAI's client, and the key that it wants."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from specbook.engine.base import Counters, Engine, known
from specbook.errors import ConfigError, EngineError, RefusedError

KEY_VARIABLE = "SPECBOOK_API_KEY"
NO_KEY_ON_A_COMMAND_LINE = (
    "--api-key would show the key to every user of this machine, in the list of processes: set "
    f"{KEY_VARIABLE}, or use --api-key-file or --ask-api-key"
)
ANSWER_TIMEOUT_S = 600
PAGE_TIMEOUT_S = 10
OF_THE_REQUEST = (400, 413, 422)
"""Answers that speak of one request, not of the server or the key."""
Asked = str | Sequence[Mapping[str, Any]]
"""One user message, or the turns of a conversation as OpenAI's chat API takes them."""


def read_api_key(file: Path | None) -> str | None:
    """The key in `file`, else in the environment; None where there is none.

    Raises:
        ConfigError: if the file cannot be read, or is empty.
    """
    if file is None:
        return os.environ.get(KEY_VARIABLE) or None
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--api-key-file {file} cannot be read: {error}") from error
    if not key:
        raise ConfigError(f"--api-key-file {file} is empty: write the key into it")
    return key


class Client:
    """Talks to the server at `url` as a client that may hold its API key; usable from several threads."""

    def __init__(self, url: str, model: str, api_key: str | None) -> None:
        self.url, self.base_url, self.model, self._api_key = url, f"{url}/v1", model, api_key
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        verify = url.startswith("https:")  # to read certificates takes time, and plain http needs none
        self._http = httpx.Client(trust_env=False, verify=verify, timeout=PAGE_TIMEOUT_S, headers=headers)

    def get(self, path: str) -> str:
        """The text of one of the server's pages; raises httpx.HTTPError unless it answers with success."""
        return self._http.get(self.url + path).raise_for_status().text

    def post(self, path: str) -> None:
        """Ask for what a page does; may take as long as an answer. See `get` for errors."""
        self._http.post(self.url + path, timeout=ANSWER_TIMEOUT_S).raise_for_status()

    def prepare(self) -> None:
        """Import now what else the first request would wait for, and its clock count."""
        _ = self._openai

    def chat(self, prompt: Asked, max_tokens: int, **more: Any) -> Any:
        """One greedy answer to one user message, or to a conversation, as an openai `ChatCompletion`.

        Raises:
            EngineError: if the server refuses, or does not answer.
        """
        with self._errors_explained():
            return self._create(prompt, max_tokens, extra_body=more)

    def complete(self, context: Sequence[int], max_tokens: int, **more: Any) -> Any:
        """What follows these tokens, greedily, as an openai `Completion`; no chat template.

        Raises:
            EngineError: if the server refuses, or does not answer.
        """
        with self._errors_explained():
            return self._openai.completions.create(
                model=self.model, prompt=list(context), max_tokens=max_tokens, temperature=0.0,
                extra_body=more,
            )  # fmt: skip

    def stream(self, prompt: Asked, max_tokens: int) -> Iterator[Any]:
        """The same in pieces, as openai `ChatCompletionChunk`s; the last one holds the usage.

        Raises:
            EngineError: if the server refuses, or stops in the middle.
        """
        with self._errors_explained():
            yield from self._create(prompt, max_tokens, stream=True, stream_options={"include_usage": True})

    def _create(self, prompt: Asked, max_tokens: int, **more: Any) -> Any:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        return self._openai.chat.completions.create(
            model=self.model, messages=messages, max_tokens=max_tokens, temperature=0.0, **more
        )

    @cached_property
    def _openai(self) -> Any:
        from openai import OpenAI  # a second to import, which nobody pays who only starts a server

        key = self._api_key or "none"  # it insists on one
        return OpenAI(
            base_url=self.base_url, api_key=key, http_client=self._http, max_retries=0,
            timeout=ANSWER_TIMEOUT_S,
        )  # fmt: skip

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        from openai import APIConnectionError, APIError, APIStatusError

        try:
            yield
        except APIStatusError as error:
            kind = RefusedError if error.status_code in OF_THE_REQUEST else EngineError
            raise kind(f"the server refused: {error.response.text[:300]}") from error
        except (APIConnectionError, httpx.HTTPError) as error:
            raise EngineError(f"{self.base_url} stopped answering: {error}") from error
        except APIError as error:  # told within the stream: its status line was sent long ago
            raise EngineError(f"the server broke off: {error.message}") from error


class Running:
    """A server that somebody else has started: asked, and read where it shows its counters; never stopped.

    Args:
        url: such as `http://127.0.0.1:8000`; its first model is the one that is asked.

    Raises:
        EngineError: if nothing answers there, it wants a key, or it is no OpenAI-compatible server.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        url = url.rstrip("/").removesuffix("/v1")
        self.client = Client(url, "", api_key)
        try:
            self.client.model = str(json.loads(self.client.get("/v1/models"))["data"][0]["id"])
        except httpx.HTTPStatusError as error:
            code = error.response.status_code
            fix = "it wants a key: --api-key-file, or SPECBOOK_API_KEY" if code == 401 else "is it a server?"
            raise EngineError(f"{url}/v1/models answered {code}: {fix}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EngineError(f"no server answers at {url} ({error}): `specbook serve` starts one") from error
        except (ValueError, LookupError, TypeError) as error:
            raise EngineError(
                f"{url}/v1/models names no model: is it an OpenAI-compatible server?"
            ) from error
        self._engine = self._find_engine()

    @property
    def title(self) -> str:
        """What serves, so far as it says so, and where."""
        server = self._engine.title if self._engine else "a server"
        return f"{server} at {self.client.url}, {self.client.model}"

    def counters(self) -> Counters | None:
        """What it has counted since its start; None if it does not show that."""
        return self._engine.counters(self.client.get(self._engine.counters_path)) if self._engine else None

    def _find_engine(self) -> Engine | None:
        """The engine whose counters it shows."""
        for engine in known():
            with suppress(httpx.HTTPError, EngineError, ValueError):
                engine.counters(self.client.get(engine.counters_path))
                return engine
        return None
