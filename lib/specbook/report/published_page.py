"""The table of published numbers as HTML: whole without a script, filtered and sorted with one."""

import html
from collections.abc import Iterable
from urllib.parse import urlsplit

from specbook.records import published
from specbook.records.published import ADDRESS, PublishedRow

UNKNOWN = {"-", "n/s", "n/a", "not stated", ""}
FILTERS = {
    "metric": "Metric", "target_model": "Target", "draft": "Draft", "hardware": "Hardware",
    "dataset": "Data set", "system": "System", "status": "Status",
}  # fmt: skip
"""Fields a reader chooses values of, and how the page calls them."""
COLUMNS = ("Target", "Hardware", "Batch", "K", "Metric", "Value", "Source")
"""The order is that of the cells in `_row`; book/_static/published.js sorts by their `data-sort`."""
HIDE = '<script>document.documentElement.classList.add("sb-script");</script>'
"""With a script the rows stay out of sight until it has chosen some: to lay out all of them takes seconds."""


def render() -> str:
    """What `book/published.md` includes: the filters, the table and the list of sources."""
    rows = published.load()
    sources = list(dict.fromkeys(row.source for row in rows))
    places = {source: place for place, source in enumerate(sources, start=1)}
    heads = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    body = "\n".join(_row(row, places[row.source]) for row in rows)
    return (
        '<div class="sb-broad">\n'
        f'<form class="sb-filters" id="published-filters" hidden>{_form(rows)}</form>\n'
        f'<p id="published-count" role="status">{len(rows)} published numbers</p>\n{HIDE}\n'
        f'<table class="sb-table" id="published"><thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>'
        '</table>\n<p><button type="button" id="published-more" hidden></button></p>\n</div>\n'
        '<script src="../_static/published.js"></script>\n'
        f'<h2 id="sources">Sources</h2>\n<ol class="sb-sources">\n{_sources(sources)}\n</ol>\n'
    )


def _form(rows: Iterable[PublishedRow]) -> str:
    chosen = [
        f'<label>{label} <select name="{name}"><option value="">all</option>{_options(rows, name)}</select>'
        "</label>"
        for name, label in FILTERS.items()
    ]
    order = "".join(f'<option value="{place}">{name}</option>' for place, name in enumerate(COLUMNS))
    return (
        '<label class="sb-wide">Any word <input type="search" name="q" autocomplete="off"></label>'
        + "".join(chosen)
        + f'<label>Sort by <select name="sort"><option value="">as listed</option>{order}</select></label>'
        '<label>Order <select name="order"><option value="up">rising</option>'
        '<option value="down">falling</option></select></label>'
        '<button type="reset">Clear</button>'
    )


def _options(rows: Iterable[PublishedRow], name: str) -> str:
    values = sorted({getattr(row, name) for row in rows}, key=lambda value: (value.casefold(), value))
    return "".join(f"<option>{html.escape(value)}</option>" for value in values)


def _row(row: PublishedRow, place: int) -> str:
    facets = " ".join(f'data-{name}="{html.escape(getattr(row, name))}"' for name in FILTERS)
    draft = "no draft" if row.draft == "none" else row.draft
    cells = [
        _cell(row.target_model, row.target_model, draft, row.system),
        _cell(row.hardware, row.hardware, row.dataset),
        _cell(row.batch_or_concurrency, row.batch_or_concurrency),
        _cell(row.num_speculative_tokens, row.num_speculative_tokens),
        _cell(row.metric, row.metric.replace("tok_s", "tok/s").replace("_", " ")),
        _cell(row.value if row.number is None else f"{row.number:g}", row.value),
        _source(row, place),
    ]
    return f"<tr {facets}>{''.join(cells)}</tr>"


def _cell(key: str, first: str, *below: str) -> str:
    small = "".join(f"<small>{html.escape(word)}</small>" for word in below if word not in UNKNOWN)
    shown = "–" if first in UNKNOWN else html.escape(first)
    return f'<td data-sort="{html.escape("" if key in UNKNOWN else key)}">{shown}{small}</td>'


def _source(row: PublishedRow, place: int) -> str:
    day = f"{row.date}" if row.date else ""
    status = " · ".join(filter(None, (row.status, day)))
    small = "".join(f"<small>{html.escape(words)}</small>" for words in (status, row.notes) if words)
    link = f'<a href="#source-{place}">{html.escape(short_source(row))}</a>'
    return f'<td data-sort="{day}">{link}{small}</td>'


def short_source(row: PublishedRow) -> str:
    """`vllm-project/speculators` for a repository, the host for another page, else the words."""
    if row.address is None:
        return row.source
    parts = urlsplit(row.address)
    path = [part for part in parts.path.split("/") if part]
    return "/".join(path[:2]) if parts.netloc == "github.com" else parts.netloc


def _sources(sources: Iterable[str]) -> str:
    linked = (ADDRESS.sub(r'<a href="\g<0>">\g<0></a>', html.escape(source)) for source in sources)
    return "\n".join(f'<li id="source-{place}">{one}</li>' for place, one in enumerate(linked, start=1))
