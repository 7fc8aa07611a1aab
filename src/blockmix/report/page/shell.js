// Shell: the heading, the key figures and warnings, how the page was made, the foot, the theme, and printing.

const OFFLINE = "This file loads nothing and sends nothing.";

function heading(nouns, lead = null) {
  const { version } = report.made;
  const sizes = report.facts.filter(({ name }) => nouns.includes(name));
  const words = ({ name, value }) => `${value} ${value === "1" ? name.toLowerCase().slice(0, -1) : name.toLowerCase()}`;
  document.getElementById("title").textContent = report.title;
  document.getElementById("brand-note").textContent = version;
  document.getElementById("lead").textContent = lead ?? `${sizes.map(words).join(", ")}. ${report.estimator}.`;
  document.getElementById("foot").textContent = `Made by blockmix ${version}. ${OFFLINE}`;
}

function themes() {
  const button = document.getElementById("theme");
  const other = () => (theme() === "dark" ? "light" : "dark");
  const show = () => {
    button.textContent = other() === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Switch to ${other()} colors`);
    redrawAll();
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = other();
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  // Print in light colors and at a higher resolution.
  const print = (on) => {
    printing = on;
    redrawAll();
  };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  matchMedia("print").addEventListener("change", (event) => print(event.matches));
  show();
}

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

/** How the page was made; what else belongs there comes first. */
function made(...first) {
  const { version, python, numpy, date, parameters, command } = report.made;
  const lines = parameters.map(({ name, value, default: usual }) => row(
    [h("code", {}, name), h("code", {}, value), usual ? "default" : "set"], { class: usual ? null : "set" }));
  const again = [h("h3", {}, "To reproduce it"), h("pre", { tabindex: 0 }, h("code", {}, command ?? "")),
    copyButton("the command", () => command)];
  section("made", "How it was made",
    h("p", {}, `${report.estimator} of blockmix ${version}, Python ${python}, NumPy ${numpy}; page written ${date}.`),
    command ? h("div", { class: "command" }, again) : null, first,
    h("h3", {}, "Parameters"), table("Parameters of the model", ["Parameter", "Value", "Set or default"], lines));
}
