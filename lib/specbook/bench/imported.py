"""Results of other load generators, as records of kind `imported`: see `records.run.LACKED`.

In: JSON of `vllm bench serve` with `--save-detailed`, of its sweep, and of GuideLLM, in vLLM's words.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from specbook import records
from specbook.bench import measure_point
from specbook.config.schema import Load, Point, Speculation, Target, Traffic, digest
from specbook.errors import ConfigError
from specbook.records.run import Hardware, Provenance, Round, RunRecord, SpecDecodeCounters, Utilisation

WRITE = "write it with `vllm bench serve --save-result --save-detailed` (0.32) or GuideLLM (0.7, 0.8)"
VLLM, GUIDELLM = {"model_id", "completed", "request_rate"}, {"metadata", "benchmarks"}
"""Keys by which a file is known."""
UNEVEN = "arrivals are neither a closed loop nor Poisson. To fix: --max-concurrency, or `kind=concurrent`"
REPORT_VERSION = 2
"""Of GuideLLM's reports, from its release 0.7 on."""
COLUMNS = "request_start_time", "request_latency", "output_tokens", "prompt_tokens", "time_to_first_token_ms"
"""Of GuideLLM's requests."""
UNSEEN = Utilisation(**dict.fromkeys(Utilisation.model_fields) | {"samples": 0})
UNKNOWN = Hardware(**dict.fromkeys(Hardware.model_fields) | {"id": "imported", "gpu_count": 0})
Found = tuple[dict[str, Any], measure_point.Window, pd.DataFrame]
"""Fields of a record, in whose point the restart is still 0; what was seen; and a row per request."""


def take(files: Sequence[Path], name: str, draft: Any = None) -> tuple[list[RunRecord], list[str]]:
    """Put the windows of these files on disk, all or none; returns their records, and what was left out.

    Args:
        name: the records' chapter, a folder of results/imported/.
        draft: the server's `--speculative-config`, where a file does not say.

    Raises:
        ConfigError: if a file cannot be read, is of another tool or version, was imported before, has no
            requests, or does not say what drafted.
    """
    held = {run.run_id: run.point for run in records.load(UNKNOWN.id, [name])}
    found, left_out = dict[str, Found](), list[str]()
    for path in files:
        try:
            if not (windows := [*_windows(path)]):
                raise ConfigError(f"it has no requests. To fix: {WRITE}")
            for window in windows:
                if not (load := _load(window)):
                    left_out.append(f"{path}: {UNEVEN}")
                    continue
                head, *rest = _read(window, load, name, draft)
                if (run_id := head["run_id"]) in held:
                    raise ConfigError(f"it is imported already, as {run_id}. To fix: another --name")
                found[run_id] = head, *rest
        except (ConfigError, OSError) as error:
            raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            why = str(error).splitlines()[0]
            raise ConfigError(f"{path} is of no known version ({why}). To fix: {WRITE}") from error
    if not found:
        raise ConfigError(left_out[0])
    restarts, made = Counter(map(_cell, held.values())), []
    for run_id, (head, seen, table) in sorted(found.items()):
        point = head["point"].model_copy(update={"restart": restarts[_cell(head["point"])]})
        restarts[_cell(point)] += 1
        got = measure_point.measurement(run_id, point, UNKNOWN.id, seen, table)
        made.append(RunRecord(**head | {"point": point, "key": point.key, "measurement": got}))
    for record in made:
        records.append(record)
    return made, left_out


def _cell(point: Point) -> tuple[str, ...]:
    """What runs share that count as restarts of each other."""
    return point.target.name, str(point.arm), point.load.label, point.traffic.domain


def _load(window: dict[str, Any]) -> Load | None:
    rate, n = float(window["request_rate"]), len(window["start_times"])
    poisson = math.isfinite(rate)
    if window.get("ramp_up_strategy") or (poisson and window["burstiness"] != 1):
        return None
    arrivals = {"request_rate_per_s": rate} if poisson else {"concurrency": window["max_concurrency"] or n}
    return Load(**arrivals, num_requests=n, num_warmups=0)


def _read(window: dict[str, Any], load: Load, name: str, draft: Any) -> Found:
    ids = window.get("prompt_ids") or [str(i) for i in range(load.num_requests)]
    table = measure_point.rows(window, ids, opening=int("chat" in window["backend"]))
    _check(window, table)
    asked = digest(window.get("asked") or sorted(window["input_lens"]), 8)
    stated, model = window.get("speculative_config") or draft, window["model_id"]
    stated = json.loads(stated) if isinstance(stated, str) else stated
    if (counted := _drafted(window)) and not stated:
        raise ConfigError("it has drafts, and does not say of which method. To fix: --speculative-config")
    longest = int((table["input_tokens"] + table["output_tokens"]).max())
    point = Point(
        chapter=name, load=load, restart=0,
        speculation=Speculation.model_validate(stated) if stated else None,
        target=Target(name=model, model=model, dtype="auto", max_model_len=max(16, longest)),
        traffic=Traffic(domain=f"prompts {asked}", max_tokens=int(table["output_tokens"].max())),
    )  # fmt: skip
    # By the clock of the place where vLLM ran, which is taken for this one's.
    started = datetime.strptime(window["date"], "%Y%m%d-%H%M%S").astimezone(UTC)
    run_id = f"{started:%Y%m%dT%H%M%SZ}-{digest(window, 12)}"  # the same whenever the file is read
    origin = Provenance(
        git_sha=None, git_dirty=None, versions=window.get("versions", {}), weights_sha256={}, server_env={},
        prompts_sha256=asked, server_command=(), bench_command=(), load_average_1min=None,
    )  # fmt: skip
    head = {
        "run_id": run_id, "kind": "imported", "status": "ok", "reason": None, "round": Round(id=run_id),
        "started_at": started.isoformat(timespec="seconds"), "point": point, "hardware": UNKNOWN,
        "provenance": origin,
    }  # fmt: skip
    return head, measure_point.Window(window, None, counted, UNSEEN), table


