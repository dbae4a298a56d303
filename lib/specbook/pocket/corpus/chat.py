"""Explain a module, class or function from its signature and docstring, in two to four sentences."""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from specbook.pocket.corpus.example import Example, in_held_out_bucket, make_example, stable_hash
from specbook.pocket.corpus.grammar import does
from specbook.pocket.corpus.stdlib import Definition, definitions

HELD_OUT_ONE_IN = 16  # the split code uses, on the same names: one held-out object is held out of both
MAX_CHARS = 700
WORDINGS_PER_OBJECT = 2
"""How often one training stream asks about the same object, each time in other words."""
# A question, and the order of the answer's sentences: what it is, does, takes, returns, and how to import it.
_WORDINGS = (
    ("What does `{name}` do?", "does takes import"),
    ("Explain the {kind} `{name}`.", "is takes returns"),
    ("What is `{name}` for?", "does returns import"),
    ("How do I use the {kind} `{name}`?", "import does takes"),
    ("Describe the Python {kind} `{name}` in a few sentences.", "is takes returns import"),
    ("I found `{name}` in some code. What is it?", "is import returns"),
    ("Can you tell me about `{name}`?", "is takes import"),
)


@dataclass(frozen=True)
class Topic:
    """What may be said about one object."""

    name: str
    kind: str
    signature: str
    """`copytree(src, dst) -> None` or `class Error(OSError)`; empty for modules."""
    paragraph: str
    """First paragraph of the docstring, on one line."""
    sentences: dict[str, str]
    """Answer sentences by role: is, does, takes, returns, import; absent ones are empty."""


def train(seed: int) -> Iterator[Example]:
    """Every training object in `WORDINGS_PER_OBJECT` wordings, shuffled."""
    rng = random.Random(f"chat:{seed}")
    pool = [t for t in topics() if not in_held_out_bucket(t.name, HELD_OUT_ONE_IN)]
    asked = [(t, w) for t in pool for w in rng.sample(_WORDINGS, WORDINGS_PER_OBJECT)]
    rng.shuffle(asked)
    return (_example(topic, wording) for topic, wording in asked)


def held_out() -> Iterator[Example]:
    """Objects whose names and docstrings never occur in training, each asked once."""
    pool = [t for t in topics() if in_held_out_bucket(t.name, HELD_OUT_ONE_IN)]
    for topic in sorted(pool, key=lambda t: stable_hash(f"order:{t.name}")):
        yield _example(topic, _WORDINGS[stable_hash(f"wording:{topic.name}") % len(_WORDINGS)])


@lru_cache(maxsize=1)
def topics() -> tuple[Topic, ...]:
    """Documented objects of the library, one per first paragraph."""
    found: dict[str, Topic] = {}
    for definition in definitions():
        paragraph = _paragraph(definition.node)
        if paragraph:
            topic = _topic(definition, paragraph)
            if max(_length(topic, w) for w in _WORDINGS) <= MAX_CHARS:
                found.setdefault(paragraph.lower(), topic)
    return tuple(found.values())


def _length(topic: Topic, wording: tuple[str, str]) -> int:
    example = _example(topic, wording)
    return len(example.prompt) + len(example.answer)


def _example(topic: Topic, wording: tuple[str, str]) -> Example:
    question, roles = wording
    lines = [question.format(name=topic.name, kind=topic.kind), ""]
    lines += [f"Signature: {topic.signature}"] * bool(topic.signature) + [f"Docstring: {topic.paragraph}"]
    parts = [part for role in roles.split() for part in (("is", "does") if role == "is" else (role,))]
    answer = " ".join(filter(None, (_said(topic, role, i == 0) for i, role in enumerate(parts))))
    return make_example(
        "chat", "\n".join(lines), answer, kind="chat_names", name=topic.name, object_kind=topic.kind
    )


