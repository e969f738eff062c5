// Converts a drawing to a PDF of one page with jsPDF and svg2pdf.js. Lines, areas and text remain objects, so that it
// can be enlarged, searched and edited. The libraries and the fonts are fetched when a PDF is made.

const LIBRARIES = ["jspdf.umd.min.js", "svg2pdf.umd.min.js"]; // the second needs the first
const FACES = { plain: "SourceSans3-Regular", bold: "SourceSans3-Semibold", italic: "SourceSans3-It" };
const POINT = 0.75; // points per pixel
const FINE = 4; // pixels of a picture of text per pixel of the drawing
const MITER = 4; // the default of an SVG, where a PDF has 10

const fileOf = (name) => new URL(`pdf/${name}`, document.baseURI); // served by `server.routes`

// The PDF of an <svg> in the document; `title` is written to its properties.
async function pdfOf(svg, title) {
  for (const name of window.svg2pdf ? [] : LIBRARIES) await run(fileOf(name));
  const { width, height } = svg.viewBox.baseVal;
  const format = [POINT * width, POINT * height];
  const orientation = width > height ? "landscape" : "portrait"; // jsPDF swaps the sides of a page that has the other
  const pdf = new window.jspdf.jsPDF({ unit: "pt", format, orientation, compress: true, putOnlyUsedFonts: true });
  pdf.setProperties({ title, creator: "skillviz" });
  for (const face of Object.values(FACES)) {
    pdf.addFileToVFS(face, (await dataUrl(await fetch(fileOf(`${face}.ttf`)))).split(",")[1]);
    pdf.addFont(face, face, "normal");
  }
  Object.assign(svg.style, { fontKerning: "none", fontVariantLigatures: "none" }); // jsPDF writes neither
  for (const text of svg.querySelectorAll("text")) text.replaceWith(...pieces(text, pdf));
  for (const shape of svg.querySelectorAll("[style*='url(']")) hatch(shape, svg);
  pdf.setLineMiterLimit(MITER);
  await window.svg2pdf.svg2pdf(svg, pdf, { width: format[0], height: format[1] });
  return pdf.output("blob");
}

function run(url) {
  return new Promise((done, fail) => {
    document.head.append(Object.assign(document.createElement("script"), { src: url, onload: done, onerror: fail }));
  });
}

// The text in pieces of one style, each where the browser draws it: svg2pdf.js misplaces raised and lowered text. A
// piece with a character that the font lacks is a picture.
function pieces(text, pdf) {
  const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
  const result = [];
  let first = 0;
  while (walker.nextNode()) {
    const { data, length, parentElement } = walker.currentNode;
    const words = data.replace(/\u200b/g, "");
    const end = Math.min(first + length, text.getNumberOfChars());
    if (words.trim() && end > first) {
      const style = getComputedStyle(parentElement);
      const face = FACES[style.fontStyle === "italic" ? "italic" : style.fontWeight >= 600 ? "bold" : "plain"];
      const { x, y } = text.getStartPositionOfChar(first);
      const { metadata } = pdf.getFont(face, "normal");
      const isInFont = Array.from(words, (_, at) => metadata.characterToGlyph(words.charCodeAt(at))).every(Boolean);
      const piece = isInFont
        ? element("text", { x, y, "font-family": face, "font-size": style.fontSize, fill: style.fill }, words)
        : picture(words, style, x, y, text.getSubStringLength(first, end - first));
      const { opacity } = getComputedStyle(text);
      const rest = { opacity, "fill-opacity": style.fillOpacity, visibility: style.visibility, "xml:space": "preserve" };
      const place = { transform: text.getAttribute("transform") ?? "", "text-anchor": "start" };
      for (const [name, value] of Object.entries({ ...rest, ...place })) piece.setAttribute(name, value);
      result.push(piece);
    }
    first += length;
  }
  return result;
}

function picture(words, style, x, y, width) {
  const size = parseFloat(style.fontSize);
  const height = 1.5 * size;
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: Math.ceil(FINE * width), height: Math.ceil(FINE * height) });
  const brush = canvas.getContext("2d");
  brush.scale(FINE, FINE);
  Object.assign(brush, { font: style.font, fillStyle: style.fill });
  brush.fillText(words, 0, 1.1 * size, width);
  const place = { x, y: y - 1.1 * size, width, height, preserveAspectRatio: "none" };
  return element("image", { ...place, href: canvas.toDataURL() });
}

// Fills the shape with the tiles of its pattern: as a PDF's own pattern they would be rounded to a viewer's pixels, so
// that the lines of neighboring tiles would not meet.
function hatch(shape, svg) {
  const name = getComputedStyle(shape).fill.match(/#([^"')]+)/)?.[1];
  const pattern = name && svg.querySelector(`pattern[id="${CSS.escape(name)}"]`);
  if (!pattern) return;
  const scale = pattern.patternTransform.baseVal.consolidate()?.matrix.a ?? 1;
  const [width, height] = ["width", "height"].map((side) => scale * pattern[side].baseVal.value);
  const box = shape.getBBox();
  const clip = element("clipPath", { id: `hatched-${svg.querySelectorAll("clipPath").length}` });
  clip.append(shape.cloneNode());
  clip.firstChild.removeAttribute("transform");
  const place = { transform: shape.getAttribute("transform") ?? "", opacity: getComputedStyle(shape).opacity };
  const tiles = element("g", { ...place, "clip-path": `url(#${clip.id})` });
  for (let x = width * Math.floor(box.x / width); x < box.x + box.width; x += width) {
    for (let y = height * Math.floor(box.y / height); y < box.y + box.height; y += height) {
      const tile = tiles.appendChild(element("g", { transform: `translate(${x} ${y}) scale(${scale})` }));
      tile.append(...Array.from(pattern.children, (line) => line.cloneNode()));
    }
  }
  shape.before(clip, tiles);
  shape.style.fill = "none";
}
