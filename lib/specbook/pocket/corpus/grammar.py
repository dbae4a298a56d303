"""Turn a docstring's first sentence into a sentence about its object."""

import re

_VERBS = frozenset([
    "Return", "Get", "Set", "Create", "Make", "Add", "Remove", "Delete", "Check", "Test", "Write", "Read",
    "Print", "Open", "Close", "Send", "Call", "Run", "Start", "Stop", "Convert", "Parse", "Format", "Find",
    "Load", "Save", "Compute", "Compare", "Raise", "Register", "Initialize", "Update", "Append", "Insert",
    "Wait", "Decode", "Encode", "Construct", "Build", "Generate", "Yield", "Give", "Handle", "Copy", "Move",
    "Rename", "Join", "Split", "Replace", "Clear", "Display", "Show", "Execute", "Extract", "Determine",
    "Invoke", "Install", "Log", "Connect", "Accept", "Put", "Emit", "Provide", "Implement", "Use", "Define",
    "List", "Represent", "Wrap", "Change", "Select", "Enter", "Exit", "Receive", "Retrieve", "Force",
    "Enable", "Disable", "Map", "Iterate", "Calculate", "Cancel", "Dump", "Ensure", "Escape", "Expand",
    "Ignore", "Indicate", "Query", "Reset", "Resize", "Restore", "Search", "Store", "Turn", "Unregister",
    "Validate", "Verify", "Evaluate", "Draw", "Process", "Push", "Match", "Flush", "Pass", "Finish",
    "Fetch", "Attach", "Detach", "Switch", "Dispatch", "Apply", "Try",
    "Produce", "Pop", "Allow", "Render", "Collect", "Visit", "Configure", "Merge", "Sort", "Count",
    "Terminate", "Bind", "Report", "Quote", "Prepare", "Resolve", "Perform", "Increment", "Tell",
])  # fmt: skip
_NOT_AN_OBJECT = frozenset([
    "of", "for", "to", "is", "are", "was", "-", "=", "case", "cases", "by", "codes",
])  # fmt: skip
"""Second words after which the first is no verb: `List of ...`, `Test case ...`."""


def does(paragraph: str) -> str:
    """Third person ("It returns ...") where the first word is a known verb, else a quotation."""
    sentence = _first_sentence(paragraph)
    verb, _, rest = sentence.partition(" ")
    base, object_follows = verb.capitalize(), rest.split(" ")[0].lower() not in _NOT_AN_OBJECT
    if rest and object_follows and base in _VERBS:
        return f"It {_third_person(verb.lower())} {_second_verb(rest)}."
    if rest and base in _THIRD_PERSONS:
        return f"It {verb.lower()} {rest}."
    if rest and verb in ("A", "An", "The"):
        return f"It is {verb.lower()} {rest}."
    return f'Its documentation says: "{sentence}."'


def _first_sentence(paragraph: str) -> str:
    return re.split(r"(?<=[.!?:;])\s+(?=[A-Z(])", paragraph)[0].rstrip(".:;, ")


def _second_verb(rest: str) -> str:
    """`pop a and return b` needs both verbs in the third person."""

    def inflect(match: re.Match[str]) -> str:
        verb = match[1]
        return f"and {_third_person(verb)}{match[2]}" if verb.capitalize() in _VERBS else match[0]

    return re.sub(r"\band ([a-z]+)( (?:a|an|the|it|its|them|True|None)\b)", inflect, rest)


def _third_person(verb: str) -> str:
    if verb.endswith(("s", "sh", "ch", "x")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if re.search("[^aeiou]y$", verb) else f"{verb}s"


_THIRD_PERSONS = frozenset(_third_person(verb) for verb in _VERBS)
