// Facts: the key figures and the warnings at the top of a page.

function facts() {
  return h("dl", { class: "facts" }, report.facts.map(({ name, value, note }) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null))));
}

function warnings() {
  if (!report.warnings.length) return h("p", { class: "fine" }, "The fit gave no warnings.");
  const heading = h("h3", {}, `${count(report.warnings.length, "warning")} from the fit`);
  return h("div", { class: "warn", role: "note" }, heading,
    h("ul", {}, report.warnings.map((text) => h("li", {}, text))));
}