def _said(topic: Topic, role: str, opening: bool) -> str:
    """One sentence; the opening one names the object and its kind, later ones say `it`."""
    subject, text = f"The {topic.kind} `{topic.name}`", topic.sentences[role]
    if not opening:
        return text
    if role == "is":
        return text.replace("It", f"`{topic.name}`", 1)
    if role == "import":
        return f"To use the {topic.kind} `{topic.name}`, {text[0].lower()}{text[1:]}"
    if text.startswith("Its documentation"):
        return text.replace("Its documentation", f"The documentation of the {topic.kind} `{topic.name}`", 1)
    return text.replace("It", subject, 1)


def _topic(definition: Definition, paragraph: str) -> Topic:
    kind, node = definition.kind, definition.node
    names = _arguments(definition) if kind in ("function", "method") else []
    sentences = {
        "is": _what(definition),
        "does": does(paragraph),
        "takes": _takes(names) if kind in ("function", "method") else _contains(definition),
        "returns": _returns(node) if kind in ("function", "method") else "",
        "import": _import(definition),
    }
    return Topic(definition.name, kind, _signature(definition), paragraph, sentences)


def _paragraph(node: ast.AST) -> str:
    text = (ast.get_docstring(node) or "").strip().split("\n\n")[0]
    text = " ".join(text.split())
    usable = (
        15 <= len(text) <= 300
        and text.isascii()
        and text[0].isalpha()
        and "`" not in text
        and ">>>" not in text
    )
    return text if usable else ""


def _what(definition: Definition) -> str:
    name, module = definition.name, definition.module
    if definition.kind == "module":
        return "It is a module of the Python standard library."
    if definition.kind == "method":
        return f"It is a method of the class `{name.split('.')[-2]}` in `{module}`."
    return f"It is a {definition.kind} in the `{module}` module."


def _arguments(definition: Definition) -> list[str]:
    args = definition.node.args
    names = [a.arg for a in args.posonlyargs + args.args + args.kwonlyargs]
    return names[1:] if definition.kind == "method" and names[:1] in (["self"], ["cls"]) else names


def _signature(definition: Definition) -> str:
    """What the answer may rely on: arguments or bases, and a result where the body shows one."""
    node = definition.node
    if definition.kind == "module":
        return ""
    if definition.kind == "class":
        return f"class {node.name}({', '.join(map(ast.unparse, node.bases))})".replace("()", "")
    result = _result(node)
    return f"{node.name}({ast.unparse(node.args)})" + (f" -> {result}" if result else "")


def _takes(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    if not quoted:
        return "It takes no named arguments."
    if len(quoted) == 1:
        return f"It takes one argument, {quoted[0]}."
    return f"It takes {len(quoted)} arguments: {', '.join(quoted[:-1])} and {quoted[-1]}."


def _contains(definition: Definition) -> str:
    bases = [ast.unparse(b) for b in getattr(definition.node, "bases", [])]
    return f"It inherits from `{bases[0]}`." if bases else ""


def _returns(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return {
        "generator": "It is a generator, so loop over its result.",
        "None": "It returns nothing, so call it for its effect.",
        "bool": "It returns True or False.",
    }.get(_result(node), "")


def _result(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """`generator`, `None` or `bool` where the body proves it, else empty."""
    inner = [n for statement in node.body[1:] for n in _own_nodes(statement)]
    values = [n.value for n in inner if isinstance(n, ast.Return) and n.value is not None]
    if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in inner):
        return "generator"
    if not values:
        # A stub only raises or passes; what its overrides return is unknown.
        return "None" if any(isinstance(n, ast.Call | ast.Assign) for n in inner) and not _stub(node) else ""
    return "bool" if all(isinstance(v, ast.Constant) and isinstance(v.value, bool) for v in values) else ""


def _stub(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return isinstance(node.body[-1], ast.Raise | ast.Pass)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes below `node`, without those of nested functions, whose returns are not its own."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
        for child in ast.iter_child_nodes(node):
            yield from _own_nodes(child)


def _import(definition: Definition) -> str:
    if definition.kind == "module":
        return f"Import it with `import {definition.name}`."
    owner = definition.path.split(".")[0]
    line = f"`from {definition.module} import {owner}`"
    return f"Import its class with {line}." if definition.kind == "method" else f"Import it with {line}."
