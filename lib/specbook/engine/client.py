"""One HTTP client for a server: its own pages, and chat over OpenAI's client."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import httpx

from specbook.errors import EngineError, RefusedError

ANSWER_TIMEOUT_S = 600
PAGE_TIMEOUT_S = 10
OF_THE_REQUEST = (400, 413, 422)
"""Answers that speak of one request, not of the server or the key."""
Asked = str | Sequence[Mapping[str, str]]
"""One user message, or the turns of a conversation as OpenAI's chat API takes them."""


class Client:
    """Talks to the server at `url` as a client that may hold its API key; usable from several threads."""

    def __init__(self, url: str, model: str, api_key: str | None) -> None:
        self.url, self.base_url, self.model, self._api_key = url, f"{url}/v1", model, api_key
        # Each new one reads certificates that plain http never needs: one for the server's life, without.
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.Client(trust_env=False, verify=False, timeout=PAGE_TIMEOUT_S, headers=headers)

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
        with self._told():
            return self._create(prompt, max_tokens, extra_body=more)

    def complete(self, context: Sequence[int], max_tokens: int, **more: Any) -> Any:
        """What follows these tokens, greedily, as an openai `Completion`; no chat template.

        Raises:
            EngineError: if the server refuses, or does not answer.
        """
        with self._told():
            return self._openai.completions.create(
                model=self.model, prompt=list(context), max_tokens=max_tokens, temperature=0.0,
                extra_body=more,
            )  # fmt: skip

    def stream(self, prompt: Asked, max_tokens: int) -> Iterator[Any]:
        """The same in pieces, as openai `ChatCompletionChunk`s; the last one holds the usage.

        Raises:
            EngineError: if the server refuses, or stops in the middle.
        """
        with self._told():
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
            base_url=self.base_url,
            api_key=key,
            http_client=self._http,
            max_retries=0,
            timeout=ANSWER_TIMEOUT_S,
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
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
