"""The worker of the echo engine's load generator: jobs in, answers out."""

import json
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise


def ask(url: str, model: str, line: str) -> dict:
    """One request, with what a load generator notes of it."""
    row = json.loads(line)
    body = {"model": model, "max_tokens": row["output_tokens"], "stream": True,
            "messages": [{"role": "user", "content": row["prompt"]}]}  # fmt: skip
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode())
    started, seen = time.perf_counter(), []
    with urllib.request.urlopen(request, timeout=30) as answer:
        lines = []
        for each in answer:
            if each.startswith(b"data: {"):
                seen.append(time.perf_counter())
                lines.append(json.loads(each[6:]))
    usage = next(each["usage"] for each in lines if each.get("usage"))
    said = [each["choices"][0]["delta"].get("content", "") for each in lines if each["choices"]]
    return {
        "start": started, "ttft": seen[0] - started, "itl": [b - a for a, b in pairwise(seen)],
        "e2e": seen[-1] - started, "text": "".join(said), "input": usage["prompt_tokens"],
        "output": usage["completion_tokens"],
    }  # fmt: skip


def run(argv: list[str]) -> None:
    """One window: each line of the dataset once."""
    url, model, dataset, result, concurrency = argv
    with open(dataset, encoding="utf-8") as file, ThreadPoolExecutor(int(concurrency)) as pool:
        began = time.perf_counter()
        rows = list(pool.map(lambda line: ask(url, model, line), file))
    duration = time.perf_counter() - began
    tokens = sum(row["output"] for row in rows)
    many = {"start_times": "start", "ttfts": "ttft", "itls": "itl", "latencies": "e2e", "input_lens": "input",
            "output_lens": "output", "generated_texts": "text"}  # fmt: skip
    found = {name: [row[key] for row in rows] for name, key in many.items()}
    found |= {"duration": duration, "completed": len(rows), "failed": 0, "errors": [""] * len(rows),
              "total_output_tokens": tokens, "total_input_tokens": sum(found["input_lens"]),
              "output_throughput": tokens / duration}  # fmt: skip
    with open(result, "w", encoding="utf-8") as file:
        json.dump(found, file)


def main() -> None:
    """Ready at once; ends with its input."""
    print(json.dumps({"error": None}), flush=True)
    for line in sys.stdin:
        try:
            run(json.loads(line)["argv"])
            error = None
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
        print(json.dumps({"error": error}), flush=True)


main()
