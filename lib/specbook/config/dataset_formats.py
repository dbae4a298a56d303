"""Rows of a prompt file, in whichever of the common data sets' forms they come; the keys tell which.

| data set | a row | becomes |
|---|---|---|
| ShareGPT, one JSON array | `{"conversations": [{"from": "human", "value": "..."}]}` | what was said first |
| MT-Bench, SPEED-Bench | `{"question_id", "category", "turns": ["..."]}` | the first turn |
| GSM8K | `{"question", "answer"}` | the question |
| HumanEval | `{"task_id", "prompt", "entry_point", ...}`, compressed | the prompt |
| BFCL | `{"id", "question": [[{"role", "content"}]], "function": [{...}]}` | functions and first turn |

Later turns would answer what another model said, so they are left out.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specbook.errors import ConfigError

ASKS = {"human", "user"}
"""Who begins a conversation of ShareGPT that can be asked; other rows go on from a longer one."""

TOOLS = (
    "You can call these functions, given as JSON. Answer with nothing but the calls that the question "
    "needs, as [name(parameter=value, ...), ...].\n\n{functions}"
)
"""What stands before a question of BFCL, as its own prompts have it in more words."""


def rows(path: Path, form: str) -> Iterator[tuple[str, Any]]:
    """(where it stands, the row) of each line that is not blank; of each element where it is one JSON array.

    Args:
        path: `.jsonl`, `.json`, or either compressed as `.gz`.
        form: what a line should look like, for messages.

    Raises:
        ConfigError: if it cannot be read, or something in it is not JSON (naming the line).
    """
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompts {path} cannot be read ({error}): fix `prompts` or `domain`") from error
    if ".json" in path.suffixes and text.lstrip().startswith("["):
        for number, row in enumerate(_parsed(f"prompts {path}", text, form), start=1):
            yield f"{path}, element {number}", row
        return
    for number, line in enumerate(text.split("\n"), start=1):  # splitlines would part JSON at U+2028 too
        if line.strip():
            where = f"{path}, line {number}"
            yield where, _parsed(where, line, form)


def _parsed(where: str, text: str, form: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{where} is not JSON ({error}). {form}") from error


def plain(row: Any) -> Any:
    """The row as `config.prompt_files` reads it, in any of the forms above; None where nothing is asked.

    Anything else is handed back as it is.
    """
    if not isinstance(row, Mapping) or "messages" in row:
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
    return row


def _first_said(turns: list[Any]) -> Any:
    first = turns[0] if turns and isinstance(turns[0], Mapping) else {}
    asked = str(first.get("value") or "")
    return {"prompt": asked} if first.get("from") in ASKS and asked.strip() else None
