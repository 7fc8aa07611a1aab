// Lists: biclusters, columns that change group, and rows with their certainty, nearest rows and distance.

const UNCERTAIN = "Each row with the probability of its cluster and the next most probable one.";
const FAR = "Distance is the squared Mahalanobis distance from the cluster, and beside it the column group in which it "
  + "is largest.";

function biclusters() {
  if (!groupsDiffer()) return;
  const members = report.summaries.map(() => []);
  (report.rowLabels ?? []).forEach((g, i) => members[g].push(i));
  // Columns alone of a component are one line.
  const found = report.labels.flatMap((labels, g) => {
    const groups = groupsOf(labels).map((columns, k) => ({ g, k, columns }));
    const alone = groups.filter(({ columns }) => columns.length === 1).flatMap(({ columns }) => columns);
    const together = groups.filter(({ columns }) => columns.length > 1);
    return alone.length ? [...together, { g, k: null, columns: alone }] : together;
  });
  const word = (g, k, columns) => (k === null ? "alone" : groupName(report.families[g][columns[0]]));
  const built = ({ g, k, columns }, query) => {
    const color = groupColor(report.families[g][columns[0]], k === null);
    const strength = k === null ? null : report.views[Math.min(g, report.views.length - 1)].strength[k];
    const group = k === null ? "alone" : called(`group ${report.families[g][columns[0]] + 1}`);
    return row([
      h("span", {}, dot(color), calledCluster(g), " · ", group),
      names(loaded(g, columns), 14, query), columns.length, report.summaries[g].rows, figure(strength),
      members[g].length ? names(members[g].map(rowName), 8, query) : null,
    ]);
  };
  const make = (query) => {
    const within = (text) => text.toLowerCase().includes(query);
    const hasRow = members.map((rows) => query !== "" && rows.some((i) => within(rowName(i))));
    return found
      .filter(({ g, k, columns }) =>
        hasRow[g] || within(`${clusterName(g)} ${word(g, k, columns)}`) || columns.some((column) => within(columnName(column))))
      .map((item) => () => built(item, query));
  };
  const listed = report.rowLabels
    ? "" : " There are too many rows to list here; see rows.csv or row_labels_.";
  const text = "A bicluster is the rows of a cluster and the columns of one of its groups. Search by column, row, or “cluster 1”.";
  const signs = report.loadings?.some((own) => own.some((value) => value !== null))
    ? " Numbers after columns are their correlations with the common factor of the group: a minus means that the column "
      + "goes against it." : "";
  const heads = ["Cluster · group", "Columns", "Number", "Rows", "Mean |r|", "Row names"];
  section("biclusters", "Biclusters", h("p", {}, text + signs + listed), searchable("bicluster-table", "bicluster", heads, make));
}

/** Whether some column is in another group in another cluster; where not, groups are shown once. */
function groupsDiffer() {
  const { families } = report;
  return families.some((labels) => labels.some((family, column) => family !== families[0][column]));
}

function moves() {
  if (!groupsDiffer()) return;
  const { families } = report;
  const changes = (column) => families.some((labels) => labels[column] !== families[0][column]);
  const all = report.columns.map((_, column) => column);
  const movers = all.filter(changes).length;
  const sizes = families.map((labels) => groupsOf(labels).map((group) => group.length));
  const chip = (column, g) => {
    const family = families[g][column];
    const size = sizes[g][family];
    const text = count(size, "column");
    const made = h("span", { class: "chip" }, size === 1 ? "alone" : called(`group ${family + 1}`), size === 1 ? "" : h("small", {}, text));
    made.style.setProperty("--chip", groupColor(family, size === 1));
    return cell(made, size === 1 ? "alone" : made.firstChild);
  };
  const built = (column) => row(
    [named(columnName(column)), ...families.map((_, g) => chip(column, g))],
    { class: changes(column) ? "moves" : null });
  let only = true;
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
  const text = `${thousands(movers)} of ${count(all.length, "column")} differ${movers === 1 ? "s" : ""} between clusters.`;
  section("moves", ["Columns that change group", "Changes"],
    h("p", {}, `Groups that share most columns have one number in all clusters. ${text}`),
    searchable("moves-table", "column", ["Column", ...families.map((_, g) => calledCluster(g))], make, [tick]));
}

function rowTable({ certainty, far }) {
  if (!certainty && !far) return;
  const { rowLabels } = report;
  const traits = TRAITS.slice(0, 4);
  const all = rowLabels.map((_, i) => i);
  const [own, next] = certainty ? [certainty.own, certainty.nextOwn].map(decodedFractions) : [];
  const outliers = new Set(far?.outliers);
  const groups = report.labels.map(groupsOf);
  const farthest = (i) => {
    const columns = groups[rowLabels[i]][far.groups[i]];
    if (!columns) return null;
    const { shown, value } = names(columns.map(columnName), 3);
    const number = report.families[rowLabels[i]][columns[0]];
    return cell(columns.length > 1 ? h("span", {}, called(`group ${number + 1}`), ": ", shown) : shown, value);
  };
  const probability = (value) => cell(value.toFixed(3), Number(value.toFixed(4)));
  const built = (i) => row([
    named(rowName(i)),
    h("span", {}, mark(rowLabels[i]), calledCluster(rowLabels[i])),
    ...(certainty ? [probability(own[i]), calledCluster(certainty.next[i]), probability(next[i])] : []),
    ...traits.map((trait) => traitText(trait, trait.bytes[i])),
    ...(far ? [cell(h("span", {}, far.scores[i].toFixed(1), outliers.has(i) ? h("b", {}, " far") : ""), far.scores[i]),
      farthest(i)] : []),
  ]);
  const orders = [
    ...(certainty ? [["least certain first", (a, b) => own[a] - own[b]]] : []),
    ...(far ? [["farthest first", (a, b) => far.scores[b] - far.scores[a]]] : []),
    ["in the order of the table", (a, b) => a - b],
  ];
  let sorted = [...all].sort(orders[0][1]);
  const order = (refill) => choice("row-order", "Sorted", orders.map(([text]) => text), (at) => {
    sorted = [...all].sort(orders[at][1]);
    refill();
  });
  const make = (query) => sorted.filter((i) => rowName(i).toLowerCase().includes(query)).map((i) => () => built(i));
  const heads = ["Row", "Cluster", ...(certainty ? ["Probability", "Next", "Its probability"] : []),
    ...traits.map(({ name }) => name), ...(far ? ["Distance", "Farthest in"] : [])];
  const found = far ? `${FAR} ${count(far.outliers.length, "row")} marked far: of normal rows one in a thousand is.` : "";
  section("rows", "Rows", h("p", {}, [certainty ? UNCERTAIN : "", found].filter(Boolean).join(" ")),
    searchable("row-table", "row", heads, make, [order]));
}
