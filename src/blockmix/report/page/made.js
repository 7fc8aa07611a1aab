// Made: versions, parameters and the command that made the page.

function made() {
  const { version, python, numpy, date, parameters, command } = report.made;
  const lines = parameters.map(({ name, value, default: usual }) => row(
    [h("code", {}, name), h("code", {}, value), usual ? "default" : "set"], { class: usual ? null : "set" }));
  const again = [h("h3", {}, "To reproduce it"), h("pre", { tabindex: 0 }, h("code", {}, command ?? "")),
    copyButton("the command", () => command)];
  section("made", "How it was made",
    h("p", {}, `${report.estimator} of blockmix ${version}, Python ${python}, NumPy ${numpy}; page written ${date}.`),
    command ? h("div", { class: "command" }, again) : null,
    h("h3", {}, "Parameters"), table("Parameters of the model", ["Parameter", "Value", "Set or default"], lines));
}
