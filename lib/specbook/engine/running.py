"""A server that somebody else has started: which of its models is asked, where its API is, what it counts."""

from collections.abc import Mapping
from pathlib import Path

import httpx

from specbook.engine import connection
from specbook.engine.base import Counters, Engine, known
from specbook.engine.client import Client
from specbook.engine.connection import UNREACHED
from specbook.errors import ConfigError, EngineError
from specbook.suggestions import near

NOT_THERE = (404, 405, 501)
"""Answers of a server that has no such page."""


class _NoListError(EngineError):
    """There is no list of models at this place."""


class Running:
    """A server that runs already: asked, and read where it shows its counters; never stopped.

    Args:
        url: such as `http://127.0.0.1:8000`, with the prefix of its path if there is one, and /v1 or not.
        api_key: None where it wants none.
        model: which of its models is asked; None for the first that it names.
        ca: see `connection.http_client`.

    Raises:
        ConfigError: if the address, the certificates or a proxy cannot be used, or it has no such model.
        EngineError: if nothing answers there, it wants a key, or it is no OpenAI-compatible server.
    """

    def __init__(
        self, url: str, api_key: str | None = None, *, model: str | None = None, ca: Path | None = None
    ) -> None:
        url = connection.address(url)
        self.client = Client(url.removesuffix("/v1"), model or "", api_key, ca)
        self._api_key, self._chosen = api_key, model is not None
        self._models = self._find_models(dict.fromkeys((self.client.base_url, url)))
        if model is None:
            self.client.model = self._models[0]
        elif self._models and model not in self._models and not any("*" in name for name in self._models):
            raise ConfigError(f"{self.client.url} has no model {model!r}{near(model, self._models)}")
        self._engine = self._find_engine()

    @property
    def title(self) -> str:
        """What serves, so far as it says so, where, and which of its models is asked."""
        server = self._engine.title if self._engine else "a server"
        title = f"{server} at {self.client.url}, {self.client.model}"
        if self._chosen or len(self._models) == 1:
            return title
        return f"{title} (the first of {len(self._models)} models: --model names another)"

    def counters(self) -> Counters | None:
        """What it has counted for its model since its start; None if it does not show that.

        Raises:
            EngineError: if it shows it no longer.
        """
        if self._engine is None:
            return None
        place = self.client.url + self._engine.counters_path
        try:
            page = self.client.get(self._engine.counters_path)
        except UNREACHED as error:
            raise EngineError(f"{place} can no longer be read: {connection.failure(error)}") from error
        counters = self._engine.page_counters(page, self.client.model)
        if counters is None:
            raise EngineError(f"{place} is not {self._engine.title}'s now: several servers share the address")
        return counters

    def _find_models(self, bases: Mapping[str, None]) -> list[str]:
        """The models that it names at the first of these places that has a list; there its API is, too.

        Empty where none has one, and a model was named.
        """
        problems = []
        for base in bases:
            try:
                return self._listed(base)
            except _NoListError as error:
                problems.append(error)
        if self._chosen:
            return []
        raise problems[0]

    def _listed(self, base: str) -> list[str]:
        place = f"{base}/models"
        try:
            response = self.client.page(place)
        except httpx.HTTPStatusError as error:
            kind = _NoListError if error.response.status_code in NOT_THERE else EngineError
            raise kind(f"{place} answered {connection.refusal(error.response, self._api_key)}") from error
        except UNREACHED as error:
            why = connection.failure(error)
            raise EngineError(
                f"no server answers at {self.client.url} ({why}): `specbook serve` starts one"
            ) from error
        if not (names := _names(response)):
            raise _NoListError(
                f"{place} names no model: is it an OpenAI-compatible server? If it is, give --model"
            )
        base = str(response.url).rstrip("/").removesuffix("/models")  # where a redirect led to
        self.client.base_url, self.client.url = base, base.removesuffix("/v1")
        return names

    def _find_engine(self) -> Engine | None:
        """The engine whose counters it shows."""
        for engine in known():
            try:
                page = self.client.get(engine.counters_path)
            except UNREACHED:
                continue
            if engine.page_counters(page, self.client.model) is not None:
                return engine
        return None


def _names(response: httpx.Response) -> list[str]:
    """Names of the models in a list as OpenAI's API gives it; none in anything else."""
    try:
        listed = response.json()["data"]
        names = [one.get("id") or one.get("name") if isinstance(one, Mapping) else one for one in listed]
    except (ValueError, LookupError, TypeError):
        return []
    return [name for name in names if isinstance(name, str) and name]
