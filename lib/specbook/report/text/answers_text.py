"""The sentences that answer a chapter's question, written from its tables: Markdown, never typed by hand."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from specbook.analysis import drift, latency, speedup, steps, summaries, traffic
from specbook.analysis.schedule import Row, Schedule
from specbook.analysis.versions import BEHIND, RETRAINED
from specbook.records.experiment_results import FallbackArms
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.report.text import count, ends, interval, percent
from specbook.stats.estimate import Estimate
from specbook.stats.ratios import more_restarts
from specbook.suggestions import listed

NO_PAIR = "No speed-up can be told: no round here has both a baseline and an arm with speculation."
UNSEEN = (
    "No monitor finds these drifts in time at the threshold that the other drifts of their kind set, without "
    "alarming at what is as usual. A single drift has no others: record two or more."
)


def speculation(table: pd.DataFrame, single: pd.DataFrame) -> str:
    """Answer with the largest win and the largest loss, how often it wins, and what one setting gives.

    Args:
        table: of `speedup.best_k` by load and domain.
        single: of `speedup.best_over_domains`, the one setting for all domains.
    """
    if table.empty:
        return NO_PAIR
    names = ("fastest", "slowest") if len(table) > 1 else ("only",)
    ends = (table.loc[table["speedup"].idxmax()], table.loc[table["speedup"].idxmin()])
    cases = [
        f"The {name} case{', at its best K,' if row['arms'] > 1 else ''} is {row['label']} on "
        f"{row['domain']} at {row['load']}, at {_times(row)} the speed of the best baseline."
        for name, row in zip(names, ends, strict=False)
    ]
    each = [
        f"{row.estimate.span('×')} at {row.load} ({row.method} K={row.num_speculative_tokens})"
        for row in single.itertuples()
    ]
    mean = [f"One setting for all traffic gives {listed(each)} in the geometric mean."] * bool(each)
    return "**Answer.** " + " ".join([*cases, *([_wins(table), *mean] if len(table) > 1 else ())])


def _wins(table: pd.DataFrame) -> str:
    """In how many it is faster: beyond the interval, or, where there is none, as it happened to come out."""
    fastest = speedup.fastest(table)
    best = "With the fastest method of each, picked afterwards, a" if len(fastest) < len(table) else "A"
    if fastest["low"].isna().any():
        ahead, claim = fastest["speedup"] > 1, "came out faster, too seldom measured for an interval,"
    else:
        ahead, claim = fastest["low"] > 1, "is shown to be faster"
    cases = f"{int(ahead.sum())} of {len(fastest)} combinations of traffic and batch"
    return f"{best} server with speculation {claim} in {cases}."


def _times(row: pd.Series) -> str:
    """`**2.31×** (130 → 300 tokens/s, 95 % interval 2.20 to 2.44, n=5 restarts)`."""
    speeds = f"{row['baseline_tokens_per_s']:.0f} → {row['tokens_per_s']:.0f} tokens/s"
    return f"**{row['estimate'].value:.2f}×** ({speeds}, {interval(row['estimate'])})"


def by_form(runs: Sequence[RunRecord], best: pd.DataFrame, waits: pd.DataFrame) -> str:
    """Answer on what structured and open-ended prompts gain, whether the first token comes later, and whether
    a Neuron chip said so. Made from `traffic.best` and `traffic.first_token`.
    """
    said = [
        f"At {one['load']} {one['method']} runs at {_gain(one[traffic.STRUCTURED])} the speed of the best "
        f"baseline on structured prompts, and at {_gain(one[traffic.OPEN])} on open-ended ones."
        for one in traffic.contrast(best)
    ] or [NO_PAIR]
    if not any(run.hardware.kind == "neuron" for run in runs):
        said.insert(0, "**Not measured yet on a Neuron chip:** the line below names the machine.")
    ttft = waits[waits["metric"] == "ttft_s"]
    if len(ttft):
        change = ends([1e3 * one.value for one in ttft["estimate"]], "{:+.0f}")
        changed = int((ttft["verdict"] == "changed").sum())
        said.append(
            f"Drafts change the median time to first token by {change} ms, shown to be more than "
            f"{percent(traffic.SAME)} in {changed} of {len(ttft)} cases."
        )
    return "**Answer.** " + " ".join(said)


def _gain(row: pd.Series) -> str:
    return f"{row['estimate'].span('×')} (K={row['num_speculative_tokens']})"


def losses(table: pd.DataFrame) -> str:
    """Sentences on how many arms are slower, and the slowest of them, from `speedup.speedups` or `best_k`."""
    if table.empty:
        return NO_PAIR
    sure = table["high"].notna().all()
    lost = table[table["high" if sure else "speedup"] < 1]
    how = "beyond their interval" if sure else "measured too seldom for an interval: it may be chance"
    said = f"{len(lost) or 'None'} of {len(table)} cases came out slower than the best baseline, {how}."
    if lost.empty:
        return said
    worst = lost.loc[lost["speedup"].idxmin()]
    return (
        f"{said} The slowest of these {len(table)} cases is {worst['arm']} on {worst['domain']} at "
        f"{worst['load']}, at {_times(worst)}."
    )


def baseline(runs: Iterable[RunRecord]) -> str:
    """What the server gives without speculation, and how much of its steps no roofline explains."""
    runs = RunSet.of(runs).closed
    if not runs:
        return "**Answer.** No closed loop was measured, so no speed can be told."
    speeds = summaries.throughput(runs)
    medians = speeds.groupby(["execution", "concurrency"])["output_tokens_per_s"].median().unstack()
    first, last = medians.columns[0], medians.columns[-1]
    mode = medians[first].idxmax()
    slow, fast = medians.loc[mode, [first, last]]
    clocks = latency.table(runs, (0.5,), by=("concurrency", "execution"))
    tpot_s = clocks.set_index(["metric", "execution", "concurrency"])["value"]["tpot_s", mode, first]
    said = (
        f"**Answer.** Without speculation this server ({mode}) writes **{slow:.0f} tokens/s** at batch "
        f"{first:g}, {1e3 * float(tpot_s):.1f} ms a token"
    )
    if first != last and pd.notna(fast):
        said += (
            f", and **{fast:.0f} tokens/s** at batch {last:g}: {last / first:g} times the requests give "
            f"{fast / slow:.1f} times the tokens"
        )
    return f"{said} (medians over domains and restarts).{_overhead(runs, mode)}"


def _overhead(runs: RunSet, mode: str) -> str:
    decode = steps.decode_steps(runs)
    decode = decode[decode["execution"] == mode]
    shares = (100 * decode["overhead_s"].astype(float) / decode["step_s"]).dropna()
    limit = "of a decode step is overhead, time beyond what the machine's memory and arithmetic need."
    return f" {ends(shares, '{:.0f}')} % {limit}" if len(shares) else ""


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


def reasons(schedule: Schedule) -> list[str]:
    """A line for each row; and what nobody measured, where a draft has rows without drafting."""
    lines = [f"{_batches(row)}: K={row.k}, {_reason(row)}" for row in schedule.rows]
    idle = [row.shown for row in schedule.rows if not row.k]
    if schedule.draft and schedule.draft.model and any(one is None or one.k for one in idle):
        lines.append("at K=0 the draft still runs one pass a step: no record here holds its cost")
    return lines


def _batches(row: Row) -> str:
    return f"batch {row.last}" if row.first == row.last else f"batch {row.first} to {row.last}"


def _reason(row: Row) -> str:
    if row.shown is None:
        return "nothing was measured there"
    estimate = row.shown.estimate
    at = f"{estimate.format('×')} at batch {row.shown.batch}"
    if row.k == row.shown.k:
        slower = "" if row.bound >= 1 else ", and not shown to be as fast as no speculation"
        return f"the best lower bound: {at}{slower}"
    more = more_restarts(row.shown.ratio.by_restart, estimate)
    doubt = f"; {more} more restarts like these would show it" if more else ""
    return f"no K is shown to be as fast, the nearest is K={row.shown.k}: {at}{doubt}"


def side_by_side(schedules: Sequence[Schedule]) -> Iterator[str]:
    """The best method at each measured batch, and what it would take to have each at its own."""
    rows = [(one.method, row) for one in schedules for row in one.rows if row.shown]
    for batch in sorted({row.shown.batch for _, row in rows}):
        there = [pair for pair in rows if pair[1].shown.batch == batch]
        method, best = max(there, key=lambda pair: round(pair[1].bound, 2))
        yield f"batch {batch}: " + (f"{method} K={best.k}" if best.k else "no speculation")
    first = schedules[0]
    yield (
        "A server loads one draft when it starts: another method is a restart, in Kubernetes a rollout. "
        f"Of those that stay, {first.method} gains most, {first.gain:.2f}× in the mean of the bounds:"
    )


def schedule(
    chosen: Sequence[Schedule],
    tried: str,
    beside: pd.DataFrame,
    over_day: Mapping[str, Mapping[str, Estimate]],
) -> str:
    """Answer with the K of each batch, and what the schedule did where it was measured.

    Args:
        chosen: by other chapters' records, the best first.
        tried: the rows that were measured as an arm.
        beside: of `schedule.beside_fixed`, that arm's.
        over_day: a schedule -> another arm -> its mean time of an answer over that arm's.
    """
    said = [f"By the records, {one.method} drafts {_drafted(one)}." for one in chosen[:1]]
    if len(beside):
        said.append(
            f"The schedule that was measured, {tried}, does worst against no speculation "
            f"{_least(beside, 'over_none')}, and against the best fixed K of each batch "
            f"{_least(beside, 'over_best')}, n={beside['over_none'].iloc[0].counted}."
        )
    days = []
    for schedule, others in over_day.items():
        n = next(iter(others.values())).counted
        times = listed(f"**{one.span('×')}** that of {arm}" for arm, one in others.items())
        days.append(f"- with {schedule} {times}, n={n}")
    if days:
        said.append(
            "Over a day of changing traffic the mean time of an answer is, in the geometric mean of days:\n"
        )
    text = " ".join(said or ["No schedule can be made: too little was measured for an interval."])
    return "\n".join([f"**Answer.** {text}", *days])


def _drafted(chosen: Schedule) -> str:
    """`5 tokens at batch 1, and nothing at batch 2 to 32`."""
    drafted = [count(row.k, "token") if row.k else "nothing" for row in chosen.rows]
    return listed(f"{k} at {_batches(row)}" for k, row in zip(drafted, chosen.rows, strict=True))


def _least(beside: pd.DataFrame, name: str) -> str:
    """`at batch 8, at **0.99× [0.97, 1.01]**`, of the estimate whose lower end is the lowest."""
    bounds = [one.value if one.low is None else one.low for one in beside[name]]
    batch, one = beside.iloc[bounds.index(min(bounds))][["concurrency", name]]
    return f"at batch {batch}, at **{one.span('×')}**"