def _check(window: dict[str, Any], table: pd.DataFrame) -> None:
    """Raise now what writing would raise, when other files are on disk already."""
    measure_point.throughput(window)
    columns = *table["itl_s"], table["start_s"], table["ttft_s"], table["e2e_s"]
    if not np.isfinite(np.concatenate([np.asarray(own, dtype=float) for own in columns])).all():
        raise ValueError("a time that is no number")
    "".join(table["text"])


def _drafted(window: dict[str, Any]) -> SpecDecodeCounters | None:
    """What vLLM's load generator read from the server's counters."""
    if not (drafts := window.get("spec_decode_num_drafts")):
        return None
    shares = window["spec_decode_per_position_acceptance_rates"]
    return SpecDecodeCounters(
        num_drafts=drafts, num_draft_tokens=window["spec_decode_draft_tokens"],
        num_accepted_tokens=window["spec_decode_accepted_tokens"],
        num_accepted_tokens_per_pos=tuple(round(share * drafts) for share in shares),
    )  # fmt: skip


def _windows(path: Path) -> Iterator[dict[str, Any]]:
    """Those of a file: one, a sweep's list, a line each where vLLM appended, or a report of GuideLLM."""
    text = path.read_text(encoding="utf-8")
    try:
        body = json.loads(text)
    except ValueError:
        body = [json.loads(line) for line in text.splitlines()]
    for document in body if isinstance(body, list) else [body]:
        if document.keys() >= VLLM:
            if not (document["completed"] and document.get("start_times")):
                raise ConfigError("it has no answered requests. To fix: run vLLM's with --save-detailed")
            yield document
        elif document.keys() >= GUIDELLM:
            if (version := document["metadata"]["version"]) != REPORT_VERSION:
                raise ConfigError(f"its report has version {version}. To fix: {WRITE}")
            yield from (_translated(document, one) for one in document["benchmarks"])
        else:
            raise ConfigError(f"no tool has keys {sorted(document)[:3]}. To fix: {WRITE}")


def _translated(report: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """A window of GuideLLM in vLLM's words, without the requests that its end cut off.

    It keeps no gaps between chunks but their mean, which stands for each.
    """
    answered, failed = one["requests"]["successful"], one["requests"]["errored"]
    if not answered or len(answered) < one["metrics"]["request_totals"]["successful"]:
        raise ConfigError("requests were left out of it. To fix: run GuideLLM without a sample size")
    sent = sorted([*answered, *failed], key=lambda request: request["request_start_time"])
    column = {name: [request[name] or 0 for request in sent] for name in COLUMNS}
    starts, latencies, outputs = (column[name] for name in COLUMNS[:3])
    seconds = max(map(sum, zip(starts, latencies, strict=True))) - starts[0]
    how, spec = one["config"]["strategy"], report["config"]["spec"]
    kind, streams = how["type_"], {"synchronous": 1, "concurrent": how.get("streams")}
    return {
        "date": f"{datetime.fromtimestamp(starts[0]):%Y%m%d-%H%M%S}",
        "model_id": one["config"]["backend"]["model"], "backend": "guidellm",
        "request_rate": how.get("rate", "inf"), "burstiness": 1 if kind == "poisson" else None,
        "max_concurrency": streams.get(kind, how.get("max_concurrency")),
        "ramp_up_strategy": None if kind in (*streams, "throughput", "poisson") else kind,
        "start_times": starts, "latencies": latencies, "output_lens": outputs,
        "ttfts": [ms / 1e3 for ms in column["time_to_first_token_ms"]], "input_lens": column["prompt_tokens"],
        "itls": [_gaps(request["info"]["timings"]) for request in sent], "completed": len(answered),
        "generated_texts": [request["output"] or "" for request in sent], "failed": len(failed),
        "errors": [request["info"]["error"] for request in sent], "duration": seconds,
        "total_output_tokens": sum(outputs), "output_throughput": sum(outputs) / seconds,
        "asked": [spec["data"], spec["seed"]],
        "prompt_ids": [digest(request["request_args"], 12) for request in sent],
        "versions": {"guidellm": report["metadata"]["guidellm_version"]},
    }  # fmt: skip


def _gaps(times: dict[str, Any]) -> list[float]:
    if (later := times["token_iterations"] - 1) < 1:
        return []
    return [(times["last_token_iteration"] - times["first_token_iteration"]) / later] * later
