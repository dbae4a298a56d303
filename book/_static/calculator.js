// The calculator's page: fields into settings, settings into numbers and charts. What it computes is in arithmetic.js.
"use strict";
(() => {
  const { compute, fromLink, link, check, speedup, apiUsdPerMillion, line, bars } = window.specbook;
  const data = JSON.parse(document.getElementById("calculator-data").textContent);
  const form = document.getElementById("calculator-form");
  const notice = document.getElementById("calculator-notice");
  const at = (name) => document.getElementById(name);
  const OWN = "own";
  let settings = structuredClone(data.start);

  const digits = (value, n = 3) => Number(value.toPrecision(n)).toLocaleString("en", { maximumSignificantDigits: n });
  const usd = (value) => `$${value >= 0.01 ? value.toFixed(value < 10 ? 3 : 2) : value.toPrecision(2)}`;
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  const row = () => settings.rows.find((one) => one.batch === settings.batch);

  function options(select, groups) {
    for (const [title, entries] of groups) {
      const group = document.createElement("optgroup");
      group.label = title;
      for (const [value, name] of entries) group.append(new Option(name, value));
      select.append(group);
    }
    select.append(new Option("my own numbers", OWN));
  }
  const grouped = (entries) =>
    Array.from(new Set(entries.map((entry) => entry.kind)), (kind) => [
      kind, entries.map((entry, i) => [i, entry.name]).filter(([i]) => entries[i].kind === kind),
    ]);
  const choose = (name, place) => {
    form.elements[name].value = place < 0 ? OWN : place;
    const entry = data[name === "head" ? "heads" : name === "machine" ? "machines" : "prices"][place];
    at(`${name}-said`).textContent = entry ? (entry.said.startsWith(entry.kind) ? entry.said : `${entry.kind}: ${entry.said}`) : "yours: kept in this page's address only";
  };

  // Fields that stand for one number of the settings: how it is read, and how a slider's step is written into it.
  const FIELDS = {
    k: { get: () => settings.k, set: (v) => (settings.k = v) },
    place: {
      get: () => settings.rows.indexOf(row()),
      set: (v) => (settings.batch = settings.rows[v].batch),
      show: () => settings.batch,
    },
    step_ms: { get: () => row().step_ms, set: (v) => (row().step_ms = v) },
    fixed: { get: () => row().fixed, set: (v) => (row().fixed = v) },
    draft: { get: () => row().draft, set: (v) => (row().draft = v) },
    usd_per_hour: { get: () => settings.usd_per_hour, set: (v) => (settings.usd_per_hour = v) },
    utilisation: {
      get: () => settings.utilisation * 100,
      set: (v) => (settings.utilisation = v / 100),
      show: () => `${digits(settings.utilisation * 100)} %`,
    },
    input_per_output: { get: () => settings.input_per_output, set: (v) => (settings.input_per_output = v) },
  };

  function fill() {
    const field = form.elements;
    field.k.max = settings.joint.length;
    field.place.max = settings.rows.length - 1;
    field.place.disabled = settings.rows.length < 2;
    for (const [name, { get, show }] of Object.entries(FIELDS)) {
      if (document.activeElement !== field[name] || field[name].type === "range") field[name].value = get();
      const said = at(`${name}-shown`);
      if (said) said.textContent = show ? show() : digits(get());
    }
    field.place.setAttribute("aria-valuetext", `batch ${settings.batch}`);
    if (document.activeElement !== field.joint) field.joint.value = settings.joint.join(" ");
    if (document.activeElement !== field.rows) {
      field.rows.value = settings.rows.map((one) => [one.batch, one.step_ms, one.fixed, one.draft].join(" ")).join("\n");
    }
    choose("head", data.heads.findIndex((head) => same(head.joint, settings.joint)));
    choose("machine", data.machines.findIndex((machine) => same(machine.rows, settings.rows)));
    choose("price", data.prices.findIndex((price) => price.usd_per_hour === settings.usd_per_hour));
    positions();
  }

  // A slider a position: its conditional acceptance, so that no setting of the sliders can make the joint one rise.
  function positions() {
    const box = at("positions");
    if (box.children.length !== settings.joint.length) {
      box.replaceChildren(
        ...settings.joint.map((_, i) => {
          const label = document.createElement("label");
          label.innerHTML = `<span>Position ${i + 1} <b></b></span><input type="range" min="0" max="100" step="1">`;
          label.lastChild.addEventListener("input", (event) => slide(i, Number(event.target.value) / 100));
          return label;
        }),
      );
    }
    conditional().forEach((share, i) => {
      const [said, slider] = box.children[i].children;
      if (document.activeElement !== slider) slider.value = Math.round(share * 100);
      said.querySelector("b").textContent = `${Math.round(share * 100)} %`;
    });
  }
  const conditional = () => settings.joint.map((share, i) => (i === 0 ? share : settings.joint[i - 1] ? share / settings.joint[i - 1] : 0));

  function slide(position, share) {
    const shares = conditional();
    shares[position] = share;
    let joint = 1;
    settings.joint = shares.map((one) => (joint = Number((joint * one).toFixed(4))));
    done();
  }

  function draw() {
    const found = compute(settings);
    const worse = found.speedup < 1;
    const said = {
      acceptance_length: `${found.acceptance_length.toFixed(2)} tokens a step`,
      break_even_length: `a step costs ${found.break_even_length.toFixed(2)} plain ones: that many tokens break even`,
      speedup: `${found.speedup.toFixed(2)}×`,
      speedup_said: worse ? "slower than without speculation" : "as fast as without speculation",
      best_k: found.best_k === 0 ? "none: do not speculate" : `K = ${found.best_k}`,
      best_k_said: found.best_k === settings.k ? "the one chosen" : `chosen: ${settings.k}`,
      break_even_batch: batchSaid(found),
      break_even_batch_said: `at K = ${settings.k}`,
      tpot_ms: `${digits(found.tpot_ms)} ms a token`,
      tpot_said: `without: ${digits(found.baseline_tpot_ms)} ms · ${digits(found.baseline_tokens_per_s)} → ${digits(found.tokens_per_s)} tokens/s`,
      usd_per_million: usd(found.usd_per_million),
      saving: `per 1M output tokens, ${digits(Math.abs(found.saving) * 100, 2)} % ${found.saving < 0 ? "more" : "less"} than the ${usd(found.baseline_usd_per_million)} without`,
    };
    for (const [name, text] of Object.entries(said)) at(`out-${name}`).textContent = text;
    for (const [name, value] of Object.entries(found)) if (at(`out-${name}`)) at(`out-${name}`).dataset.value = value;
    at("results").classList.toggle("sb-worse", worse);
    charts(found);
  }

  function batchSaid(found) {
    if (found.break_even_batch !== null) return digits(found.break_even_batch);
    const all = settings.rows.map((one) => speedup(settings.joint, settings.k, one));
    if (settings.rows.length < 2) return "needs prices at two batches";
    return all.every((one) => one < 1) ? "below the smallest known" : all.every((one) => one >= 1) ? "above the largest known" : "gains only at larger batches";
  }

  function charts(found) {
    const { joint, k, rows, batch } = settings;
    const ks = Array.from({ length: joint.length + 1 }, (_, i) => i);
    const byK = ks.map((one) => speedup(joint, one, row()));
    line(at("chart-k"), {
      label: `Speed-up against K at batch ${batch}: best at K = ${found.best_k}`,
      names: ks, values: byK, chosen: k, x: "K, draft tokens a step", y: `speed-up at batch ${batch}`,
      tell: (i) => `K = ${i}: ${byK[i].toFixed(2)}×`,
    });
    const byBatch = rows.map((one) => speedup(joint, k, one));
    line(at("chart-batch"), {
      label: `Speed-up against batch at K = ${k}`,
      names: rows.map((one) => one.batch), values: byBatch, chosen: rows.indexOf(row()), x: "batch, concurrent sequences",
      y: `speed-up at K = ${k}`, tell: (i) => `batch ${rows[i].batch}: ${byBatch[i].toFixed(2)}×`,
    });
    money(found);
  }

  // The measured machine whose step prices are set; undefined for a reader's own.
  const measured = () => data.machines.find((one) => same(one.rows, settings.rows));
  const another = (api) => api.always || (measured() && !measured().hosts.includes(api.name));

  function money(found) {
    at("usd-compared").textContent = measured()
      ? `The first two bars are ${measured().model}. A bar of another model compares prices of the same traffic, not answers of the same worth.`
      : "The first two bars are your model. Only a host of the same model sells the same answers; the other bars compare prices alone.";
    const mine = [
      ["this server, no speculation", found.baseline_usd_per_million, "sb-plain"],
      ["this server, speculating", found.usd_per_million, found.speedup < 1 ? "sb-loss" : "sb-win"],
    ].map(([label, value, kind]) => ({ label, value, kind, text: usd(value), note: "computed from the settings" }));
    const model = form.elements.model.value;
    const theirs = data.apis
      .filter((api) => api.model === model || api.always)
      .sort((one, other) => one.always - other.always)
      .map((api) => ({
        label: another(api) ? `${api.name}, another model` : api.name, value: apiUsdPerMillion(api, settings.input_per_output), kind: "sb-api", note: `published, ${api.said}`,
      }))
      .map((bar) => ({ ...bar, text: usd(bar.value) }));
    bars(at("chart-usd"), { label: "Dollars per million output tokens, prompts paid for too, on a logarithmic scale", rows: [...mine, ...theirs] });
  }

  function done() {
    try {
      check(settings);
    } catch (error) {
      complain(error.message);
      return;
    }
    notice.hidden = true;
    history.replaceState(null, "", link(settings));
    fill();
    draw();
  }

  function complain(text) {
    notice.textContent = text;
    notice.hidden = false;
  }

  function shares(text) {
    const found = text.split(/[\s,;/%]+/).filter(Boolean).map(Number);
    return found.some((share) => share > 1) ? found.map((share) => Number((share / 100).toFixed(6))) : found;
  }

  const table = (text) =>
    text.split("\n").filter((one) => one.trim()).map((one) => {
      const [batch, step_ms, fixed, draft] = one.trim().split(/[\s,;]+/).map(Number);
      return { batch, step_ms, fixed, draft };
    });

  function change({ target }) {
    const before = settings;
    settings = structuredClone(settings);
    const { name, value } = target;
    if (name in FIELDS) FIELDS[name].set(value === "" ? NaN : Number(value));
    if (name === "joint") settings.joint = shares(value);
    if (name === "rows") settings.rows = table(value);
    if (name === "head" && value !== OWN) settings.joint = data.heads[value].joint;
    if (name === "machine" && value !== OWN) settings.rows = structuredClone(data.machines[value].rows);
    if (name === "price" && value !== OWN) settings.usd_per_hour = data.prices[value].usd_per_hour;
    settings.k = Math.min(settings.k, Math.max(settings.joint.length, 1));
    if (!row() && settings.rows.length) settings.batch = settings.rows[0].batch;
    try {
      check(settings);
    } catch (error) {
      settings = before; // what is drawn stays what the last good settings give
      complain(error.message);
      return;
    }
    done();
  }

  function recall() {
    if (location.hash.includes("=")) {
      try {
        settings = fromLink(location.hash);
      } catch (error) {
        fill();
        draw();
        complain(`This link cannot be used: ${error.message}. The calculator starts from its own settings.`);
        return;
      }
    }
    notice.hidden = true;
    fill();
    draw();
  }

  options(form.elements.head, grouped(data.heads));
  options(form.elements.machine, grouped(data.machines));
  options(form.elements.price, grouped(data.prices));
  const models = data.apis.filter((api) => !api.always).map((api) => api.model);
  const hosts = (model) => models.filter((one) => one === model).length;
  for (const model of Array.from(new Set(models)).sort((a, b) => hosts(b) - hosts(a))) form.elements.model.append(new Option(model));
  form.addEventListener("input", change);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("focusout", () => notice.hidden && fill());
  at("copy").addEventListener("click", async () => {
    const address = location.href.split("#")[0] + link(settings);
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address);
      at("copied").textContent = "copied";
    } catch {
      at("copied").textContent = "this page's address holds the settings";
    }
  });
  at("again").addEventListener("click", () => {
    settings = structuredClone(data.start);
    done();
  });
  window.addEventListener("hashchange", recall);
  new ResizeObserver(() => charts(compute(settings))).observe(at("charts"));
  recall();
  at("calculator-app").hidden = false;
  draw();
})();
