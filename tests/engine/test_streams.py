"""Streams of chat answers as servers and the gateways before them send them: one reader for all."""

import json

import pytest

from specbook.engine.streams import StreamReader

USAGE = {"choices": [], "usage": {"completion_tokens": 2}}
DONE = "data: [DONE]\n\n"


def chunk(finish=None, **delta):
    return {"choices": [{"delta": delta, "finish_reason": finish}]}


def sent(*events, done=True):
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + DONE * done


def read(*parts):
    """A reader that was fed these parts, and the pieces of it that have a token."""
    reader = StreamReader()
    data = [part.encode() if isinstance(part, str) else part for part in parts]
    pieces = [piece for part in data for piece in reader.feed(part)] + reader.end()
    return reader, [piece for piece in pieces if piece.has_token]


def text(*parts):
    reader, pieces = read(*parts)
    assert reader.problem() is None
    return "".join(piece.text for piece in pieces)


HELLO = [chunk(role="assistant", content=""), chunk(content="Hé"), chunk("stop", content="llo"), USAGE]
PLAIN = sent(*HELLO)
FORMS = {
    "as OpenAI sends it": PLAIN,
    "no space after data": PLAIN.replace("data: ", "data:"),
    "lines end with CRLF": PLAIN.replace("\n", "\r\n"),
    "lines end with CR": PLAIN.replace("\n", "\r"),
    "one line's end between events": PLAIN.replace("\n\n", "\n"),
    "no last event": sent(*HELLO, done=False),
    "no line's end at the end": PLAIN.rstrip(),
    "comments between": PLAIN.replace("data: {", ": keep-alive\n\ndata: {"),
    "a comment as data": "data: : OPENROUTER PROCESSING\n\n" + PLAIN,
    "names, ids and times to retry": PLAIN.replace("data: {", "event: message\nid: 7\nretry: 10\ndata: {"),
    "an event over several lines": PLAIN.replace('"choices": ', '"choices":\ndata: '),
    "a byte order mark": "\ufeff" + PLAIN,
    "a null delta": sent({"choices": [{"delta": None, "finish_reason": None}]}, *HELLO),
    "a null content": sent(chunk(content=None), *HELLO),
    "null choices": sent({"choices": None}, *HELLO),
    "usage in each event": sent(*({**one, "usage": {"completion_tokens": 2}} for one in HELLO)),
    "null usage before the last": sent(*({"usage": None, **one} for one in HELLO)),
    "usage within the choice": sent(
        *HELLO[:2],
        {"choices": [{**HELLO[2]["choices"][0], "usage": {"completion_tokens": 2}}]},
    ),
    "content in parts": sent(chunk("stop", content=[{"type": "text", "text": "Héllo"}]), USAGE),
    "no finish reason": sent(chunk(content="Héllo"), USAGE),
    "one document": json.dumps({"choices": [{"message": {"content": "Héllo"}}], **{"usage": USAGE["usage"]}}),
    "one document, indented": json.dumps({"choices": [{"message": {"content": "Héllo"}}], **USAGE}
                                         | {"choices": [{"message": {"content": "Héllo"}}]}, indent=2),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_answer_is_read_in_any_form(form):
    assert text(form) == "Héllo"
    assert read(form)[0].output_tokens == 2


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_answer_may_be_cut_anywhere(form):
    assert text(*(bytes([byte]) for byte in form.encode())) == "Héllo"


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_reasoning_is_a_token_and_no_answer(key):
    _, pieces = read(sent(chunk(**{key: "hm", "content": None}), chunk("stop", content="yes")))
    assert [(piece.reasoning, piece.text) for piece in pieces] == [("hm", ""), ("", "yes")]


def test_a_called_tool_is_a_token():
    call = {"index": 0, "function": {"name": "sum", "arguments": '{"a": 1}'}}
    (piece,) = read(sent(chunk("tool_calls", tool_calls=[call])))[1]
    assert piece.calls == 'sum{"a": 1}'


BROKEN = {
    "an error in a stream": (
        sent(chunk(content="a"), {"error": {"message": "no room"}}),
        "broke off: no room",
    ),
    "an error by its name": ('event: error\ndata: {"message": "no room"}\n\n', "broke off: no room"),
    "an error as text": (sent({"error": "no room"}), "broke off: no room"),
    "an error as object": (sent({"object": "error", "message": "no room"}), "broke off: no room"),
    "a detail": (sent({"detail": "no room"}), "broke off: no room"),
    "an abort": (sent(chunk("abort", content="a"), done=False), "its finish reason is abort"),
    "an end in the middle": (sent(chunk(content="a"), done=False), "stopped answering in the middle"),
    "half an event": ('data: {"choices": [\n\n', "an event is no JSON"),
    "a page": ("<html><body>Sign in</body></html>", "answered no chat, but '<html>"),
    "nothing": ("", "stopped answering in the middle"),
}


@pytest.mark.parametrize(("form", "problem"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_whole_answer_is_told(form, problem):
    assert problem in read(form)[0].problem()
