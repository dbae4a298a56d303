// A figure's points say what they stand for when they are pointed at, touched, or reached by keyboard: a figure is
// one stop of the tab key, arrow keys lead from point to point, Escape closes. Without this script the browser
// shows each point's title. Nothing is fetched; the words are in the page. Paper gets the light theme.
"use strict";
(() => {
  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  const tip = document.createElement("div");
  tip.className = "sb-tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  let shown = null;

  function hide() {
    shown?.classList.remove("sb-shown");
    shown = null;
    tip.hidden = true;
  }

  function show(point) {
    hide();
    shown = point;
    shown.classList.add("sb-shown");
    tip.textContent = point.getAttribute("aria-label");
    tip.hidden = false;
    place();
  }

  // Above its point, or below where there is no room; never beyond the sides.
  function place() {
    if (shown === null) return;
    const at = shown.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    const room = document.documentElement.clientWidth - own.width - 4;
    const above = at.top - own.height - 4;
    tip.style.left = `${Math.max(4, Math.min(at.left + (at.width - own.width) / 2, room))}px`;
    tip.style.top = `${above > 0 ? above : at.bottom + 4}px`;
  }

  function listen(svg) {
    const points = Array.from(svg.querySelectorAll(".sb-point"));
    points.forEach((point, i) => {
      const title = point.querySelector("title");
      point.setAttribute("aria-label", title.textContent);
      point.setAttribute("role", "img");
      point.setAttribute("tabindex", i === 0 ? "0" : "-1");
      title.remove(); // else the browser shows it beside the tip
      for (const kind of ["pointerenter", "focus", "click"]) point.addEventListener(kind, () => show(point));
      point.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
      point.addEventListener("blur", hide);
    });
    svg.addEventListener("keydown", (event) => {
      const here = points.indexOf(document.activeElement);
      if (event.key === "Escape") hide();
      if (here < 0 || !(event.key in STEPS)) return;
      const next = points[Math.max(0, Math.min(here + STEPS[event.key], points.length - 1))];
      points[here].setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
      event.preventDefault();
    });
  }

  const root = document.documentElement;
  let theme = root.dataset.theme;
  window.addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
  });
  window.addEventListener("afterprint", () => {
    root.dataset.theme = theme;
  });

  document.addEventListener("DOMContentLoaded", () => {
    document.body.append(tip);
    document.querySelectorAll("svg.sb-svg").forEach(listen);
    document.addEventListener("scroll", place, { passive: true });
    document.addEventListener("pointerdown", (event) => event.target.classList.contains("sb-point") || hide());
  });
})();
