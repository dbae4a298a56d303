"""A small router before servers of one model: each request goes to one, its stream passes as it comes.

It keeps no policy: whoever holds it sets `preferred`. Requests in flight stay where they are. One that finds
no server at its address, or one whose engine is gone (status 5xx), goes to the next, since nothing of its
answer was sent yet; an answer that breaks off is broken off towards the client too, who must not take half of
it for the whole.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Self

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

from specbook.engine import preflight
from specbook.engine.streams import StreamReader
from specbook.errors import EngineError

START_S = 10.0
OWN_HEADERS = {"accept-encoding", "connection", "content-length", "host", "keep-alive", "transfer-encoding"}
"""Headers of one connection, and the one that asks for a compressed stream; all others are passed on."""
PLAIN = {"Accept-Encoding": "identity"}
"""A stream that is compressed comes later, and nobody here could see its end."""
MOST_BYTES = 64 * 2**20


class _ClientGoneError(Exception):
    """The client hung up in the middle of its answer."""


class Router:
    """Serves `/v1/...` at `url` from entry to exit of a `with` block, in a thread of its own.

    By server it counts requests `in_flight`, and answers: `served` whole, `broken` off after their first
    byte, and `left` by a client that did not wait.

    Args:
        servers: base URLs by name; the first is preferred to begin with.
        trial: (name, n): while another is preferred, each n-th request goes to this one; None for no trials.
        port: of 127.0.0.1; None for a free one.

    Raises:
        EngineError: if it does not start.
    """

    def __init__(
        self, servers: Mapping[str, str], *, trial: tuple[str, int] | None = None, port: int | None = None
    ) -> None:
        self._servers, self._trial = dict(servers), trial
        self.preferred = next(iter(self._servers))
        # Every name from the start: other threads look meanwhile, and no dictionary may grow then.
        self.in_flight, self.served, self.broken, self.left = (
            Counter(dict.fromkeys(self._servers, 0)) for _ in range(4)
        )
        self._port = port or preflight.free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._asked = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="router", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_S)
        except OSError as error:
            self.__exit__()
            raise EngineError(f"the router cannot listen at {self.url}: {error.strerror}") from error
        return self

    def __exit__(self, *_: object) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(START_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(START_S)
            self._loop.close()

    async def _start(self) -> None:
        whole = ClientTimeout(total=None, sock_connect=START_S)
        self._session = ClientSession(
            timeout=whole, connector=TCPConnector(limit=0), auto_decompress=False, trust_env=False
        )
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_route("*", "/v1/{rest:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    def _order(self) -> list[str]:
        """The server that this request is for, then the others."""
        self._asked += 1
        first = self.preferred
        if self._trial and self._asked % self._trial[1] == 0:
            first = self._trial[0]
        return [first, *(name for name in self._servers if name != first)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body, why = await request.read(), []
        for name in self._order():
            answer = web.StreamResponse()
            self.in_flight[name] += 1
            try:
                await self._pass_on(name, request, body, answer)
                self.served[name] += 1
                return answer
            except _ClientGoneError:
                self.left[name] += 1
                return answer
            except (ClientError, TimeoutError) as error:
                if answer.prepared:
                    self.broken[name] += 1
                    with suppress(AttributeError):  # the client has gone already
                        request.transport.abort()
                    return answer
                why.append(f"{name} at {self._servers[name]}: {error}")
            finally:
                self.in_flight[name] -= 1
        message = f"no server answers ({'; '.join(why)}): start one of them again"
        return web.Response(
            status=503, text=json.dumps({"error": {"message": message}}), content_type="application/json"
        )

    async def _pass_on(
        self, name: str, request: web.Request, body: bytes, answer: web.StreamResponse
    ) -> None:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in OWN_HEADERS} | PLAIN
        url = self._servers[name] + request.path_qs
        async with self._session.request(request.method, url, data=body, headers=headers) as upstream:
            if upstream.status >= web.HTTPInternalServerError.status_code:
                raise ClientError(f"it answered {upstream.status}")
            answer.set_status(upstream.status, upstream.reason)
            for key, value in upstream.headers.items():
                if key.lower() not in OWN_HEADERS:
                    answer.headers[key] = value
            streams = upstream.content_type == "text/event-stream"
            reader = StreamReader()
            with _unless_gone(whole=False):
                await answer.prepare(request)
            async for piece in upstream.content.iter_any():
                if streams:
                    reader.feed(piece)
                with _unless_gone(whole=reader.done):
                    await answer.write(piece)
                if reader.error:  # an event that the last one may follow all the same
                    raise ClientError(reader.error)
            reader.end()
            if streams and (problem := reader.problem()):
                raise ClientError(f"it {problem}")
        with _unless_gone(whole=True):
            await answer.write_eof()


@contextmanager
def _unless_gone(*, whole: bool) -> Iterator[None]:
    """A client may hang up once it has the last event, and if it does so before it has left."""
    try:
        yield
    except ConnectionResetError as error:
        if not whole:
            raise _ClientGoneError from error
