"""The echo engine's server: `serve.py PORT K [HOW]`. A word is a token; a step says up to K + 1 of them.

Like a real one it has a process of its own, in a session of its own. How: `slowly` takes minutes to start,
`silently` counts and never answers, `steadily` waits before each step.
"""

import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, K = int(sys.argv[1]), int(sys.argv[2])
HOW = sys.argv[3] if sys.argv[3:] else None
COUNTS = {"heard": 0, "said": 0, "answers": 0, "guesses": 0, "guessed_right_by_place": [0] * K}
KEY = os.environ.get("ECHO_KEY")
LOCK = threading.Lock()
STEP_S = 0.002


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/up":
            return self.answer(200, {})
        if self.path == "/v1/models":
            return self.answer(200, {"data": [{"id": "echo"}]})
        with LOCK:
            return self.answer(200, COUNTS)

    def do_POST(self):
        if HOW == "silently":
            time.sleep(600)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if KEY and self.headers.get("Authorization") != f"Bearer {KEY}":
            return self.answer(401, {"error": {"message": "wrong key"}})
        said = body["messages"][-1]["content"]
        heard = (said if isinstance(said, str) else said[0]["text"]).split()
        words = heard[: body.get("max_completion_tokens") or body.get("max_tokens")]
        steps = [words[i : i + K + 1] for i in range(0, len(words), K + 1)]
        count(heard, steps)
        usage = {"prompt_tokens": len(heard), "completion_tokens": len(words), "total_tokens": 0}
        if body.get("stream"):
            return self.stream(steps, usage)
        message = {"role": "assistant", "content": " ".join(words)}
        ids = {"prompt_token_ids": list(map(len, heard))}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "token_ids": list(map(len, words))}
        return self.answer(200, {"choices": [choice], "usage": usage, **ids})

    def stream(self, steps, usage):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.say({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for step in steps:
            time.sleep(STEP_S if HOW == "steadily" else 0)
            self.say({"choices": [{"index": 0, "delta": {"content": " ".join(step) + " "}}]})
        self.say({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def say(self, event):
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def count(heard, steps):
    with LOCK:
        COUNTS["heard"] += len(heard)
        COUNTS["said"] += sum(map(len, steps))
        COUNTS["answers"] += 1
        for step in steps if K else ():
            COUNTS["guesses"] += 1
            for place in range(len(step) - 1):
                COUNTS["guessed_right_by_place"][place] += 1


if HOW not in (None, "slowly", "silently", "steadily"):
    sys.exit(f"I cannot say {HOW}")
subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(600)"], start_new_session=True)
if HOW == "slowly":
    time.sleep(600)
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
