// Saves the chart of this card as a picture, under its title, its run and the kind of its intervals. plotly.js, which
// drew it, is already on the page: only the page's own font, and for a PDF the files of `pdf/`, are fetched.

const SORRY = "No picture could be made here. The camera that appears over the chart saves a PNG.";
const SVG = "http://www.w3.org/2000/svg";
const EDGE = 16;
const FINER = 2; // pixels of a PNG per pixel of the screen
const FAMILY = "Source Sans";
const FILLED = 0.8; // of a line: a viewer of an SVG may replace the page's font by a wider one

export default function ({ data, parentElement }) {
  const status = parentElement.querySelector("[role=status]");
  for (const button of parentElement.querySelectorAll("button")) {
    button.onclick = async () => {
      status.textContent = await save(button.value, data).catch(() => SORRY);
    };
  }
}

async function save(format, data) {
  const svg = await composed(data);
  const made = { svg: () => asFile(svg), png: () => rasterized(svg), pdf: () => asPdf(svg, data.title) };
  const url = URL.createObjectURL(await made[format]());
  const link = Object.assign(document.createElement("a"), { href: url, download: `${data.file}.${format}` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  return `${data.file}.${format} is saved, as large as the chart is now.`;
}

// the chart as plotly draws it, below its heading, on its own background
async function composed({ chart, title, lines, ground, ink, softInk, font }) {
  const drawn = document.querySelector(`.${CSS.escape(chart)} .js-plotly-plot`);
  const [width, height] = [drawn.clientWidth, drawn.clientHeight];
  const picture = { data: drawn.data, layout: { ...drawn.layout, paper_bgcolor: ground } };
  const url = await window.Plotly.toImage(picture, { format: "svg", width, height });
  const text = decodeURIComponent(url.slice(url.indexOf(",") + 1));
  const plot = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  const svg = element("svg", { xmlns: SVG, "font-family": font });
  svg.append(element("title", {}, [title, ...lines].join("\n")));
  const back = svg.appendChild(element("rect", { width, fill: ground }));
  let y = EDGE;
  for (const [words, size, weight, color] of [[title, 17, 600, ink], ...lines.map((line) => [line, 13, 400, softInk])]) {
    for (const line of broken(words, `${weight} ${size}px ${font}`, FILLED * (width - 2 * EDGE))) {
      y += Math.round(1.3 * size);
      const place = { x: EDGE, y: y - 0.3 * size, "font-size": `${size}px`, "font-weight": weight, fill: color };
      svg.append(element("text", place, line));
    }
  }
  y += EDGE / 2;
  const whole = { width, height: y + height };
  for (const [name, value] of Object.entries({ ...whole, viewBox: `0 0 ${width} ${y + height}` })) {
    svg.setAttribute(name, value);
  }
  back.setAttribute("height", whole.height);
  plot.setAttribute("y", y);
  svg.append(document.importNode(plot, true));
  return svg;
}

function element(name, attributes, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (key !== "xmlns") made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// breaks the words into lines no wider than `width`; a parameter's name is broken after its dots
function broken(words, font, width) {
  const brush = document.createElement("canvas").getContext("2d");
  brush.font = font;
  const lines = [];
  for (const word of words.split(/(?<= )(?!·)|(?<=\.)(?=[a-z])/)) {
    const longer = (lines.at(-1) ?? "") + word;
    if (lines.length && brush.measureText(longer.trimEnd()).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

function asFile(svg) {
  return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
}

async function rasterized(svg) {
  const whole = svg.cloneNode(true);
  whole.prepend(element("style", {}, await fontRule()));
  const url = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(whole))}`;
  const picture = Object.assign(new Image(), { src: url });
  await picture.decode();
  const size = { width: FINER * picture.width, height: FINER * picture.height };
  const canvas = Object.assign(document.createElement("canvas"), size);
  canvas.getContext("2d").drawImage(picture, 0, 0, size.width, size.height);
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail()), "image/png"));
}

// A rule with the page's font embedded, because a picture cannot use the page's fonts; empty if there is none.
async function fontRule() {
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      const style = rule instanceof CSSFontFaceRule ? rule.style : null;
      if (style?.getPropertyValue("font-family").replace(/"/g, "") !== FAMILY) continue;
      if (style.getPropertyValue("font-style") === "italic") continue;
      const address = style.getPropertyValue("src").match(/url\("?([^")]+)/)?.[1];
      const url = await dataUrl(await fetch(new URL(address, sheet.href ?? document.baseURI)));
      return `@font-face { font-family: "${FAMILY}"; font-weight: 200 900; src: url("${url}"); }`;
    }
  }
  return "";
}

async function dataUrl(answer) {
  if (!answer.ok) throw new Error(`${answer.url}: ${answer.status}`);
  const reader = new FileReader();
  reader.readAsDataURL(await answer.blob());
  await new Promise((done) => (reader.onload = done));
  return reader.result;
}

// measured in a hidden corner of the page, where the page's font is available
async function asPdf(svg, title) {
  const corner = document.createElement("div");
  corner.style = "position: fixed; top: 0; left: 0; z-index: -1; opacity: 0; pointer-events: none";
  corner.append(svg);
  document.body.append(corner);
  try {
    return await pdfOf(svg, title);
  } finally {
    corner.remove();
  }
}
