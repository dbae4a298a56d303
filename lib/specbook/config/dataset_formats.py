"""Rows of a prompt file, in whichever of the common data sets' forms they come; the keys tell which.

| data set | a row | becomes |
|---|---|---|
| ShareGPT | `{"conversations": [{"from": "human", "value": "..."}]}` | system prompt, first question |
| MT-Bench, SPEED-Bench | `{"question_id", "category", "turns": ["..."]}` | the first turn |
| GSM8K | `{"question", "answer"}` | the question |
| HumanEval | `{"task_id", "prompt", "entry_point", ...}`, compressed | the prompt |
| BFCL | `{"id", "question": [[{"role", "content"}]], "function": [{...}]}` | functions and first turn |
| Alpaca | `{"instruction", "input", "output"}` | the instruction, and its input |
| a log of requests | `{"body": {"messages": [...]}}`, or `request` in place of `body` | the messages |
| a table | `{"question"}`, `{"query"}`, `{"text"}` or `{"instruction"}` | that column |

Later turns would answer what another model said, so they are left out.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specbook.errors import ConfigError

ASKS = {"human", "user"}
"""Who begins a conversation of ShareGPT that can be asked; other rows go on from a longer one."""
SYSTEM = {"system", "developer"}
"""Who may speak before that."""
COLUMNS = ("question", "query", "text", "instruction")
"""Where a table has its prompt, if not under `prompt`."""
GZIP = b"\x1f\x8b"


class LeftOutError(Exception):
    """A row in which nothing is asked, or what is asked cannot be sent; the message is the reason."""


TOOLS = (
    "You can call these functions, given as JSON. Answer with nothing but the calls that the question "
    "needs, as [name(parameter=value, ...), ...].\n\n{functions}"
)
"""What stands before a question of BFCL, as its own prompts have it in more words."""


def rows(path: Path, form: str) -> Iterator[tuple[str, Any]]:
    """(where it stands, the row) of each line that is not blank; of each element where it is one JSON array.

    Args:
        path: `.jsonl`, `.json`, `.csv` or `.parquet`; but for the last they may be compressed by gzip.
        form: what a line should look like, for messages.

    Raises:
        ConfigError: if it cannot be read, or something in it is not JSON (naming the line).
    """
    if path.suffix == ".parquet":
        yield from _of_parquet(path)
        return
    try:
        data = path.read_bytes()
        packed = path.suffix == ".gz" or data.startswith(GZIP)
        text = (gzip.decompress(data) if packed else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(f"prompts {path} cannot be read ({error}): fix `prompts` or `domain`") from error
    if ".csv" in path.suffixes:
        for number, row in enumerate(csv.DictReader(io.StringIO(text, newline="")), start=1):
            yield f"{path}, row {number}", _unpacked(row)
        return
    if (several := _array(path, text, form)) is not None:
        for number, row in enumerate(several, start=1):
            yield f"{path}, element {number}", row
        return
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines would part JSON at U+2028 too
        if line.strip():
            where = f"{path}, line {number}"
            yield where, _parsed(where, line, form)


def _of_parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow  # half a second, which other files need not pay
    from pyarrow import parquet

    try:
        table = parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise ConfigError(f"prompts {path} cannot be read ({error}): fix `prompts` or `domain`") from error
    for number, row in enumerate(table, start=1):
        yield f"{path}, row {number}", _unpacked(row)


def _unpacked(row: Mapping[Any, Any]) -> dict[Any, Any]:
    """A row of a table without its empty cells; a conversation in a cell is written as JSON."""
    cells = {key: value for key, value in row.items() if value not in (None, "")}
    for key in {"messages", "conversations"} & set(cells):
        if isinstance(cells[key], str):
            try:
                cells[key] = json.loads(cells[key])
            except ValueError:
                continue  # the reader of the row says what it wants there
    return cells


def _array(path: Path, text: str, form: str) -> list[Any] | None:
    """The elements of a file that is one JSON array, be it named so or not; None for lines of JSON."""
    if not text.lstrip().startswith("["):
        return None
    if ".json" in path.suffixes:
        return _parsed(f"prompts {path}", text, form)
    try:
        elements = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return elements if elements and all(isinstance(row, Mapping) for row in elements) else None


def _parsed(where: str, text: str, form: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where} is not JSON ({error}). {form}") from error


def plain(row: Any) -> Any:
    """The row as `config.prompt_files` reads it, in any of the forms above; anything else as it is.

    Raises:
        LeftOutError: if nothing is asked in it.
    """
    if not isinstance(row, Mapping):
        return row
    for inside in ("body", "request"):
        if isinstance(row.get(inside), Mapping) and "messages" in row[inside]:
            outside = {key: row[key] for key in ("id", "domain", "category") if key in row}
            return {"id": row.get("custom_id")} | outside | dict(row[inside])
    if row.get("messages") is not None:
        return row
    if isinstance(conversation := row.get("conversations"), list):
        return _first_said(conversation)
    if isinstance(turns := row.get("turns"), list) and turns:
        return {"id": row.get("question_id"), "prompt": turns[0], "category": row.get("category")}
    if {"question", "function"} <= set(row):
        tools = {"role": "system", "content": TOOLS.format(functions=json.dumps(row["function"]))}
        return {"id": row.get("id"), "messages": [tools, *row["question"][0]]}
    if {"question", "answer"} <= set(row) and "prompt" not in row:
        return {"prompt": row["question"]}
    if {"task_id", "entry_point"} <= set(row):
        return {"id": row["task_id"], "prompt": row.get("prompt")}
    column = next((name for name in COLUMNS if isinstance(row.get(name), str)), None)
    if row.get("prompt") is None and column:
        beside = row.get("input") if column == "instruction" else None
        return {**row, "prompt": f"{row[column]}\n\n{beside}" if beside else row[column]}
    return row


def _first_said(turns: list[Any]) -> Any:
    """The system prompt, if there is one, and what was asked first."""
    spoken = [turn for turn in turns if isinstance(turn, Mapping)]
    who = [str(turn.get("from") or turn.get("role") or "") for turn in spoken]
    text = [str(turn.get("value") or turn.get("content") or "") for turn in spoken]
    start = next((place for place, name in enumerate(who) if name not in SYSTEM), len(who))
    if start == len(who):
        raise LeftOutError("nobody asks in its conversation")
    if who[start] not in ASKS:
        raise LeftOutError(f"its conversation begins with {who[start]!r}")
    if not text[start].strip():
        raise LeftOutError("its first question is empty")
    if start == 0:
        return {"prompt": text[0]}
    system = [{"role": "system", "content": one} for one in text[:start] if one.strip()]
    return {"messages": [*system, {"role": "user", "content": text[start]}]}
