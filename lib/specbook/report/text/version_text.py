"""What became of a draft that its target left one version behind, in words and tables."""

import pandas as pd

from specbook.analysis.versions import BEFORE, BEHIND, RETRAINED, VERSIONS
from specbook.report.text.phrases import count, listed

NOT_MEASURED = "**A draft one version behind: not measured yet.**"
NO_ROLLOUT = "**The roll-out in the counters: not measured yet.**"


def compared(lengths: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """Table of tokens a step and the speed-up, version beside version.

    Made from `versions.lengths` and `versions.gains`.
    """
    keys = ["load", "domain"]
    cells = {f"{name}, tokens a step": _of(lengths, name)["length"].map("{:.2f}".format) for name in VERSIONS}
    faster = {name: _of(gains, name)["estimate"] for name in VERSIONS} if len(gains) else {}
    cells |= {f"{name}, speed-up": found.map(lambda one: one.span("×")) for name, found in faster.items()}
    order = lengths[keys].drop_duplicates()
    return pd.DataFrame(cells).reindex(pd.MultiIndex.from_frame(order)).fillna("–")


def _of(table: pd.DataFrame, version: str) -> pd.DataFrame:
    return table[table["version"] == version].set_index(["load", "domain"])


def told(table: pd.DataFrame) -> str:
    """List of what the new version cost at each load, and what retraining brought back.

    Made from `versions.lengths`.
    """
    if table.empty:
        return NOT_MEASURED
    return "\n".join(_told(str(load), cell) for load, cell in table.groupby("load", sort=False))


def _told(load: str, cell: pd.DataFrame) -> str:
    wide = cell.pivot(index="domain", columns="version", values="length")
    mean, fall = wide.mean(), wide[BEFORE] - wide[BEHIND]
    worst = fall.idxmax()
    lost = (
        f"It lost most on {worst} ({wide[BEFORE][worst]:.2f} to {wide[BEHIND][worst]:.2f}, and "
        f"{wide[RETRAINED][worst]:.2f} once retrained)"
        if fall[worst] > 0
        else "It lost on none of them"
    )
    return (
        f"- **{load}**, {count(len(wide), 'domain')} (macro): {mean[BEFORE]:.2f} tokens a step on the "
        f"target it was trained for, {mean[BEHIND]:.2f} on the next version, and {mean[RETRAINED]:.2f} with "
        f"the head retrained. {lost}."
    )


def monitors(table: pd.DataFrame) -> pd.DataFrame:
    """Table of `drift.rollouts`, as a page shows it."""
    none = table["fired"] == 0
    return pd.DataFrame(
        {
            "monitor": table["monitor"], "threshold": table["threshold"].round(2),
            "roll-outs": table["rollouts"],
            "fired": table["fired"],
            "delay, s": table["delay_s"].map("{:.1f}".format).mask(none, "–"),
            "delay, drafts": table["delay_drafts"].map("{:.0f}".format).mask(none, "–"),
        }
    ).set_index("monitor")  # fmt: skip


def rollout(table: pd.DataFrame) -> str:
    """Sentences on which monitors saw the new version in the counters, from `drift.rollouts`."""
    if table.empty:
        return NO_ROLLOUT
    saw = table[table["fired"] == table["rollouts"]]
    of = count(int(table["rollouts"].iloc[0]), "roll-out")
    if saw.empty:
        most = table.loc[table["fired"].idxmax()]
        some = f"{most['monitor']} in {most['fired']} of them" if most["fired"] else "none in any"
        return f"No monitor fired in all of {of}: {some}. Set as they are, they do not see this version."
    first = saw.loc[saw["delay_s"].idxmin()]
    return (
        f"In all of {of} fired: {listed(saw['monitor'])}. The quickest, {first['monitor']}, did so after "
        f"{first['delay_s']:.1f} s or {first['delay_drafts']:.0f} drafts at the median."
    )
