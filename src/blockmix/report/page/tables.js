// Tables and small charts: overview, known classes, selection, biclusters, columns that move, how it was made.

function table(caption, heads, rows, attributes = {}) {
  return h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 },
    h("table", attributes, h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows)));
}

function row(cells, attributes = {}) {
  return h("tr", attributes, cells.map((cell, i) => (i === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: typeof cell === "number" ? "figure" : null }, typeof cell === "number" ? thousands(cell) : cell))));
}

function overview() {
  const facts = h("dl", { class: "facts" }, report.facts.map(({ name, value, note }) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null))));
  const share = (weight) => {
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(1, 100 * weight)}px`;
    return h("span", { class: "share" }, bar, `${(100 * weight).toFixed(1)} %`);
  };
  const lines = report.summaries.map((line, g) => row([h("a", { href: `#component-${Math.min(g, report.views.length - 1)}` }, `Component ${g}`),
    line.rows ?? "–", share(line.weight), line.groups, line.largest, line.alone, line.certainty === null ? "–" : line.certainty.toFixed(3)]));
  section("overview", "Overview", warnings(), facts,
    report.isMixture ? table("Components", ["Component", "Rows", "Weight", "Column groups", "Largest group", "Columns alone", "Mean probability"], lines) : null,
    h("div", { class: "pair" }, classes(), trace(), selection()));
}

function warnings() {
  if (!report.warnings.length) return h("p", { class: "fine" }, "The fit gave no warnings.");
  return h("div", { class: "warn", role: "note" }, h("h3", {}, count(report.warnings.length, "warning"), " of the fit"), h("ul", {}, report.warnings.map((text) => h("li", {}, text))));
}

function classes() {
  const known = report.classes;
  if (!known) return null;
  const lines = known.counts.map((counts, g) => row([`Component ${g}`, ...counts]));
  return h("div", {}, h("h3", {}, "Known classes"),
    h("p", {}, `Adjusted Rand index ${known.ari.toFixed(2)}; ${(100 * known.accuracy).toFixed(1)} % of the rows in the component that matches their class.`),
    table("Rows by component and known class", ["", ...known.names], lines));
}

/** A line chart: series of [x, y] points with a name each; x are whole numbers. */
function chart(label, series, xName, yName) {
  const points = series.flatMap(({ points }) => points);
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const X = (x) => 64 + (right > left ? (x - left) / (right - left) : 0.5) * 320;
  const Y = (y) => 12 + (high > low ? (high - y) / (high - low) : 0.5) * 120;
  const round = (value) => thousands(Math.round(value)).replace("-", "−");
  return h("svg", { viewBox: "0 0 400 176", role: "img", "aria-label": label, class: "chart" },
    [high, low].map((y) => [h("line", { x1: 60, x2: 390, y1: Y(y), y2: Y(y), class: "rule" }), h("text", { x: 54, y: Y(y) + 4, "text-anchor": "end" }, round(y))]),
    (right - left < 12 ? [...new Set(xs)] : [left, right]).map((x) => h("text", { x: X(x), y: 150, "text-anchor": "middle" }, String(x))),
    h("text", { x: 224, y: 168, "text-anchor": "middle" }, xName), h("text", { x: 54, y: 76, "text-anchor": "end" }, yName),
    series.map(({ points, marks }, i) => h("g", { class: `series-${i % 6}` }, h("path", { d: points.map(([x, y], k) => `${k ? "L" : "M"}${X(x)} ${Y(y)}`).join("") }),
      points.length <= 60 && marks ? points.map(([x, y, best]) => h("circle", { cx: X(x), cy: Y(y), r: best ? 5 : 3, class: best ? "best" : null })) : null)));
}

function trace() {
  const values = report.trace;
  if (values.length < 2) return null;
  return h("div", {}, h("h3", {}, "Objective by iteration"),
    chart(`Objective from ${values[0].toFixed(1)} to ${values.at(-1).toFixed(1)} in ${values.length} iterations`, [{ points: values.map((y, i) => [i + 1, y]) }], "iteration", ""),
    h("p", { class: "hint" }, "Log-likelihood with the penalties of the fit; it never falls."));
}

function selection() {
  const given = report.selection;
  if (!given) return null;
  const name = given.criterion.toUpperCase();
  const asked = [...new Set(given.rows.map((line) => line.asked))];
  const series = asked.map((K) => ({ marks: true, points: given.rows.filter((line) => line.asked === K && line[given.criterion] !== null).map((line) => [line.components, line[given.criterion], line.best]) })).filter(({ points }) => points.length);
  const number = (value) => (value === null ? "–" : value.toFixed(1));
  const lines = given.rows.map((line) => row([line.best ? `${line.components} (best)` : String(line.components), line.asked, line.groups.join(", ") || "–", line.parameters ?? "–", number(line.bic), number(line.icl), line.outcome], line.best ? { class: "best" } : {}));
  return h("div", { class: "wide" }, h("h3", {}, "Candidates compared"),
    h("div", { class: "candidates" }, series.length ? chart(`${name} by number of components`, series, "components", name) : null,
      table("Candidates and their criteria", ["Components", "Groups asked", "Groups found", "Parameters", "BIC", "ICL", "Outcome"], lines)));
}

