"""As much of the wheel as its server takes: settings, and a server that shows a recorded page. A model whose
name has `broken` cannot be loaded."""

import threading
from enum import IntEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

PAGE = Path(__file__).parents[1] / "data" / "llama-metrics.txt"


class common_speculative_type(IntEnum):  # noqa: N801 - the wheel's name
    COMMON_SPECULATIVE_TYPE_NONE = 0
    COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE = 6


class CommonParams(SimpleNamespace):
    def __init__(self):
        super().__init__(
            model=SimpleNamespace(path=""), model_alias=set(), hostnames=["0.0.0.0"], port=0, n_parallel=1,
            n_ctx=0, cache_prompt=True, cache_ram_mib=8192, cache_idle_slots=True, endpoint_metrics=False,
            fit_params=True, ui=True, api_keys=[],
            sampling=SimpleNamespace(seed=-1, top_k=40, top_p=0.95, min_p=0.05),
            speculative=SimpleNamespace(
                types=[common_speculative_type.COMMON_SPECULATIVE_TYPE_NONE],
                ngram_simple=SimpleNamespace(size_n=12, size_m=48),
            ),
        )  # fmt: skip


class Server:
    def __init__(self, params):
        if "broken" in params.model.path:
            print("0.01.002 E srv    load_model: failed to load model", flush=True)
            raise RuntimeError("server could not start")

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                key = self.headers.get("Authorization", "").removeprefix("Bearer ")
                allowed = self.path == "/health" or not params.api_keys or key in params.api_keys
                self.send_response(200 if allowed else 401)
                self.end_headers()
                self.wfile.write(PAGE.read_bytes() if allowed and self.path == "/metrics" else b"{}")

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer((params.hostnames[0], params.port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
