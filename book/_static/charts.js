// Two small charts as SVG: lines over steps, and labelled bars. They take their colours from the theme's own
// variables, their width from the page, and every point says its value when it is pointed at.
"use strict";
(() => {
  const HEIGHT = 230;
  const EDGE = { left: 46, right: 14, top: 12, bottom: 44 };
  const SPACE = "http://www.w3.org/2000/svg";

  function make(name, attributes, ...children) {
    const node = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }
  const words = (text, x, y, attributes = {}) => make("text", { x, y, ...attributes }, text);
  const titled = (node, text) => {
    node.append(make("title", {}, text));
    return node;
  };

  // At most six round values from `low` to `high`.
  function ticks(low, high) {
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((one) => one >= rough);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(Number((i * step).toPrecision(6)));
    return found;
  }

  function frame(figure, height, label) {
    const width = Math.max(260, figure.clientWidth);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
    figure.querySelector("svg")?.remove();
    figure.prepend(svg);
    return { svg, width };
  }

  // A line through evenly spaced steps; `chosen` is drawn large, and the level 1 as a line of its own.
  function line(figure, { label, names, values, chosen, x, y, tell }) {
    const { svg, width } = frame(figure, HEIGHT, label);
    const high = Math.max(1.2, ...values) * 1.06;
    const low = Math.min(0.8, ...values) * 0.9;
    const across = width - EDGE.left - EDGE.right;
    const place = (i) => EDGE.left + (names.length > 1 ? (i / (names.length - 1)) * across : across / 2);
    const level = (value) => EDGE.top + ((high - value) / (high - low)) * (HEIGHT - EDGE.top - EDGE.bottom);
    for (const tick of ticks(low, high)) {
      svg.append(make("line", { class: "sb-grid", x1: EDGE.left, x2: width - EDGE.right, y1: level(tick), y2: level(tick) }));
      svg.append(words(tick, EDGE.left - 6, level(tick) + 4, { "text-anchor": "end" }));
    }
    const every = Math.ceil((names.length * 30) / across);
    names.forEach((name, i) => {
      if (i % every === 0 || i === chosen) svg.append(words(name, place(i), HEIGHT - EDGE.bottom + 18, { "text-anchor": "middle" }));
    });
    svg.append(words(x, EDGE.left + across / 2, HEIGHT - 6, { "text-anchor": "middle" }));
    svg.append(words(y, EDGE.left + 6, EDGE.top + 4, { class: "sb-axis" }));
    svg.append(make("line", { class: "sb-one", x1: EDGE.left, x2: width - EDGE.right, y1: level(1), y2: level(1) }));
    svg.append(make("polyline", { class: "sb-line", points: values.map((value, i) => `${place(i)},${level(value)}`).join(" ") }));
    values.forEach((value, i) => {
      const dot = make("circle", { cx: place(i), cy: level(value), r: i === chosen ? 7 : 4, class: value < 1 ? "sb-loss" : "sb-win" });
      svg.append(titled(dot, tell(i)));
    });
  }

  // One bar under each label, on a logarithmic scale, with its value at the end of the label's line.
  function bars(figure, { label, rows }) {
    const ROW = 40;
    const { svg, width } = frame(figure, rows.length * ROW + 8, label);
    const logs = rows.map((row) => Math.log10(row.value));
    const low = Math.min(...logs) - 0.25;
    const span = Math.max(0.5, Math.max(...logs) - low);
    rows.forEach((row, i) => {
      const top = i * ROW + 4;
      const bar = make("rect", {
        class: row.kind, x: 0, y: top + 20, height: 12, rx: 2, width: Math.max(3, ((logs[i] - low) / span) * width),
      });
      svg.append(words(row.label, 0, top + 14), words(row.text, width, top + 14, { "text-anchor": "end", class: "sb-value" }));
      svg.append(titled(bar, `${row.label}: ${row.text}. ${row.note}`));
    });
  }

  Object.assign(window.specbook, { line, bars });
})();