/** A table with a search field; make(query) → rows, of which a long list is shown in parts. */
function searchable(id, what, heads, make, ...extra) {
  const body = h("tbody");
  const told = h("p", { class: "hint", role: "status", id: `${id}-count` });
  const more = h("button", { type: "button", class: "more-rows" }, "");
  const field = h("input", { type: "search", id: `${id}-search`, autocomplete: "off", spellcheck: "false", oninput: () => fill() });
  const fill = (most = 60) => {
    const rows = make(field.value.trim().toLowerCase());
    body.replaceChildren(...rows.slice(0, most).map((built) => built()));
    told.textContent = `${count(rows.length, what)}${rows.length > most ? `, the first ${most} shown` : ""}`;
    more.hidden = rows.length <= most;
    more.textContent = `Show all ${thousands(rows.length)}`;
  };
  more.addEventListener("click", () => fill(Infinity));
  const shown = h("div", { class: "scroll", role: "region", "aria-label": `Table: ${what}s`, tabindex: 0 },
    h("table", { id }, h("caption", { class: "unseen" }, `${what}s`), h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), body));
  const parts = [h("div", { class: "search" }, h("label", { for: `${id}-search` }, "Search"), field, extra.map((build) => build(() => fill()))), told, shown, more];
  fill();
  return parts;
}

function biclusters() {
  const members = report.summaries.map(() => []);
  (report.rowLabels ?? []).forEach((g, i) => members[g].push(i));
  const found = report.labels.flatMap((labels, g) => groupsOf(labels).map((columns, k) => ({ g, k, columns })));
  found.sort((a, b) => a.g - b.g || b.columns.length - a.columns.length);
  const strength = ({ g, k }) => report.views[Math.min(g, report.views.length - 1)].strength[k];
  const make = (query) => {
    const inRows = members.map((rows) => (query ? rows.filter((i) => rowName(i).toLowerCase().includes(query)) : []).length > 0);
    const hits = found.filter(({ g, k, columns }) => !query || inRows[g] || columns.some((column) => columnName(column).toLowerCase().includes(query)) || `component ${g} group ${k}`.includes(query));
    return hits.map((item) => () => row([h("span", {}, dot(groupColor(report.families[item.g][item.columns[0]], item.columns.length === 1)), report.isMixture ? `${item.g} · ${item.k}` : String(item.k)),
      names(item.columns.map(columnName), 14, query), item.columns.length, report.summaries[item.g].rows ?? "–",
      strength(item) === null ? "–" : strength(item).toFixed(2), members[item.g].length ? names(members[item.g].map(rowName), 8, query) : "–"]));
  };
  const listed = report.rowLabels || !report.isMixture ? "" : " The rows are too many to list here; rows.csv or row_labels_ has them.";
  const [heading, what, head, told] = report.isMixture
    ? ["Biclusters", "bicluster", "Component · group", "A bicluster is the rows of a component and the columns of one of its groups. Search by column, row, or “component 1”."]
    : ["Groups", "group", "Group", "The column groups. Search by column."];
  section("biclusters", heading, h("p", {}, told + listed),
    searchable("bicluster-table", what, [head, "Columns", "How many", "Rows", "Mean |r|", "Which rows"], make));
}

function moves() {
  const G = report.families.length;
  if (G < 2) return;
  const changes = (column) => new Set(report.families.map((labels) => labels[column])).size > 1;
  const all = report.columns.map((_, column) => column);
  const movers = all.filter(changes).length;
  let only = movers > 0;
  const letter = (number) => (number >= 26 ? letter(Math.floor(number / 26) - 1) : "") + String.fromCharCode(65 + (number % 26));
  const sizes = report.families.map((labels) => groupsOf(labels).map((group) => group.length));
  const chip = (column, g) => {
    const family = report.families[g][column];
    const own = sizes[g][family];
    const made = h("span", { class: "chip" }, letter(family), h("small", {}, own === 1 ? "alone" : `${own} columns`));
    made.style.setProperty("--chip", groupColor(family, own === 1));
    return made;
  };
  const make = (query) => all.filter((column) => (!only || changes(column)) && columnName(column).toLowerCase().includes(query))
    .map((column) => () => row([h("span", { class: "name" }, columnName(column)), ...report.families.map((_, g) => chip(column, g))], changes(column) ? { class: "moves" } : {}));
  const tick = (refill) => h("label", { class: "tick" }, h("input", { type: "checkbox", id: "only-moved", checked: only, onchange: (event) => { only = event.target.checked; refill(); } }), " only columns that change group");
  section("moves", "Columns that change group",
    h("p", {}, `Groups of different components that share most columns have the same letter. ${movers ? `${thousands(movers)} of ${count(all.length, "column")} are not in the same letter everywhere.` : "Every column has the same letter in all components."}`),
    searchable("moves-table", "column", ["Column", ...report.families.map((_, g) => `Component ${g}`)], make, tick));
}

function made() {
  const { version, python, numpy, date, parameters, command } = report.made;
  const lines = parameters.map(({ name, value, default: usual }) => row([h("code", {}, name), h("code", {}, value), usual ? "default" : "set"], usual ? {} : { class: "set" }));
  const copy = h("button", { type: "button", onclick: () => navigator.clipboard?.writeText(command).then(() => ((copy.textContent = "Copied"), announce("Copied"))) }, "Copy");
  section("made", "How it was made",
    h("p", {}, `${report.estimator} of blockmix ${version}, Python ${python}, NumPy ${numpy}; this page was written on ${date}.`),
    command ? h("div", { class: "command" }, h("h3", {}, "To make it again"), h("pre", { tabindex: 0 }, h("code", {}, command)), copy) : null,
    h("h3", {}, "Parameters"), table("Parameters of the model", ["Parameter", "Value", ""], lines));
}
