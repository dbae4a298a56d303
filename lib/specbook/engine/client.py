"""A client of a server: its own pages, and chat with it, whole or as it streams."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from specbook.engine import connection
from specbook.engine.connection import PAGE_TIMEOUT_S, UNREACHED
from specbook.engine.streams import Piece, StreamReader
from specbook.errors import EngineError, RefusedError

ANSWER_TIMEOUT_S = 600
ANSWER_TIMEOUT = httpx.Timeout(ANSWER_TIMEOUT_S, connect=PAGE_TIMEOUT_S)
OF_THE_REQUEST = (400, 413, 422)
"""Answers that speak of one request, not of the server or the key."""
MOST_REDIRECTS = 5
USAGE = "stream_options"
"""What asks for the number of tokens; not every server takes it."""
Asked = str | Sequence[Mapping[str, Any]]
"""One user message, or the turns of a conversation as OpenAI's chat API takes them."""


class Stream(Iterator[Piece]):
    """Pieces of one answer, as they come."""

    def __init__(self, answer: Callable[["Stream"], Iterator[Piece]]) -> None:
        self._pieces = answer(self)
        self.sent_s = 0.0
        """`time.perf_counter()` when the request was sent that is answered."""
        self.reads = 0
        """Reads of the network that brought a token."""
        self.reader = StreamReader()

    def __next__(self) -> Piece:
        return next(self._pieces)


class Client:
    """Talks to the server at `url` as a client that may hold its API key; usable from several threads.

    Args:
        url: where its own pages are.
        model: which is asked.
        api_key: None where it wants none.
        ca: see `connection.http_client`.
    """

    def __init__(self, url: str, model: str, api_key: str | None, ca: Path | None = None) -> None:
        self.url, self.base_url, self.model, self._api_key = url, f"{url}/v1", model, api_key
        self._http = connection.http_client(url, api_key, ca)
        self._refuses_usage = False

    def get(self, path: str) -> str:
        """The text of one of the server's pages; raises httpx.HTTPError unless it answers with success."""
        return self.page(self.url + path).text

    def page(self, url: str) -> httpx.Response:
        """What a GET gives; follows redirects within its server, which alone gets the key. See `get` for
        errors."""
        response = self._http.get(url)
        for _ in range(MOST_REDIRECTS):
            following = response.next_request
            if following is None or _origin(following.url) != _origin(response.url):
                break
            response = self._http.send(following)
        return response.raise_for_status()

    def post(self, path: str) -> None:
        """Ask for what a page does; may take as long as an answer. See `get` for errors."""
        self._http.post(self.url + path, timeout=ANSWER_TIMEOUT_S).raise_for_status()

    def chat(self, prompt: Asked, max_tokens: int, **more: Any) -> httpx.Response:
        """One greedy answer to a user message or a conversation; EngineError if the server gives none."""
        return self._answer("chat/completions", self._request(prompt, max_tokens) | more)

    def complete(self, context: Sequence[int], max_tokens: int, **more: Any) -> httpx.Response:
        """What follows these tokens, greedily; no chat template. See `chat` for errors."""
        asked = {"model": self.model, "prompt": list(context), "max_tokens": max_tokens, "temperature": 0.0}
        return self._answer("completions", asked | more)

    def stream(self, prompt: Asked, max_tokens: int) -> Stream:
        """The same in pieces, by `streams.StreamReader`; the stream's `reader` has the usage at the end.

        Raises:
            EngineError: if the server refuses, or stops in the middle.
        """
        body = self._request(prompt, max_tokens) | {"stream": True}
        return Stream(lambda stream: self._pieces(stream, body))

    def _answer(self, path: str, body: dict[str, Any]) -> httpx.Response:
        with self._errors_explained():
            response = self._http.post(f"{self.base_url}/{path}", json=body, timeout=ANSWER_TIMEOUT)
        if not response.is_success:
            raise self._refused(response)
        return response

    def _request(self, prompt: Asked, max_tokens: int) -> dict[str, Any]:
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
        return {"model": self.model, "messages": messages, "max_tokens": max_tokens, "temperature": 0.0}

    def _pieces(self, stream: Stream, body: dict[str, Any]) -> Iterator[Piece]:
        usage = {} if self._refuses_usage else {USAGE: {"include_usage": True}}
        try:
            yield from self._sent(stream, body | usage)
        except RefusedError as error:  # before its first piece
            if not usage or USAGE not in str(error):
                raise
            self._refuses_usage = True
            yield from self._sent(stream, body)

    def _sent(self, stream: Stream, body: dict[str, Any]) -> Iterator[Piece]:
        plain = {"Accept-Encoding": "identity"}  # who compresses a stream holds it back
        stream.sent_s = time.perf_counter()
        with (
            self._errors_explained(),
            self._http.stream(
                "POST", f"{self.base_url}/chat/completions", json=body, timeout=ANSWER_TIMEOUT, headers=plain
            ) as response,
        ):
            if not response.is_success:
                response.read()
                raise self._refused(response)
            for data in response.iter_bytes():
                pieces = stream.reader.feed(data)
                stream.reads += any(piece.has_token for piece in pieces)
                yield from pieces
                if stream.reader.done or stream.reader.error:  # some keep the connection open after it
                    break
            yield from stream.reader.end()
        if problem := stream.reader.problem():
            raise EngineError(connection.hidden(f"{self.base_url} {problem}", self._api_key))

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except UNREACHED as error:
            why = connection.failure(error)
            raise EngineError(f"{self.base_url} stopped answering: {why}") from error

    def _refused(self, response: httpx.Response) -> EngineError:
        if response.status_code in OF_THE_REQUEST:
            words = connection.hidden(connection.words(response), self._api_key)
            return RefusedError(f"the server refused: {words}")
        return EngineError(f"the server refused with {connection.refusal(response, self._api_key)}")


def output_tokens(answer: httpx.Response) -> int:
    """Output tokens of what `Client.chat` gave, be it a stream that nobody asked for.

    Raises:
        EngineError: if it does not say how many.
    """
    reader = StreamReader()
    reader.feed(answer.content)
    reader.end()
    if problem := reader.problem():
        raise EngineError(f"the server {problem}")
    if not reader.output_tokens:
        raise EngineError("the server does not say how long its answer is: it sends no usage")
    return reader.output_tokens


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
