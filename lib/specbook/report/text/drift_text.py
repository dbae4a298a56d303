"""The answers of the chapter on drift: what kinds of traffic accept, how soon monitors see a change, and what
fallback and a draft one version behind are worth.
"""

import pandas as pd

from specbook.analysis import drift
from specbook.analysis.versions import BEHIND, RETRAINED
from specbook.records.experiment_results import FallbackArms
from specbook.report.text import count, listed

UNSEEN = (
    "No monitor finds these drifts in time at the threshold that the other drifts of their kind set, without "
    "alarming at what is as usual. A single drift has no others: record two or more."
)


def answer(*sentences: str) -> str:
    """A page's answer, from the sentences below."""
    return " ".join(["**Answer.**", *filter(None, sentences)])


def accepted(table: pd.DataFrame) -> str:
    """What a step of the first arm in `acceptance.by_domain` yields on its worst and its best traffic."""
    own = table[table["arm"].isin(table["arm"][:1])].sort_values("length")
    if own.empty:
        return "Nothing was drafted."
    each = (f"{row.length:.2f} tokens on {row.domain}" for row in own.iloc[[0, -1]].itertuples())
    return f"A step of {own['arm'].iloc[0]} yields {listed(each)}, answers that repeat themselves included."


def seen(table: pd.DataFrame) -> str:
    """What a monitor of `drift.compare` found in live drifts: of the calmest, the quickest."""
    live = table[table["drift"] != "replayed"]
    if live.empty:
        return UNSEEN
    one = live.sort_values(["false_alarms", "delay_s"], kind="stable").iloc[0]
    episodes = int(one["episodes"])
    return (
        f"A monitor of the server's own counters, {one['monitor']}, found {one['found'] * episodes:.0f} of "
        f"{count(episodes, one['drift'] + ' drift')} after {one['delay_s']:.1f} s at the median. Its "
        f"threshold finds all other recorded drifts within {one['within_s']:g} s, so only the weakest can be "
        f"missed, and gave {one['estimate'].span(digits=1)} false alarms a day over "
        f"{one['estimate'].counted} without drift."
    )


def fallback(result: FallbackArms) -> str:
    """What was lost, and what falling back was worth over both other arms."""
    mine = drift.served(result).set_index("arm").astype(object).loc["fallback"]
    sentences = [
        f"Over {count(mine['repeats'], 'episode')} with fallback, {mine['sent']} requests were sent and "
        f"{mine['lost'] or 'none'} lost or broken off, with {mine['in_flight']} in flight at "
        f"{count(mine['switches'], 'switch', 'switches')}."
    ]
    for name, what in (("drafting", "always drafts"), ("plain", "never drafts")):
        speed, tail = (of(result, name).span(" times") for of in (drift.gain, drift.tail))
        sentences.append(
            f"Compared with a server that {what}, it wrote {speed} as many tokens a second, and its "
            f"p99 of E2E was {tail} as long."
        )
    return " ".join(sentences)


def outdated(gains: pd.DataFrame) -> str:
    """What leaving a head one version behind costs where it costs most, from `versions.gains`."""
    if gains.empty:
        return "No draft was measured one version behind its target."
    worst = gains.loc[gains[gains["version"] == BEHIND]["speedup"].idxmin()]
    cell = gains[(gains["load"] == worst["load"]) & (gains["domain"] == worst["domain"])]
    again = cell[cell["version"] == RETRAINED]["estimate"].iloc[0]
    return (
        f"One version behind its target, a head was worst on {worst['domain']} at {worst['load']}: with it a "
        f"server had {worst['estimate'].span('×')} the speed of one without drafts, and {again.span('×')} "
        "once the head was trained again."
    )
