// The calculator's arithmetic, and its settings as an address. A function that repeats one of the package's names it;
// tests/report/test_calculator_page.py compares them. Nothing here touches the page.
"use strict";
(() => {
  const MOST_POSITIONS = 32; // as specbook.config.schema.Speculation
  const SECONDS_PER_HOUR = 3600;
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const fail = (text) => {
    throw new RangeError(text);
  };

  // specbook.stats.theory.acceptance_length
  function acceptanceLength(joint, k) {
    return 1 + sum(joint.slice(0, k));
  }

  // specbook.stats.theory.step_cost
  function stepCost(k, row) {
    return k === 0 ? 1 : row.fixed + k * row.draft;
  }

  // specbook.stats.theory.speedup
  function speedup(joint, k, row) {
    return acceptanceLength(joint, k) / stepCost(k, row);
  }

  // specbook.stats.theory.best_k_of: ties go to the smaller K
  function bestK(joint, row) {
    let best = 0;
    for (let k = 1; k <= joint.length; k += 1) {
      if (speedup(joint, k, row) > speedup(joint, best, row)) best = k;
    }
    return best;
  }

  // specbook.stats.theory.break_even_batch: null where the speed-up does not fall through 1
  function breakEvenBatch(batches, speedups) {
    for (let i = 0; i + 1 < batches.length; i += 1) {
      const [here, next] = [speedups[i], speedups[i + 1]];
      if (here >= 1 && next < 1) return batches[i] * (batches[i + 1] / batches[i]) ** ((here - 1) / (here - next));
    }
    return null;
  }

  // specbook.stats.cost.usd_per_million_tokens
  function usdPerMillion(tokensPerSecond, usdPerHour, utilisation) {
    return (usdPerHour / (tokensPerSecond * utilisation * SECONDS_PER_HOUR)) * 1e6;
  }

  // specbook.stats.cost.api_usd_per_million_output
  function apiUsdPerMillion(api, inputPerOutput) {
    return api.output_usd + api.input_usd * inputPerOutput;
  }

  // Settings as they are, or an error that names what cannot be: joint acceptance by position, K, step prices by batch.
  function check(s) {
    const number = (name, low, high) => {
      if (!(s[name] >= low && s[name] <= high)) fail(`${name} is ${s[name]}: it lies between ${low} and ${high}`);
    };
    if (s.joint.length < 1 || s.joint.length > MOST_POSITIONS) {
      fail(`acceptance has ${s.joint.length} positions: give 1 to ${MOST_POSITIONS}`);
    }
    s.joint.forEach((share, i) => {
      if (!(share >= 0 && share <= 1)) fail(`acceptance at position ${i + 1} is ${share}: a share lies between 0 and 1`);
      if (i > 0 && share > s.joint[i - 1]) {
        fail(
          `acceptance rises from ${s.joint[i - 1]} to ${share} at position ${i + 1}: joint acceptance cannot rise. ` +
            "Are these conditional rates? Multiply each with those before it",
        );
      }
    });
    if (!Number.isInteger(s.k)) fail(`K is ${s.k}: a whole number`);
    number("k", 0, s.joint.length);
    if (s.rows.length < 1) fail("there is no row of step prices: give at least one batch");
    s.rows.forEach((row, i) => {
      if (!(row.batch >= 1) || (i > 0 && !(row.batch > s.rows[i - 1].batch))) {
        fail(`batch ${row.batch} in row ${i + 1}: batches are at least 1, and rise`);
      }
      if (!(row.step_ms > 0 && row.fixed > 0 && row.draft >= 0 && row.step_ms + row.fixed + row.draft < Infinity)) {
        fail(`row of batch ${row.batch}: the step and its fixed part are above 0, a draft token at least 0`);
      }
    });
    if (!s.rows.some((row) => row.batch === s.batch)) fail(`batch ${s.batch} has no row of step prices`);
    number("usd_per_hour", 1e-6, 1e6);
    if (!(s.utilisation > 0 && s.utilisation <= 1)) fail(`utilisation is ${s.utilisation}: it lies in (0, 1]`);
    number("input_per_output", 0, 1e4);
    return s;
  }

  // What follows from settings; prompts, queues and uneven endings are left out.
  function compute(s) {
    const row = check(s).rows.find((one) => one.batch === s.batch);
    const tpot_ms = row.step_ms / speedup(s.joint, s.k, row);
    const rate = (1000 * s.batch) / tpot_ms;
    const base_rate = (1000 * s.batch) / row.step_ms;
    const cost = usdPerMillion(rate, s.usd_per_hour, s.utilisation);
    const base_cost = usdPerMillion(base_rate, s.usd_per_hour, s.utilisation);
    return {
      acceptance_length: acceptanceLength(s.joint, s.k),
      break_even_length: stepCost(s.k, row),
      speedup: speedup(s.joint, s.k, row),
      best_k: bestK(s.joint, row),
      break_even_batch: breakEvenBatch(
        s.rows.map((one) => one.batch),
        s.rows.map((one) => speedup(s.joint, s.k, one)),
      ),
      tpot_ms,
      baseline_tpot_ms: row.step_ms,
      tokens_per_s: rate,
      baseline_tokens_per_s: base_rate,
      usd_per_million: cost,
      baseline_usd_per_million: base_cost,
      saving: 1 - cost / base_cost,
    };
  }

  // The part of the page's address that holds the settings, from # on.
  function link(s) {
    const rows = s.rows.map((row) => [row.batch, row.step_ms, row.fixed, row.draft].join(":")).join(",");
    return (
      `#a=${s.joint.join(",")}&k=${s.k}&b=${s.batch}&m=${rows}` +
      `&usd=${s.usd_per_hour}&u=${s.utilisation}&io=${s.input_per_output}`
    );
  }

  // The settings that an address carries; throws for what cannot be used, naming it.
  function fromLink(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const text = (name) => given.get(name) ?? fail(`"${name}" is missing`);
    const number = (word, name) => {
      if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(word)) fail(`"${name}" holds "${word}", which is no number`);
      return Number(word);
    };
    const rows = text("m")
      .split(",")
      .map((row) => {
        const cells = row.split(":");
        if (cells.length !== 4) fail(`"m" holds "${row}": a row is batch:step:fixed part:draft token`);
        const [batch, step_ms, fixed, draft] = cells.map((cell) => number(cell, "m"));
        return { batch, step_ms, fixed, draft };
      });
    return check({
      joint: text("a")
        .split(",")
        .map((share) => number(share, "a")),
      k: number(text("k"), "k"),
      batch: number(text("b"), "b"),
      rows,
      usd_per_hour: number(text("usd"), "usd"),
      utilisation: number(text("u"), "u"),
      input_per_output: number(text("io"), "io"),
    });
  }

  window.specbook = { acceptanceLength, stepCost, speedup, bestK, apiUsdPerMillion, check, compute, link, fromLink };
})();
