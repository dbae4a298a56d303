"""A notebook's links are plain Markdown, which JupyterLab shows; on a built page they become Sphinx's roles.

`[the figure below](#fig-speed)` gets the figure's number, `[TTFT](../book/glossary.md "TTFT")` the glossary's
definition, `[Student, 1908](../book/references.md "student1908")` a citation by its keys, and a link to a
notebook leads to its chapter, measured or not.
"""

import re
from collections.abc import Collection

FIGURE = re.compile(r"\[([^\]]+)\]\(#(fig-[a-z0-9-]+)\)")
ROLES = (
    (re.compile(r'\[([^\]]+)\]\(\.\./book/glossary\.md "([^"]+)"\)'), r"{term}`\1 <\2>`"),
    (re.compile(r'\[[^\]]+\]\(\.\./book/references\.md "([^"]+)"\)'), r"{cite:p}`\1`"),
    (re.compile(r"\[([^\]]+)\]\((\d\d_[a-z0-9_]+)\.ipynb\)"), r"{doc}`\1 <\2>`"),
    (re.compile(r"\]\(\.\./book/"), "](../"),  # executed notebooks lie in a folder of book/
)


def as_roles(markdown: str, drawn: Collection[str]) -> str:
    """The text of a notebook's cell as a page takes it; figures that are not in `drawn` get no link."""

    def figure(link: re.Match) -> str:
        words, name = link.groups()
        return f"{{numref}}`{name}`" if name in drawn else f"{words} (not measured yet)"

    markdown = FIGURE.sub(figure, markdown)
    for plain, role in ROLES:
        markdown = plain.sub(role, markdown)
    return markdown
