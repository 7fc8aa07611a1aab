// Lists: biclusters, columns that change group, and how the result was made.

function biclusters() {
  const members = report.summaries.map(() => []);
  (report.rowLabels ?? []).forEach((g, i) => members[g].push(i));
  const found = report.labels.flatMap((labels, g) => groupsOf(labels).map((columns, k) => ({ g, k, columns })));
  // A column of a group with a common factor, by the size of its loading, and how it goes with the factor.
  const loading = (g, column) => report.loadings?.[Math.min(g, report.loadings.length - 1)]?.[column] ?? null;
  const named = (g, column) => columnName(column) + (loading(g, column) === null ? "" : ` ${signed(loading(g, column))}`);
  const built = ({ g, k, columns }, query) => {
    const color = groupColor(report.families[g][columns[0]], columns.length === 1);
    const strength = report.views[Math.min(g, report.views.length - 1)].strength[k];
    const number = columns.length === 1 ? "alone" : String(k);
    const strongest = [...columns].sort((a, b) => Math.abs(loading(g, b)) - Math.abs(loading(g, a)));
    return row([
      h("span", {}, dot(color), report.isMixture ? `${g} · ${number}` : number),
      names(strongest.map((column) => named(g, column)), 14, query), columns.length, report.summaries[g].rows ?? "–",
      strength === null ? "–" : strength.toFixed(2),
      members[g].length ? names(members[g].map(rowName), 8, query) : "–",
    ]);
  };
  const make = (query) => {
    const within = (text) => text.toLowerCase().includes(query);
    const hasRow = members.map((rows) => query !== "" && rows.some((i) => within(rowName(i))));
    return found
      .filter(({ g, k, columns }) =>
        hasRow[g] || within(`component ${g} group ${k}`) || columns.some((column) => within(columnName(column))))
      .map((item) => () => built(item, query));
  };
  const listed = report.rowLabels || !report.isMixture
    ? "" : " There are too many rows to list here; see rows.csv or row_labels_.";
  const [heading, noun, head, text] = report.isMixture
    ? ["Biclusters", "bicluster", "Component · group", "A bicluster is the rows of a component and the columns of "
      + "one of its groups. Search by column, row, or “component 1”."]
    : ["Groups", "group", "Group", "The column groups. Search by column."];
  const signs = report.loadings?.some((own) => own.some((value) => value !== null))
    ? " Numbers after columns are their correlations with the common factor of the group." : "";
  const heads = [head, "Columns", "Number", "Rows", "Mean |r|", "Row names"];
  section("biclusters", heading, h("p", {}, text + signs + listed), searchable("bicluster-table", noun, heads, make));
}

function moves() {
  const { families } = report;
  if (families.length < 2) return;
  const changes = (column) => families.some((labels) => labels[column] !== families[0][column]);
  const all = report.columns.map((_, column) => column);
  const movers = all.filter(changes).length;
  const sizes = families.map((labels) => groupsOf(labels).map((group) => group.length));
  const letter = (number) =>
    (number >= 26 ? letter(Math.floor(number / 26) - 1) : "") + String.fromCharCode(65 + (number % 26));
  const chip = (column, g) => {
    const family = families[g][column];
    const size = sizes[g][family];
    const text = size === 1 ? "alone" : count(size, "column");
    const made = h("span", { class: "chip" }, letter(family), h("small", {}, text));
    made.style.setProperty("--chip", groupColor(family, size === 1));
    return made;
  };
  const built = (column) => row(
    [h("span", { class: "name" }, columnName(column)), ...families.map((_, g) => chip(column, g))],
    { class: changes(column) ? "moves" : null });
  let only = movers > 0;
  const make = (query) => all
    .filter((column) => (!only || changes(column)) && columnName(column).toLowerCase().includes(query))
    .map((column) => () => built(column));
  const tick = (refill) => {
    const turn = (event) => {
      only = event.target.checked;
      refill();
    };
    const box = h("input", { type: "checkbox", id: "only-moved", checked: only, onchange: turn });
    return h("label", { class: "tick" }, box, " only columns that change group");
  };
  const text = movers
    ? `The letter of ${thousands(movers)} of ${count(all.length, "column")} differs between components.`
    : "Every column has the same letter in all components.";
  section("moves", "Columns that change group",
    h("p", {}, `Groups that share most columns have the same letter in all components. ${text}`),
    searchable("moves-table", "column", ["Column", ...families.map((_, g) => `Component ${g}`)], make, tick));
}

function made() {
  const { version, python, numpy, date, parameters, command } = report.made;
  const lines = parameters.map(({ name, value, default: usual }) => row(
    [h("code", {}, name), h("code", {}, value), usual ? "default" : "set"], { class: usual ? null : "set" }));
  const copied = () => {
    copy.textContent = "Copied";
    announce("Copied");
  };
  const write = () => navigator.clipboard?.writeText(command).then(copied);
  const copy = h("button", { type: "button", onclick: write }, "Copy");
  const again = [h("h3", {}, "To reproduce it"), h("pre", { tabindex: 0 }, h("code", {}, command ?? "")), copy];
  section("made", "How it was made",
    h("p", {}, `${report.estimator} of blockmix ${version}, Python ${python}, NumPy ${numpy}; page written ${date}.`),
    command ? h("div", { class: "command" }, again) : null,
    h("h3", {}, "Parameters"), table("Parameters of the model", ["Parameter", "Value", "Set or default"], lines));
}
