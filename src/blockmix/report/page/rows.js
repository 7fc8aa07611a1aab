// Rows: each with the probability of its component, the next component, its nearest rows and how far it is.

const UNCERTAIN = "Each row with the probability of its component and the next most probable one.";
const NEAR = "Nearest rows, with their components, are given for the least certain ones.";
const FAR = "Distance is the squared Mahalanobis distance from the component, and beside it the column group in which it "
  + "is largest.";

function rowTable({ certainty, far }) {
  if (!certainty && !far) return;
  const { rowLabels } = report;
  const all = rowLabels.map((_, i) => i);
  const [own, next] = certainty ? [certainty.own, certainty.nextOwn].map(decodedFractions) : [];
  const near = new Map(certainty?.compared.map((i, at) => [i, certainty.neighbors[at]]));
  const outliers = new Set(far?.outliers);
  const groups = report.labels.map(groupsOf);
  const farthest = (i) => {
    const columns = groups[rowLabels[i]][far.groups[i]];
    if (!columns) return null;
    const { shown, value } = names(columns.map(columnName), 3);
    return cell(columns.length > 1 ? h("span", {}, `group ${far.groups[i]}: `, shown) : shown, value);
  };
  const beside = (i) => near.get(i)?.map((j) => ({ name: rowName(j), note: `(${rowLabels[j]})` }));
  const probability = (value) => cell(value.toFixed(3), Number(value.toFixed(4)));
  const built = (i) => row([
    named(rowName(i)),
    cell(h("span", {}, mark(rowLabels[i]), String(rowLabels[i])), rowLabels[i]),
    ...(certainty ? [probability(own[i]), certainty.next[i], probability(next[i])] : []),
    ...(report.classes ? [className(report.classes.codes[i])] : []),
    ...(far ? [cell(h("span", {}, far.scores[i].toFixed(1), outliers.has(i) ? h("b", {}, " far") : ""), far.scores[i]),
      farthest(i)] : []),
    ...(certainty ? [near.has(i) ? names(beside(i), 3) : null] : []),
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
  const heads = ["Row", "Component", ...(certainty ? ["Probability", "Next", "Its probability"] : []),
    ...(report.classes ? ["Class"] : []), ...(far ? ["Distance", "Farthest in"] : []),
    ...(certainty ? ["Nearest rows"] : [])];
  const found = far ? `${FAR} ${count(far.outliers.length, "row")} marked far: of normal rows one in a thousand is.` : "";
  section("rows", "Rows", h("p", {}, [certainty ? `${UNCERTAIN} ${NEAR}` : "", found].filter(Boolean).join(" ")),
    searchable("row-table", "row", heads, make, [order]));
}
