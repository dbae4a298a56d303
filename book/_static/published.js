// The table of published numbers: filter, sort, and keep both in the page's address. Without this script the
// whole table is there. Rows are taken out of the page and only those asked for are put back.
"use strict";
(() => {
  const PAGE = 50; // rows shown at once: laying out all of them takes a phone seconds
  const form = document.getElementById("published-filters");
  const table = document.getElementById("published");
  const body = table.tBodies[0];
  const count = document.getElementById("published-count");
  const more = document.getElementById("published-more");
  const rows = Array.from(body.rows, (row) => ({ row, words: row.textContent.toLowerCase() }));
  const heads = Array.from(table.tHead.rows[0].cells);
  const facets = Array.from(form.elements).filter((e) => e.tagName === "SELECT" && e.name in rows[0].row.dataset);
  let shown = PAGE;

  const sortKey = (row, column) => row.cells[column].dataset.sort;
  // Numbers before words, and what is not stated last, whichever way the order goes.
  const rank = (key) => (key === "" ? 2 : Number.isNaN(Number(key)) ? 1 : 0);
  const compare = (a, b, down) => {
    if (rank(a) !== rank(b)) return rank(a) - rank(b);
    const order = rank(a) === 0 ? Number(a) - Number(b) : a.localeCompare(b);
    return down ? -order : order;
  };

  function found() {
    const wanted = form.q.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter(
      ({ row, words }) =>
        wanted.every((word) => words.includes(word)) &&
        facets.every((facet) => facet.value === "" || row.dataset[facet.name] === facet.value),
    );
    const column = form.sort.value;
    if (column !== "") {
      const down = form.order.value === "down";
      kept.sort((x, y) => compare(sortKey(x.row, column), sortKey(y.row, column), down));
    }
    return kept;
  }

  function draw() {
    const kept = found();
    body.replaceChildren(...kept.slice(0, shown).map(({ row }) => row));
    const part = kept.length > shown ? `, the first ${shown} shown` : "";
    count.textContent = `${kept.length} of ${rows.length} published numbers${part}`;
    more.hidden = kept.length <= shown;
    more.textContent = `Show ${Math.min(PAGE, kept.length - shown)} more`;
    heads.forEach((head, column) => {
      const sorted = form.sort.value === String(column);
      if (sorted) head.setAttribute("aria-sort", form.order.value === "down" ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  function remember() {
    const set = new URLSearchParams();
    for (const field of form.elements) {
      if (field.name && field.value && !(field.name === "order" && field.value === "up")) set.set(field.name, field.value);
    }
    const text = set.toString();
    history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
  }

  function recall() {
    const set = new URLSearchParams(location.hash.slice(1));
    for (const field of form.elements) {
      if (!field.name || !set.has(field.name)) continue;
      field.value = set.get(field.name);
      if (field.tagName === "SELECT" && field.selectedIndex < 0) field.selectedIndex = 0; // nonsense: all
    }
  }

  function change() {
    shown = PAGE;
    remember();
    draw();
  }

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => {
      const again = form.sort.value === String(column);
      form.order.value = again && form.order.value === "up" ? "down" : "up";
      form.sort.value = String(column);
      change();
    });
    head.replaceChildren(button);
  });
  form.addEventListener("input", change);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(change));
  more.addEventListener("click", () => {
    const last = body.rows[body.rows.length - 1];
    shown += PAGE;
    draw();
    last.nextElementSibling?.querySelector("a")?.focus();
  });
  // A link to a source leads to the list below; only an address with settings is one of this script's.
  window.addEventListener("hashchange", () => {
    if (location.hash.includes("=")) {
      recall();
      change();
    }
  });
  recall();
  draw();
  form.hidden = false;
  table.classList.add("sb-ready");
})();
