"""Sliders on a built page: ipywidgets need a kernel, so the same sliders become HTML with a script of ours.

Enters: a notebook's saved widget states. Leaves: the HTML that stands where the widgets stood.
"""

import html
from collections.abc import Iterator, Mapping
from typing import Any

from nbformat import NotebookNode

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
REFERENCE = "IPY_MODEL_"
SCRIPTS = ("arithmetic", "charts", "player")
LABELS = {
    "k": "K, draft tokens a step", "acceptance": "Acceptance of each draft token",
    "draft_cost": "A draft token, in steps", "verify_cost": "Verification, in steps",
}  # fmt: skip
"""The parameters of `figures.speculation.play`, which book/_static/player.js repeats."""
PAGE = """<noscript><p>The sliders need a script; the figure above has nine of their settings.</p></noscript>
<div id="player" class="sb-two" hidden>
<form class="sb-fields">{fields}</form>
<div class="sb-head"><div class="sb-tile sb-main" aria-live="polite"><b>Speed-up, computed</b>
<output></output><small></small></div></div>
<div class="sb-results sb-charts"><figure></figure></div>
</div>
{scripts}
"""


def still(output: NotebookNode, widgets: Mapping[str, Any]) -> NotebookNode | None:
    """The output as it works without a kernel: sliders as HTML, any other widget not at all.

    Args:
        output: of a cell.
        widgets: the notebook's metadata of that name, with all states.
    """
    if VIEW not in output.get("data", {}):
        return output
    states = widgets.get(STATE, {}).get("state", {})
    found = {state["description"]: state for state in _sliders(output.data[VIEW]["model_id"], states)}
    if set(found) != set(LABELS):
        return None
    output.data = {"text/html": _page(found)}
    return output


def _sliders(model: str, states: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    state = states.get(model, {}).get("state", {})
    if state.get("_model_name", "").endswith("SliderModel"):
        yield state
    for child in state.get("children", []):
        yield from _sliders(child.removeprefix(REFERENCE), states)


def _page(found: Mapping[str, Mapping[str, Any]]) -> str:
    fields = "".join(
        f'<label><span>{html.escape(LABELS[name])} <b></b></span><input type="range" name="{name}" '
        f'min="{state["min"]:g}" max="{state["max"]:g}" step="{state["step"]:g}" value="{state["value"]:g}">'
        "</label>"
        for name, state in found.items()
    )
    scripts = "".join(f'<script src="../../_static/{name}.js"></script>' for name in SCRIPTS)
    return PAGE.format(fields=fields, scripts=scripts)
