"""The key for every route: vLLM asks for it below /v1 only, and completes at /invocations without."""

import os
from collections.abc import Awaitable

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from vllm.entrypoints.serve.middleware.authenticate import AuthenticationMiddleware

from specbook.engine.base import OPEN_PATHS
from specbook.errors import ConfigError


class Door(AuthenticationMiddleware):
    """vLLM's own check of the key, on all paths but those named in OPEN_PATHS; as vLLM's, none without a key.

    Raises:
        ConfigError: for a key that is empty, which "Bearer " would open: the server answers nobody then.
    """

    def __init__(self, app: ASGIApp) -> None:
        key = os.environ.get("VLLM_API_KEY")
        if key is not None and not key.strip():
            raise ConfigError(
                "VLLM_API_KEY is empty: write a key into it, or leave it out to serve everybody"
            )
        super().__init__(app, [] if key is None else [key])
        self._open = set(os.environ.get(OPEN_PATHS, "").split())

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer 401, or let the request through."""
        asked = scope["type"] in ("http", "websocket") and scope.get("method") != "OPTIONS"
        guarded = asked and self.api_tokens and scope["path"].rstrip("/") not in self._open
        if guarded and not self.verify_token(Headers(scope=scope)):
            return JSONResponse({"error": "Unauthorized"}, status_code=401)(scope, receive, send)
        return self.app(scope, receive, send)
