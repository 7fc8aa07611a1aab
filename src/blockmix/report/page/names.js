// Names: clusters and groups count from 1, can be named in the page, and keep their names in a copy of it.

const KEPT = `blockmix names of ${report.title}, ${report.trace.at(-1) ?? report.made.date}`;
const NAMES = { ...report.names, ...remembered() };

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {}; // a browser that keeps nothing for files
  }
}

function nameOf(key) {
  return NAMES[key] ?? key[0].toUpperCase() + key.slice(1);
}

function clusterName(g) {
  return report.isMixture === false ? "All rows" : nameOf(`cluster ${g + 1}`);
}

/** Name of a group by its number, which matching groups of several clusters share. */
function groupName(number) {
  return nameOf(`group ${number + 1}`);
}

/** A name that changes when it is given another. */
function called(key, tag = "span") {
  return h(tag, { "data-name": key, class: "called" }, nameOf(key));
}

function calledCluster(g, tag = "span") {
  return report.isMixture ? called(`cluster ${g + 1}`, tag) : h(tag, {}, "All rows");
}

/** A name with a button to change it. */
function renamable(key) {
  const shown = called(key, "b");
  const label = () => `Rename ${nameOf(key)}`;
  const field = h("input", { type: "text", class: "rename", maxlength: 60, "aria-label": `Name of ${key}`, hidden: true });
  const button = h("button", { type: "button", class: "get pencil", title: label(), "aria-label": label() }, "✎");
  const done = (keep) => {
    if (field.hidden) return;
    if (keep) rename(key, field.value.trim());
    [field.hidden, shown.hidden] = [true, false];
    button.focus();
  };
  button.addEventListener("click", () => {
    field.value = NAMES[key] ?? "";
    field.placeholder = nameOf(key);
    [field.hidden, shown.hidden] = [false, true];
    field.focus();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") done(event.key === "Enter");
  });
  field.addEventListener("blur", () => done(true));
  return h("span", { class: "renamable" }, shown, field, button);
}

function rename(key, name) {
  if (name) NAMES[key] = name;
  else delete NAMES[key];
  try {
    localStorage.setItem(KEPT, JSON.stringify(NAMES));
  } catch {
    // the copy of the page still has them
  }
  document.querySelectorAll("[data-name]").forEach((element) => {
    if (element.dataset.name === key) element.textContent = nameOf(key);
  });
  document.getElementById("keep-names").hidden = false;
  announce(`${key} is now ${nameOf(key)}`);
  redrawAll();
}

/** What to do with names: a copy of the page that has them, or the line that gives them to the model. */
function keepNames() {
  const line = () => `model.names_ = ${JSON.stringify(NAMES)}`;
  const copy = () => {
    const data = JSON.stringify({ ...report, names: NAMES }).replaceAll("<", "\\u003c");
    save(new Blob([PAGE[0], data, PAGE[1]], { type: "text/html" }), fileName("named", "html"));
  };
  return h("p", { id: "keep-names", class: "hint", hidden: !Object.keys(NAMES).length }, "The names are kept in this browser. ",
    h("button", { type: "button", class: "get", onclick: copy }, "Save the page with them"), " ", copyButton("the names for Python", line));
}

/** The page as it was written, before and after its data. */
const PAGE = (() => {
  const marker = "report-data\">";
  const whole = `<!doctype html>\n${document.documentElement.outerHTML}`; // read before anything is drawn
  const start = whole.indexOf(marker) + marker.length;
  return [whole.slice(0, start), whole.slice(whole.indexOf("<" + "/script>", start))];
})();
