"""Prompt files that are made of what a package holds, where that is no list of prompts yet.

| maker | of | becomes |
|---|---|---|
| `sharegpt`, `sharegpt-train` | a JSON array of conversations | first turns: one in 16 held out; the rest |
| `mt-bench-second` | MT-Bench's folder | second turns, where it has a reference answer to the first |
| `gsm-symbolic` | generators of problems (`reasoning-gym`) | problems, each with the number that answers it |

What is made is the same on every machine, and its digest is pinned like that of any file.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from specbook.config.dataset_formats import ASKS
from specbook.errors import ConfigError

HELD_OUT = 16
"""One in so many of ShareGPT's openings is for measuring; a head may be trained on the others."""
OPENING = 64
"""Characters of a prompt that choose its side: prompts made from one template stay together."""
LONGEST = 1000
"""Characters of a prompt of ShareGPT: about 480 tokens at most, so that a small context holds its answer."""
ASCII_SHARE = 0.97
"""A prompt with fewer ASCII characters is taken for no English."""
BETWEEN = re.compile(r"[\s,\[]*")
GENERATE = """
import json, sys, types

def package(name, **names):
    module = types.ModuleType(name)
    module.__path__ = [sys.argv[1] + name.removeprefix("reasoning_gym").replace(".", "/")]
    vars(module).update(names)
    sys.modules[name] = module

class Base:
    def __init__(self, config, seed, size):
        self.config, self.seed, self.size = config, seed, size

# The packages as such import all of reasoning-gym and what it needs: these stand in for them.
package("reasoning_gym")
package("reasoning_gym.arithmetic")
package("reasoning_gym.factory", ProceduralDataset=Base, register_dataset=lambda *_: None)
from reasoning_gym.arithmetic.gsm_symbolic import GSMSymbolicDataset, GSMSymbolicDatasetConfig

made = GSMSymbolicDataset(GSMSymbolicDatasetConfig(seed=0, size=500))
for row in map(made.__getitem__, range(made.size)):
    print(json.dumps([row["question"], row["answer"]]))
"""
"""Prints 500 problems of seed 0, one JSON array a line, given the folder `reasoning_gym`."""


def elements(text: str) -> Iterator[Any]:
    """Each whole element of a JSON array; one that is cut off at the end is left out."""
    decoder, at = json.JSONDecoder(), 0
    while True:
        try:
            element, at = decoder.raw_decode(text, BETWEEN.match(text, at).end())
        except ValueError:
            return
        yield element


def _sharegpt(file: Path, held_out: bool) -> Iterator[dict[str, Any]]:
    """Distinct first turns, in English and of moderate length, of conversations that begin here."""
    texts = set()
    for row in elements(file.read_text(encoding="utf-8")):
        first = row["conversations"][0] if row["conversations"] else {}
        text = str(first.get("value") or "").strip()
        begins = row["id"].endswith("_0") and first.get("from") in ASKS  # `_1` goes on from `_0`
        english = sum(map(str.isascii, text)) >= ASCII_SHARE * len(text)
        if begins and english and 0 < len(text) <= LONGEST and _is_held_out(text) == held_out:
            if text not in texts:
                yield {"id": row["id"], "prompt": text}
            texts.add(text)


def _is_held_out(prompt: str) -> bool:
    return int(hashlib.sha256(prompt[:OPENING].lower().encode()).hexdigest(), 16) % HELD_OUT == 0


def _mt_bench_second(folder: Path) -> Iterator[dict[str, Any]]:
    """Conversations that wait for the second answer; the first is GPT-4's, the judge's reference."""
    questions, answers = (
        map(json.loads, (folder / name).read_text(encoding="utf-8").splitlines())
        for name in ("question.jsonl", "reference_answer/gpt-4.jsonl")
    )
    first = {row["question_id"]: row["choices"][0]["turns"][0] for row in answers}
    for row in questions:
        if answer := first.get(row["question_id"]):
            said = zip(("user", "assistant", "user"), (row["turns"][0], answer, row["turns"][1]), strict=True)
            messages = [{"role": role, "content": text} for role, text in said]
            yield {"id": f"{row['question_id']}-2", "category": row["category"], "messages": messages}


def _gsm_symbolic(folder: Path) -> Iterator[dict[str, Any]]:
    done = subprocess.run([sys.executable, "-c", GENERATE, folder], capture_output=True, text=True)
    if done.returncode:
        raise ConfigError(f"the generators of {folder.name} failed: {done.stderr.strip().splitlines()[-1]}")
    for number, line in enumerate(done.stdout.splitlines()):
        question, answer = json.loads(line)
        check = {"kind": "last_number", "answer": float(answer)}
        yield {"id": f"gsm-symbolic-{number}", "domain": "gsm-symbolic", "prompt": question, "check": check}


MAKERS: dict[str, Callable[[Path], Iterable[dict[str, Any]]]] = {
    "sharegpt": lambda file: _sharegpt(file, held_out=True),
    "sharegpt-train": lambda file: _sharegpt(file, held_out=False),
    "mt-bench-second": _mt_bench_second,
    "gsm-symbolic": _gsm_symbolic,
}


def write(maker: str, member: Path, file: Path) -> None:
    """Make the JSONL file that this maker gives of a package's member.

    Raises:
        ConfigError: if the member is of another form.
        OSError: if `file` cannot be written.
    """
    try:
        with file.open("w", encoding="utf-8", newline="\n") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in MAKERS[maker](member))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"{member.name} cannot be read as {maker} ({error!r})") from error
