"""A server that somebody else has started: asked, and read where it shows its counters; never stopped."""

from contextlib import suppress

import httpx

from specbook.engine import registry
from specbook.engine.base import Counters, Engine
from specbook.engine.client import Client
from specbook.errors import EngineError


class Running:
    """The server at `url`, such as `http://127.0.0.1:8000`, and the first model that it serves.

    Raises:
        EngineError: if nothing answers there, it wants a key, or it is no OpenAI-compatible server.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        url = url.rstrip("/").removesuffix("/v1")
        try:
            with httpx.Client(trust_env=False, timeout=10) as client:
                headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
                answer = client.get(f"{url}/v1/models", headers=headers).raise_for_status()
            model = str(answer.json()["data"][0]["id"])
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
        self.client = Client(url, model, api_key)
        self._engine = self._find_engine()

    @property
    def title(self) -> str:
        """What serves, so far as it says so, and where."""
        return (
            f"{self._engine.title if self._engine else 'a server'} at {self.client.url}, {self.client.model}"
        )

    def counters(self) -> Counters | None:
        """What it has counted since its start; None if it does not show that."""
        return self._engine.counters(self.client.get(self._engine.counters_path)) if self._engine else None

    def _find_engine(self) -> Engine | None:
        """The engine whose counters it shows."""
        for engine in registry.known():
            with suppress(httpx.HTTPError, EngineError, ValueError):
                engine.counters(self.client.get(engine.counters_path))
                return engine
        return None
