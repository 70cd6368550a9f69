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
  const command = parts.querySelector(".about details ul");
  for (const caption of parts.querySelectorAll("figcaption")) {
    const behind = make("details"), list = command.cloneNode(true);
    behind.append(make("summary", "", "1 command"), list);
    const tools = make("div", "tools");
    for (const kind of ["svg", "png"]) {
      const button = make("button", "get", kind.toUpperCase());
      button.type = "button";
      button.dataset.kind = kind;
      tools.append(button);
    }
    caption.append(tools, behind);
  }
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
  : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })
    .replace("-", "−");

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
  byId("run-links").replaceChildren();
  const keys = [first, second].filter(Boolean)
    .flatMap((side) => [...side.figures].map(([key, f]) => [key, f.dataset.section]));
  for (const [section, names] of sections(keys)) {
    const heading = make("h3", "", section);
    heading.id = `run-${section.toLowerCase().replace(/[^a-z]+/g, "-")}-part`;
    const link = make("a", "sub", section);
    link.href = `#${heading.id}`;
    byId("run-links").append(link);
    out.append(heading);
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
  watch();
  try { history.replaceState(null, "", `#runs=${a.id}${b ? `,${b.id}` : ""}`); } catch { /* a file */ }
};

// Navigation: links to the sections of the run shown, and a mark at the one on the screen.
let spied = [];
const spy = () => {
  const line = 140;
  let now = null;
  for (const [link, target] of spied) {
    const box = target.getBoundingClientRect();
    if (box.height && box.top <= line) now = link;
  }
  if (window.innerHeight + window.scrollY >= document.body.scrollHeight - 4) {
    now = spied.at(-1)?.[0] ?? now;
  }
  for (const [link] of spied) link.classList.toggle("here", link === now);
  const bar = now?.closest("nav");
  if (bar && bar.scrollWidth > bar.clientWidth) {
    bar.scrollTo({ left: now.offsetLeft - bar.offsetLeft - bar.clientWidth / 3 });
  }
};
const watch = () => {
  spied = [...document.querySelectorAll("nav a")].filter((a) => !a.classList.contains("filtered"))
    .map((a) => [a, byId(a.hash.slice(1))]).filter(([, target]) => target);
  spy();
};

// Filter: what belongs to another benchmark, buffer or method is not shown. An element without a
// buffer (or method) belongs to all of them. In figures the other methods step back.
const chosen = () => Object.fromEntries([...document.querySelectorAll("select.filter")]
  .map((select) => [select.dataset.filter, select.value]));
const passes = (node, wanted) => Object.entries(wanted).every(([name, value]) =>
  !value || !node.dataset[name] || node.dataset[name] === value);
const ofMethod = (label, model) => label === model || label.startsWith(`${model} (`);
const dimLines = (root, model) => root.querySelectorAll("[data-line]").forEach((line) =>
  line.classList.toggle("dim", Boolean(model) && !ofMethod(line.dataset.line, model)));
const applyFilter = () => {
  const wanted = chosen();
  document.querySelectorAll("select.filter").forEach((select) =>
    select.classList.toggle("on", select.value !== ""));
  document.querySelectorAll("[data-dataset]").forEach((node) => {
    const hide = !passes(node, wanted);
    node.classList.toggle("filtered", hide);
    if (node.tagName === "OPTION" || node.tagName === "OPTGROUP") node.disabled = node.hidden = hide;
  });
  document.querySelectorAll(".question").forEach((card) =>
    card.classList.toggle("filtered", !card.querySelector(".answer:not(.filtered)")));
  document.querySelectorAll(".claims tbody").forEach((body) => {
    let last = null;
    for (const row of [...body.rows].filter((r) => !r.classList.contains("filtered"))) {
      row.cells[0].classList.toggle("again", row.cells[0].textContent === last);
      last = row.cells[0].textContent;
    }
  });
  document.querySelectorAll("nav a.sub").forEach((link) => {
    const target = byId(link.hash.slice(1));
    link.classList.toggle("filtered", Boolean(target) && target.classList.contains("filtered"));
  });
  dimLines(document, wanted.model);
  hints();
  watch();
  const pick = byId("pick-a"), first = pick?.selectedOptions[0];
  if (!pick) return;
  const free = pick.querySelector("option:not([disabled])");
  if (first?.disabled && free) pick.value = free.value;
  if (byId("pick-b").selectedOptions[0]?.disabled) byId("pick-b").value = "";
  if (first?.disabled) showRuns();
};

// Tables wider than their box say so; the second pinned column stands beside the first.
const hints = () => document.querySelectorAll(".table-box").forEach((box) => {
  const scroll = box.querySelector(".scroll"), name = box.querySelector("th.name");
  const rest = scroll.scrollWidth - scroll.clientWidth - scroll.scrollLeft;
  box.classList.toggle("cut", rest > 4);
  box.querySelector(".hint").hidden = scroll.scrollWidth - scroll.clientWidth <= 4;
  if (name) box.style.setProperty("--pin", `${name.offsetWidth}px`);
});

