"""vLLM's load generator kept alive between points: its imports take 10 s, a point often less.

Run by path (`python -P load_worker.py LOG`). Jobs come in as JSON lines,
`{"argv": [...], "api_key": ...}`; each is answered by one, `{"error": null}`. What vLLM prints goes to
LOG. It ends with its input.
"""

import gc
import json
import os
import queue
import sys
import threading
import traceback


def _answers(log: str) -> int:
    """Keep the real standard output for answers; what libraries print goes to the log."""
    answers = os.dup(1)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    return answers


def _read_jobs(jobs: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)  # the owner closed the pipe or died: stop, even in the middle of a job


def _run(main, parser, job: dict) -> str | None:
    """Run one job; returns what went wrong."""
    os.environ["OPENAI_API_KEY"] = job["api_key"] or ""
    try:
        main(parser.parse_args(job["argv"]))
    except SystemExit as error:
        return f"vllm bench serve refused its arguments (exit {error.code})"
    except Exception as error:
        traceback.print_exc()  # to the log: the answer has room for one line
        return f"{type(error).__name__}: {error}"
    return None


def _take_conversations() -> None:
    """The custom dataset knows prompts of one turn: a row's `chat_messages` become its request's."""
    from vllm.benchmarks.datasets import CustomDataset

    sample = CustomDataset.sample

    def with_turns(self, *args, **more):
        requests = sample(self, *args, **more)
        for request, row in zip(requests, self.data, strict=False):
            turns = row.get("chat_messages")
            request.chat_messages = turns if isinstance(turns, list) else None
        return requests

    CustomDataset.sample = with_turns


def serve(log: str) -> None:
    """Answer `{"error": null}` once ready, then once per job."""
    answers, jobs = _answers(log), queue.Queue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    gc.disable()  # imports leave next to nothing behind, and to look for it takes a third of their time
    from vllm.benchmarks.serve import add_cli_args, main
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    gc.enable()
    gc.collect()  # now, and not in a window
    _take_conversations()
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    outcome = None
    while True:
        sys.stdout.flush()
        os.write(answers, (json.dumps({"error": outcome}) + "\n").encode())
        outcome = _run(main, parser, json.loads(jobs.get()))


if __name__ == "__main__":
    serve(sys.argv[1])
