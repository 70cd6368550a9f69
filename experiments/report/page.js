"use strict";
const byId = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const runs = JSON.parse(byId("data").textContent);

// Sorting: a row and the commands under it share a tbody, so bodies are moved whole.
const valueOf = (body, column) => {
  const text = body.rows[0].cells[column].dataset.v;
  const number = text === "" ? NaN : Number(text);
  return { text, number };
};
const compareCells = (a, b, sign) => {
  if (a.text === "" || b.text === "") return (a.text === "") - (b.text === "");
  if (Number.isNaN(a.number) || Number.isNaN(b.number)) return sign * a.text.localeCompare(b.text);
  return sign * (a.number - b.number);
};
const sortBy = (table, column) => {
  const heads = [...table.tHead.rows[0].cells];
  const falling = heads[column].getAttribute("aria-sort") === "none" ? column > 1
    : heads[column].getAttribute("aria-sort") === "ascending";
  heads.forEach((head, i) => head.setAttribute("aria-sort",
    i !== column ? "none" : falling ? "descending" : "ascending"));
  const sign = falling ? -1 : 1;
  [...table.tBodies]
    .map((body) => [body, valueOf(body, column)])
    .sort((a, b) => compareCells(a[1], b[1], sign))
    .forEach(([body]) => table.append(body));
};

// Copying: the clipboard where the browser allows it, a selection otherwise.
const copyFrom = async (button) => {
  const code = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1600);
};

// Runs: the parts of each are kept in a template and shown when picked.
const partsOf = (id) => {
  const parts = byId(`run-${id}`).content.cloneNode(true);
  return {
    about: parts.querySelector(".about"),
    figures: new Map([...parts.querySelectorAll("figure")].map((f) => [f.dataset.key, f])),
  };
};
const badge = (node, side) => {
  const sign = make("span", `badge ${side}`, side.toUpperCase());
  (node.querySelector("h4") || node).prepend(sign);
};
const titled = (about, run) => {
  about.prepend(make("h4", "", run.title));
  return about;
};
const show = (value, digits) => value === null || value === undefined ? "–"
  : value.toFixed(digits).replace("-", "−");

const showDifference = (a, b) => {
  const box = byId("difference");
  box.replaceChildren();
  if (!b) return;
  const table = make("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  for (const [side, run] of [["", null], ["a", a], ["b", b], ["A − B", null]]) {
    const cell = make("th", "", run ? "" : side);
    if (run) {
      cell.title = run.title;
      cell.append(make("span", `badge ${side}`, side.toUpperCase()));
    }
    head.append(cell);
  }
  const other = new Map(b.values.map(([name, value]) => [name, value]));
  for (const [name, value, digits] of a.values) {
    const second = other.get(name) ?? null;
    if (value === null && second === null) continue;
    const row = body.insertRow();
    row.append(make("th", "", name), make("td", "", show(value, digits)),
      make("td", "", show(second, digits)),
      make("td", "", value === null || second === null ? "–" : show(value - second, digits)));
  }
  box.append(table);
};

const sections = (keys) => {
  const found = new Map();
  for (const [key, section] of keys) {
    if (!found.has(section)) found.set(section, []);
    if (!found.get(section).includes(key)) found.get(section).push(key);
  }
  return found;
};
const showRuns = () => {
  const a = runs[Number(byId("pick-a").value)], pickedB = byId("pick-b").value;
  const b = pickedB === "" ? null : runs[Number(pickedB)];
  const first = partsOf(a.id), second = b ? partsOf(b.id) : null;
  const out = byId("compare");
  showDifference(a, b);
  titled(first.about, a);
  const top = make("div", b ? "pair" : "single");
  top.append(first.about);
  if (b) {
    badge(first.about, "a");
    badge(titled(second.about, b), "b");
    top.append(second.about);
  }
  out.replaceChildren(top);
  const keys = [first, second].filter(Boolean)
    .flatMap((side) => [...side.figures].map(([key, f]) => [key, f.dataset.section]));
  for (const [section, names] of sections(keys)) {
    out.append(make("h3", "", section));
    const cards = make("div", "cards");
    for (const name of names) {
      if (!b) { cards.append(first.figures.get(name)); continue; }
      const pair = make("div", "pair");
      for (const [side, parts] of [["a", first], ["b", second]]) {
        const figure = parts.figures.get(name) || make("div", "absent", "This run does not have it.");
        badge(figure, side);
        pair.append(figure);
      }
      out.append(pair);
    }
    if (!b) out.append(cards);
  }
  try { history.replaceState(null, "", `#runs=${a.id}${b ? `,${b.id}` : ""}`); } catch { /* a file */ }
};

const begin = () => {
  const asked = /^#runs=(\d+)(?:,(\d+))?$/.exec(location.hash);
  const known = (id) => id !== undefined && runs[Number(id)] !== undefined;
  const richest = [...runs].sort((x, y) => y.values.filter((v) => v[1] !== null).length
    - x.values.filter((v) => v[1] !== null).length)[0];
  byId("pick-a").value = asked && known(asked[1]) ? asked[1] : String(richest.id);
  byId("pick-b").value = asked && known(asked[2]) ? asked[2] : "";
  const wanted = location.hash;
  showRuns();
  if (wanted && !asked) { history.replaceState(null, "", wanted); } else if (!asked) {
    history.replaceState(null, "", location.pathname);
  } else { byId("runs").scrollIntoView(); }
};

const setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  byId("theme").setAttribute("aria-pressed", String(theme === "dark"));
  try { localStorage.setItem("report-theme", theme); } catch { /* storage is switched off */ }
};
const isDark = () => document.documentElement.dataset.theme
  ? document.documentElement.dataset.theme === "dark"
  : matchMedia("(prefers-color-scheme: dark)").matches;

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.classList.contains("sort")) sortBy(button.closest("table"), button.parentNode.cellIndex);
  if (button.classList.contains("copy")) copyFrom(button);
  if (button.classList.contains("more")) {
    const row = byId(button.getAttribute("aria-controls"));
    row.hidden = !row.hidden;
    button.setAttribute("aria-expanded", String(!row.hidden));
  }
  if (button.id === "theme") setTheme(isDark() ? "light" : "dark");
});
byId("pick-a").addEventListener("change", showRuns);
byId("pick-b").addEventListener("change", showRuns);
try {
  const kept = localStorage.getItem("report-theme");
  if (kept === "dark" || kept === "light") setTheme(kept);
} catch { /* storage is switched off */ }
begin();