// Downloads: a figure in light colours as it stands in a paper, a table as it is sorted now.
const save = (blob, name) => {
  const link = make("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
const fileName = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
const standalone = (svg) => {
  const copy = svg.cloneNode(true), [, , width, height] = svg.getAttribute("viewBox").split(" ");
  copy.querySelectorAll(".dim").forEach((node) => node.classList.remove("dim"));
  copy.setAttribute("xmlns", "http:" + "//www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.removeAttribute("style");
  const ground = document.createElementNS(svg.namespaceURI, "rect");
  for (const [key, value] of [["width", "100%"], ["height", "100%"], ["fill", "#ffffff"]]) {
    ground.setAttribute(key, value);
  }
  const style = document.createElementNS(svg.namespaceURI, "style");
  style.textContent = byId("light").content.querySelector("style").textContent;
  copy.prepend(style, ground);
  return new XMLSerializer().serializeToString(copy);
};
const saveFigure = (card, kind) => {
  const place = card.closest("#compare") ? byId("pick-a").selectedOptions[0].textContent
    : card.closest(".group")?.querySelector("h3")?.textContent ?? "";
  const name = fileName(`${card.dataset.key} ${place}`), svg = card.querySelector("svg.fig");
  const blob = new Blob([standalone(svg)], { type: "image/svg+xml" });
  if (kind === "svg") { save(blob, `${name}.svg`); return; }
  const image = new Image(), scale = 3, [, , width, height] = svg.getAttribute("viewBox").split(" ");
  image.onload = () => {
    const canvas = make("canvas");
    canvas.width = Math.ceil(width * scale);
    canvas.height = Math.ceil(height * scale);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((png) => save(png, `${name}.png`), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg))}`;
};
const cellsOf = (table) => [...table.rows]
  .filter((row) => !row.hidden && !row.closest(".filtered") && !row.querySelector(".commands"))
  .map((row) => [...row.cells].map((cell) => {
    const variant = cell.querySelector(".variant");
    return variant ? `${cell.querySelector(".more").textContent} (${variant.textContent})`
      : cell.textContent.trim();
  }));
const asCsv = (rows) => {
  const split = rows[0].map((_, i) => rows.slice(1).some((row) => / ± /.test(row[i])));
  const plain = (text) => {
    const bare = text.replaceAll("−", "-");
    return text === "–" ? "" : /^-?[\d,]+(\.\d+)?$/.test(bare) ? bare.replaceAll(",", "") : bare;
  };
  const quoted = (text) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  return rows.map((row, at) => row.flatMap((text, i) => {
    if (!split[i]) return [plain(text)];
    if (at === 0) return [`${text} mean`, `${text} sd`];
    const [mean, sd = ""] = text.split(" ± ");
    return [plain(mean), plain(sd)];
  }).map(quoted).join(",")).join("\n") + "\n";
};
const LATEX = { "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_",
  "{": "\\{", "}": "\\}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$",
  "−": "$-$", "–": "--", "<": "$<$", ">": "$>$", "×": "$\\times$", "✓": "", "✗": "",
  "α": "$\\alpha$", "β": "$\\beta$", "γ": "$\\gamma$", "δ": "$\\delta$" };
const asLatex = (table, rows) => {
  const escaped = (text) => [...text].map((letter) => LATEX[letter] ?? letter).join("").trim();
  const strong = [...table.querySelectorAll("td strong")].map((node) => node.textContent);
  const lines = rows.map((row) => row.map((text) => strong.includes(text)
    ? `\\textbf{${escaped(text)}}` : escaped(text)).join(" & ") + " \\\\");
  return [`\\begin{tabular}{l${"r".repeat(rows[0].length - 1)}}`, "\\toprule", lines[0], "\\midrule",
    ...lines.slice(1), "\\bottomrule", "\\end{tabular}", ""].join("\n");
};
const saveTable = (box, kind) => {
  const table = box.querySelector("table"), rows = cellsOf(table);
  const name = fileName(box.querySelector("h4").textContent);
  if (kind === "csv") save(new Blob([asCsv(rows)], { type: "text/csv" }), `${name}.csv`);
  else save(new Blob([asLatex(table, rows)], { type: "text/plain" }), `${name}.tex`);
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
  if (button.classList.contains("get")) {
    const card = button.closest("figure");
    if (card) saveFigure(card, button.dataset.kind);
    else saveTable(button.closest(".table-box"), button.dataset.kind);
  }
  if (button.id === "theme") setTheme(isDark() ? "light" : "dark");
});
for (const name of ["pick-a", "pick-b"]) byId(name)?.addEventListener("change", showRuns);
document.querySelectorAll("select.filter").forEach((select) =>
  select.addEventListener("change", applyFilter));
document.querySelectorAll(".table-box .scroll").forEach((box) =>
  box.addEventListener("scroll", hints, { passive: true }));
addEventListener("scroll", spy, { passive: true });
addEventListener("resize", hints);
try {
  const kept = localStorage.getItem("report-theme");
  if (kept === "dark" || kept === "light") setTheme(kept);
} catch { /* storage is switched off */ }
if (runs.length) begin();
hints();
watch();
