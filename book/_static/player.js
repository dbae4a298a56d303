// The sliders of a chapter, without a kernel: what specbook.report.figures.speedup_figures.play draws, by the same
// arithmetic (arithmetic.js). The sliders themselves are the notebook's.
"use strict";
(() => {
  const { acceptanceLength, stepCost, speedup, bestK, line } = window.specbook;
  const player = document.getElementById("player");
  const form = player.querySelector("form");
  const [result, said] = ["output", "output + small"].map((one) => player.querySelector(one));

  function draw() {
    const set = Object.fromEntries(Array.from(form.elements, (field) => [field.name, Number(field.value)]));
    const row = { fixed: set.fixed_cost, draft: set.draft_cost };
    const joint = Array.from({ length: Number(form.elements.k.max) }, (_, i) => set.acceptance ** (i + 1));
    const gains = joint.map((_, i) => speedup(joint, i + 1, row, false));
    const gain = gains[set.k - 1];
    const best = bestK(joint, row, false);
    for (const field of form.elements) field.parentElement.querySelector("b").textContent = field.value;
    result.textContent = `${gain.toFixed(2)}×`;
    result.dataset.value = gain;
    player.classList.toggle("sb-worse", gain < 1);
    said.textContent =
      `${acceptanceLength(joint, set.k).toFixed(2)} tokens a step ÷ a price of ` +
      `${stepCost(set.k, row, false).toFixed(2)} steps; best here: ${best === 0 ? "no speculation" : `K = ${best}`}`;
    line(player.querySelector("figure"), {
      label: `Computed speed-up against K: ${gain.toFixed(2)} at K = ${set.k}`,
      names: gains.map((_, i) => i + 1), values: gains, chosen: set.k - 1, x: "K, draft tokens a step", y: "speed-up, computed",
      tell: (i) => `K = ${i + 1}: ${gains[i].toFixed(2)}×`,
    });
  }

  form.addEventListener("input", draw);
  form.addEventListener("submit", (event) => event.preventDefault());
  player.hidden = false;
  new ResizeObserver(draw).observe(player);
  draw();
})();
