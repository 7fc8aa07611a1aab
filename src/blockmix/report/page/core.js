// Shared by all parts of the page: the data of the report, DOM elements, and the tree of the columns.

const report = JSON.parse(document.getElementById("report-data").textContent);

/** Create an element. "on…" attributes are listeners; strings become text nodes, never markup. */
function h(tag, attributes = {}, ...children) {
  const drawn = ["svg", "path", "line", "circle", "rect", "text", "g", "title"].includes(tag);
  const element = drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** Bytes of a base64 string. */
function decoded(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Numbers from 0 to 1 in 16 bits each, as `fractions` of Python encodes them. */
function decodedFractions(text) {
  return Array.from(new Uint16Array(decoded(text).buffer), (value) => value / 65535);
}

/** Labels renumbered 0, 1, … by size of the group, largest first, ties by first column, as in Python. */
function canonical(labels) {
  const sizes = new Map(); // in order of first appearance, which the stable sort keeps
  for (const label of labels) sizes.set(label, (sizes.get(label) ?? 0) + 1);
  const ranked = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a));
  const numbers = new Map(ranked.map((label, number) => [label, number]));
  return Array.from(labels, (label) => numbers.get(label));
}

/** Group of each column after the first p − K merges of a tree: exactly K groups, even with ties. */
function cut(merges, K) {
  const p = merges.length / 2 + 1;
  const member = Array.from({ length: 2 * p - 1 }, (_, node) => node);
  for (let k = p - K - 1; k >= 0; k--) {
    // Names are passed down from the top, so a leaf ends up with the name of its topmost merged node.
    member[merges[2 * k]] = member[p + k];
    member[merges[2 * k + 1]] = member[p + k];
  }
  return canonical(member.slice(0, p));
}

/** Columns with contiguous groups: groups by their first leaf, columns within a group in leaf order. */
function arranged(labels, leaves) {
  const first = new Map();
  leaves.forEach((column, place) => {
    if (!first.has(labels[column])) first.set(labels[column], place);
  });
  const place = inverse(leaves);
  return [...leaves].sort((a, b) => first.get(labels[a]) - first.get(labels[b]) || place[a] - place[b]);
}

/** Runs of equal labels along an order. */
function runs(labels, order) {
  const found = [];
  order.forEach((column, at) => {
    const last = found[found.length - 1];
    if (last && last.label === labels[column]) last.stop = at + 1;
    else found.push({ label: labels[column], start: at, stop: at + 1 });
  });
  return found;
}

function inverse(order) {
  const place = new Array(order.length);
  order.forEach((item, at) => (place[item] = at));
  return place;
}

/** The columns of each group. */
function groupsOf(labels) {
  const groups = Array.from({ length: Math.max(...labels) + 1 }, () => []);
  labels.forEach((label, column) => groups[label].push(column));
  return groups;
}

function columnName(column) {
  return report.columns[column];
}

/** A name in a table or list; a long one breaks after the signs that join its words rather than inside them. */
function named(name, tag = "span") {
  const parts = name.length < 18 ? [name] : name.split(/(?<=[_/.-])/);
  return h(tag, { class: "name" }, parts.flatMap((part, i) => (i ? [h("wbr"), part] : part)));
}

/** A column with its group, a fitted one if there are numbers of families, or the neighbors that one pixel averages. */
function columnsName(columns, labels, families = null) {
  const [first, last] = [columns[0], columns.at(-1)];
  if (columns.length === 1) {
    const alone = labels.indexOf(labels[first]) === labels.lastIndexOf(labels[first]);
    return `${columnName(first)} · ${alone ? "alone" : families ? groupName(families[first]) : `group ${labels[first] + 1}`}`;
  }
  return `${columnName(first)} … ${columnName(last)} (mean of ${columns.length})`;
}

function rowName(row) {
  return report.rowNames ? report.rowNames[row] : String(row);
}

function count(number, noun) {
  return `${thousands(number)} ${noun}${number === 1 ? "" : "s"}`;
}

function thousands(number) {
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

function signed(value, digits = 2) {
  return (value < 0 ? "−" : "") + Math.abs(value).toFixed(digits);
}

/** Announce a text to screen readers. */
function announce(text) {
  document.getElementById("live").textContent = text;
}

/** Append a section with a heading, and link to it in the navigation, there by a shorter name if there is one. */
function section(id, heading, ...children) {
  const [text, link = text] = [heading].flat();
  const title = h("h2", { id: `${id}-heading` }, text);
  const made = h("section", { id, "aria-labelledby": `${id}-heading` }, title, children);
  document.getElementById("main").append(made);
  document.getElementById("nav").append(h("a", { href: `#${id}` }, link));
  return made;
}

/** A choice of one of several texts; choose(index) is called when it changes. */
function choice(id, label, texts, choose) {
  const options = texts.map((text, value) => {
    const option = text instanceof Element ? text : h("option", {}, text);
    option.value = value;
    return option;
  });
  const select = h("select", { id, onchange: (event) => choose(Number(event.target.value)) }, options);
  return h("label", { class: "choose" }, `${label} `, select);
}

/** A box whose content is built for its width, again when the width changes. */
function responsive(build, attributes = {}) {
  const box = h("div", attributes);
  let width = 0;
  box.rebuild = () => width && box.replaceChildren(build(width));
  new ResizeObserver(() => {
    if (Math.round(box.clientWidth) === width) return;
    width = Math.round(box.clientWidth);
    box.rebuild();
  }).observe(box);
  redraws.add(box.rebuild);
  return box;
}
