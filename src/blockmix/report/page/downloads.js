// Downloads: tables as csv, pictures as PNG or SVG, and lists to the clipboard. Files are made within the page.

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Name of a file: the title of the page and what it shows, in letters and digits. */
function fileName(what, ending) {
  const words = `${report.title} ${what}`.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ["blockmix"];
  return `${words.join("-").slice(0, 80)}.${ending}`;
}

function downloadButton(format, what, act) {
  const label = `Download ${what} as ${format}`;
  return h("button", { type: "button", class: "get", title: label, "aria-label": label, onclick: act }, format);
}

/** A button that saves lines() of plain values, the first of them the heads, as csv. */
function csvButton(what, lines) {
  const act = () => save(new Blob([csv(lines())], { type: "text/csv" }), fileName(what, "csv"));
  return downloadButton("csv", what, act);
}

function csv(lines) {
  return lines.map((line) => line.map(csvCell).join(",") + "\n").join("");
}

/** Text that a spreadsheet would run as a formula gets an apostrophe in front, as in the files of the command. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  if (value instanceof Element) return csvCell(value.textContent); // a name as it is now
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A button that saves a canvas as PNG, drawn again at three times the resolution of the page. */
function pngButton(what, canvas, draw) {
  return downloadButton("PNG", what, () => {
    exporting = true;
    draw();
    const made = h("canvas", { width: canvas.width, height: canvas.height });
    const context = made.getContext("2d");
    context.fillStyle = ink("ground");
    context.fillRect(0, 0, made.width, made.height);
    context.drawImage(canvas, 0, 0);
    exporting = false;
    draw();
    // Not toBlob: a busy browser puts it off for seconds.
    const bytes = decoded(made.toDataURL().split(",")[1]);
    save(new Blob([bytes], { type: "image/png" }), fileName(what, "png"));
  });
}

/** A button that saves the SVG that find() returns. */
function svgButton(what, find) {
  const act = () => save(new Blob([svgText(find())], { type: "image/svg+xml" }), fileName(what, "svg"));
  return downloadButton("SVG", what, act);
}

/** An SVG as a file of its own: what the style sheet says is written into its elements. */
function svgText(svg) {
  const copy = svg.cloneNode(true);
  const [shown, written] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  const styled = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family", "font-weight"];
  shown.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of styled) written[i].setAttribute(name, style.getPropertyValue(name));
  });
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.prepend(h("rect", { width, height, fill: ink("ground") }));
  return new XMLSerializer().serializeToString(copy);
}

/** Copy a text, also where the browser grants a file no clipboard. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = h("textarea", { class: "unseen" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

/** A button that copies text(). */
function copyButton(what, text) {
  const button = h("button", { type: "button", class: "get", title: `Copy ${what}`, "aria-label": `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    await copied(text());
    button.textContent = "Copied";
    announce(`Copied ${what}`);
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return button;
}
