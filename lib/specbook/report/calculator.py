"""The calculator's settings, what follows from them, and their address.

The page computes in the browser (book/_static/arithmetic.js). This is the same in the package's own
arithmetic, and a browser test holds the two against each other. All of it is `computed`, from acceptance and
step prices.
"""

import math
from typing import Self
from urllib.parse import parse_qs

from pydantic import Field, ValidationError, field_validator, model_validator

from specbook.config.schema import Frozen
from specbook.errors import ConfigError
from specbook.stats import cost, theory

MOST_POSITIONS = 32


class StepPrices(Frozen):
    """What steps cost at one batch."""

    batch: float = Field(ge=1, lt=math.inf)
    step_ms: float = Field(gt=0, lt=math.inf)
    """A step without speculation."""
    verify: float = Field(gt=0, lt=math.inf)
    """Verification, in such steps."""
    draft: float = Field(ge=0, lt=math.inf)
    """One draft pass, in such steps."""


class Settings(Frozen):
    """Everything that the page's fields hold, and that its address carries."""

    joint: tuple[float, ...] = Field(min_length=1, max_length=MOST_POSITIONS)
    """Joint acceptance by position."""
    k: int = Field(ge=0)
    parallel: bool = False
    """One pass drafts all K."""
    rows: tuple[StepPrices, ...] = Field(min_length=1)
    """By batch, rising."""
    batch: float
    """One of the rows' batches."""
    usd_per_hour: float = Field(ge=1e-6, le=1e6)
    utilisation: float = Field(gt=0, le=1)
    input_per_output: float = Field(ge=0, le=1e4)
    """Input tokens per output token; only an API's bill depends on it."""

    @field_validator("joint")
    @classmethod
    def _can_be_joint(cls, joint: tuple[float, ...]) -> tuple[float, ...]:
        theory.acceptance_length(joint, len(joint))
        return joint

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        batches = [row.batch for row in self.rows]
        if batches != sorted(set(batches)):
            raise ValueError(f"batches have to rise, got {batches}")
        if self.batch not in batches:
            raise ValueError(f"batch {self.batch:g} has no row of step prices, only {batches}")
        if self.k > len(self.joint):
            raise ValueError(f"K = {self.k} is more than the {len(self.joint)} positions given")
        return self


class Result(Frozen):
    """What the page shows for its settings; the names are those in arithmetic.js."""

    acceptance_length: float
    """Tokens a step."""
    break_even_length: float
    """The step's price: as many tokens have to come of it."""
    speedup: float
    best_k: int
    """At the chosen batch; 0: none."""
    break_even_batch: float | None
    tpot_ms: float
    baseline_tpot_ms: float
    tokens_per_s: float
    baseline_tokens_per_s: float
    usd_per_million: float
    """Output tokens, the whole bill on them."""
    baseline_usd_per_million: float
    saving: float
    """Share of the bill; below 0 speculation is a cost."""


def compute(settings: Settings) -> Result:
    """What follows from the settings: prompts, queues and uneven endings are left out."""
    row = next(row for row in settings.rows if row.batch == settings.batch)
    ratio = _speedup(settings, row)
    rate = 1000 * settings.batch / row.step_ms
    spent = [
        cost.usd_per_million_tokens(speed, settings.usd_per_hour, settings.utilisation)
        for speed in (rate, rate * ratio)
    ]
    return Result(
        acceptance_length=theory.acceptance_length(settings.joint, settings.k),
        break_even_length=theory.step_cost(settings.k, row.draft, row.verify, settings.parallel),
        speedup=ratio,
        best_k=theory.best_k_of(settings.joint, row.draft, row.verify, settings.parallel),
        break_even_batch=theory.break_even_batch(
            [one.batch for one in settings.rows], [_speedup(settings, one) for one in settings.rows]
        ),
        tpot_ms=row.step_ms / ratio,
        baseline_tpot_ms=row.step_ms,
        tokens_per_s=rate * ratio,
        baseline_tokens_per_s=rate,
        usd_per_million=spent[1],
        baseline_usd_per_million=spent[0],
        saving=1 - spent[1] / spent[0],
    )


def _speedup(settings: Settings, row: StepPrices) -> float:
    length = theory.acceptance_length(settings.joint, settings.k)
    return theory.speedup(length, settings.k, row.draft, row.verify, settings.parallel)


def link(settings: Settings) -> str:
    """The part of the page's address that holds the settings, from `#` on."""
    rows = ",".join(
        ":".join(map(_plain, (row.batch, row.step_ms, row.verify, row.draft))) for row in settings.rows
    )
    return (
        f"#a={','.join(map(_plain, settings.joint))}&k={settings.k}&b={_plain(settings.batch)}"
        f"&d={'parallel' if settings.parallel else 'serial'}&m={rows}&usd={_plain(settings.usd_per_hour)}"
        f"&u={_plain(settings.utilisation)}&io={_plain(settings.input_per_output)}"
    )


def _plain(value: float) -> str:
    return f"{value:.12g}"


def from_link(address: str) -> Settings:
    """The settings that an address carries.

    Raises:
        ConfigError: for an address that lacks a setting or holds one that cannot be; it names the setting.
    """
    given = {name: values[0] for name, values in parse_qs(address.partition("#")[2]).items()}
    try:
        rows = [
            dict(zip(StepPrices.model_fields, row.split(":"), strict=True)) for row in given["m"].split(",")
        ]
        return Settings.model_validate(
            {
                "joint": given["a"].split(","), "k": given["k"], "batch": given["b"], "rows": rows,
                "parallel": {"parallel": True, "serial": False}[given["d"]], "usd_per_hour": given["usd"],
                "utilisation": given["u"], "input_per_output": given["io"],
            }
        )  # fmt: skip
    except KeyError as error:
        raise ConfigError(f"this link cannot be used: {error} is missing, or no such word") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"this link cannot be used: {where} {first['msg']}, got {first['input']!r}"
        ) from error
    except ValueError as error:
        raise ConfigError(f"this link cannot be used: in m, {error}") from error
