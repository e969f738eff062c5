// Converts a drawing to a PDF of one page. Lines, areas and text remain objects, so that it can be enlarged, searched
// and edited. It supports only plotly.js drawings: paths, shapes, texts, images, clips, hatching and color scales.
// The browser computes the geometry: every point gets its position on the screen, so the page needs no transformations.

const POINT = 0.75; // points per pixel
const PERCENT = SVGLength.SVG_LENGTHTYPE_PERCENTAGE;
const FACES = ["Helvetica", "Helvetica-Bold", "Helvetica-Oblique", "Helvetica-BoldOblique", "Symbol"];
const SYMBOL_FACE = 4;
const FINE = 4; // pixels of a picture of text per pixel of the drawing
const HELVETICA = "Helvetica, Arial, 'Liberation Sans', 'Nimbus Sans', sans-serif"; // fonts with equal widths
// Windows-1252, the encoding of the texts, where it differs from Latin-1
const WINDOWS = "\u20ac\0\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\0\u017d\0"
  + "\0\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\0\u017e\u0178";
// characters of the font Symbol, which every PDF reader has
const SYMBOLS = {
  "\u2212": 0x2d, "\u2264": 0xa3, "\u2265": 0xb3, "\u221e": 0xa5, "\u2190": 0xac, "\u2191": 0xad, "\u2192": 0xae,
  "\u2193": 0xaf, "\u2248": 0xbb, "\u2260": 0xb9, "\u2208": 0xce, "\u2229": 0xc7, "\u222a": 0xc8, "\u2211": 0xe5,
  "\u0394": 0x44, "\u03b1": 0x61, "\u03b2": 0x62, "\u03b3": 0x67, "\u03b4": 0x64, "\u03b5": 0x65, "\u03b8": 0x71,
  "\u03bb": 0x6c, "\u03bc": 0x6d, "\u03c0": 0x70, "\u03c3": 0x73, "\u03c4": 0x74,
}; // prettier-ignore
const SPACES = /[\u2002-\u200a\u202f\u205f\u3000]/g; // written as plain spaces; the text keeps the browser's width

// The bytes of the PDF of an <svg> in the document; `title` is written to its properties.
async function pdfOf(svg, title) {
  const page = new PdfPage(svg);
  await page.draw(svg);
  return page.bytes(title);
}

class PdfPage {
  constructor(svg) {
    this.svg = svg;
    const box = svg.viewBox.baseVal;
    [this.width, this.height] = [box.width * POINT, box.height * POINT];
    this.toPage = new DOMMatrix([POINT, 0, 0, -POINT, 0, this.height]);
    this.code = [];
    this.images = [];
    this.shadings = [];
    this.opacities = new Map();
  }

  named(id) {
    return this.svg.querySelector(`[id="${CSS.escape(id)}"]`);
  }

  // from the element's coordinates to the drawing's
  placeOf(element) {
    const [root, place] = [this.svg, element].map((of) => DOMMatrix.fromMatrix(of.getScreenCTM()));
    return root.inverse().multiply(place);
  }

  // draws the element with its children; `within` is the matrix of an element outside the document's tree (a hatching)
  async draw(element, within = null, opacity = 1) {
    if (["defs", "clipPath", "pattern", "style", "title"].includes(element.tagName)) return;
    const style = getComputedStyle(element);
    if (style.display === "none") return;
    const seen = opacity * Number(style.opacity);
    if (!seen) return;
    const matrix = this.toPage.multiply(within ?? this.placeOf(element));
    const clip = style.clipPath.match(/#([^"')]+)/);
    const clipped = clip && this.named(clip[1]);
    if (clipped) {
      this.code.push("q");
      for (const shape of clipped.children) this.path(outline(shape), matrix.multiply(own(shape)));
      this.code.push("W n");
    }
    const isSeen = style.visibility !== "hidden";
    if (element.tagName === "text") {
      if (isSeen) await this.text(element, matrix, seen);
    } else if (element.tagName === "image") {
      if (isSeen) await this.image(element, matrix, seen);
    } else if (element instanceof SVGGeometryElement) {
      if (isSeen) await this.shape(element, style, matrix, seen);
    } else {
      for (const child of element.children) await this.draw(child, within && within.multiply(own(child)), seen);
    }
    if (clipped) this.code.push("Q");
  }

  async shape(element, style, matrix, opacity) {
    const commands = outline(element);
    if (!commands.length) return;
    const filling = style.fill.match(/url\("?#([^"')]+)/);
    const fill = filling ? null : paint(style.fill, style.fillOpacity * opacity);
    const stroke = paint(style.stroke, style.strokeOpacity * opacity);
    if (filling) await this.filled(element, commands, matrix, filling[1], style.fillOpacity * opacity);
    const width = parseFloat(style.strokeWidth);
    if (!fill && !(stroke && width)) return;
    this.code.push("q", this.seenThrough(fill?.alpha ?? 1, stroke?.alpha ?? 1));
    if (fill) this.code.push(`${fill.color} rg`);
    if (stroke && width) {
      const scale = style.vectorEffect === "non-scaling-stroke" ? POINT : Math.sqrt(Math.abs(determinant(matrix)));
      const dashes = style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(/[ ,]+/).map(parseFloat);
      const ends = { butt: 0, round: 1, square: 2 }[style.strokeLinecap];
      const corners = { miter: 0, round: 1, bevel: 2 }[style.strokeLinejoin] ?? 0;
      this.code.push(
        `${stroke.color} RG ${number(width * scale)} w ${ends} J ${corners} j ${parseFloat(style.strokeMiterlimit)} M`,
        `[${dashes.map((dash) => number(dash * scale)).join(" ")}] 0 d`,
      );
    }
    this.path(commands, matrix);
    const star = style.fillRule === "evenodd" ? "*" : "";
    this.code.push(fill ? (stroke && width ? `B${star}` : `f${star}`) : "S", "Q");
  }

  // fills a shape with a color scale or a hatching
  async filled(element, commands, matrix, name, opacity) {
    const filling = this.named(name);
    if (!filling) return;
    this.code.push("q");
    this.path(commands, matrix);
    this.code.push("W n");
    if (filling.tagName === "pattern") await this.hatched(element, matrix, filling, opacity);
    else if (filling.tagName === "linearGradient") this.shaded(element, matrix, filling, opacity);
    this.code.push("Q");
  }

  shaded(element, matrix, gradient, opacity) {
    const box = element.getBBox();
    const isInBox = gradient.gradientUnits.baseVal === SVGUnitTypes.SVG_UNIT_TYPE_OBJECTBOUNDINGBOX;
    const ends = ["1", "2"].map((end) => {
      const [x, y] = ["x", "y"].map((axis) => gradient[axis + end].baseVal);
      const place = isInBox
        ? [box.x + x.valueInSpecifiedUnits * (x.unitType === PERCENT ? 0.01 : 1) * box.width,
          box.y + y.valueInSpecifiedUnits * (y.unitType === PERCENT ? 0.01 : 1) * box.height]
        : [x.value, y.value];
      const { x: onX, y: onY } = matrix.transformPoint(new DOMPoint(...place));
      return `${number(onX)} ${number(onY)}`;
    }); // prettier-ignore
    const stops = [...gradient.querySelectorAll("stop")].map((stop) => ({
      at: stop.offset.baseVal, color: paint(getComputedStyle(stop).stopColor, 1)?.color ?? "1 1 1",
    })); // prettier-ignore
    const steps = stops.slice(1).map((stop, at) => `<< /FunctionType 2 /Domain [0 1] /N 1 /C0 [${stops[at].color}] `
      + `/C1 [${stop.color}] >>`); // prettier-ignore
    if (!steps.length) return;
    const inner = stops.slice(1, -1).map((stop) => number(stop.at)).join(" ");
    this.shadings.push(
      `<< /ShadingType 2 /ColorSpace /DeviceRGB /Coords [${ends.join(" ")}] /Extend [true true] /Function `
      + `<< /FunctionType 3 /Domain [0 1] /Functions [${steps.join(" ")}] /Bounds [${inner}] `
      + `/Encode [${"0 1 ".repeat(steps.length)}] >> >>`,
    ); // prettier-ignore
    this.code.push(this.seenThrough(opacity, 1), `/S${this.shadings.length - 1} sh`);
  }

  // draws the tiles of a pattern
  async hatched(element, matrix, pattern, opacity) {
    const box = element.getBBox();
    const tile = ["width", "height"].map((side) => pattern[side].baseVal.value);
    const base = own(pattern);
    const back = base.inverse();
    const corners = [[box.x, box.y], [box.x + box.width, box.y + box.height], [box.x, box.y + box.height],
      [box.x + box.width, box.y]].map(([x, y]) => back.transformPoint(new DOMPoint(x, y))); // prettier-ignore
    const range = (axis, side) => [
      Math.floor(Math.min(...corners.map((corner) => corner[axis])) / side) - 1,
      Math.ceil(Math.max(...corners.map((corner) => corner[axis])) / side) + 1,
    ];
    const [[left, right], [top, bottom]] = [range("x", tile[0]), range("y", tile[1])];
    const onPage = this.toPage.inverse().multiply(matrix).multiply(base);
    for (let column = left; column < right; column++) {
      for (let row = top; row < bottom; row++) {
        const place = onPage.translate(column * tile[0], row * tile[1]);
        for (const child of pattern.children) await this.draw(child, place.multiply(own(child)), opacity);
      }
    }
  }

  async text(element, matrix, opacity) {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    let first = 0;
    while (walker.nextNode()) {
      const words = walker.currentNode.data;
      const style = getComputedStyle(walker.currentNode.parentElement);
      const ink = paint(style.fill, style.fillOpacity * opacity);
      const at = Math.min(element.getNumberOfChars(), first + words.length);
      if (ink && words.trim() && at > first) {
        this.code.push("q", this.seenThrough(ink.alpha, 1), `${ink.color} rg`);
        for (const [from, to, face] of runs(words, style)) {
          const start = element.getStartPositionOfChar(first + from);
          const length = element.getSubStringLength(first + from, Math.min(to, at - first) - from);
          await this.run(words.slice(from, to), face, style, matrix.translate(start.x, start.y), length);
        }
        this.code.push("Q");
      }
      first += words.length;
    }
  }

  // the text of one face, stretched to the browser's width; a picture of it if no face has its characters
  async run(words, face, style, matrix, length) {
    const size = parseFloat(style.fontSize);
    const signs = [...words.replace(SPACES, " ")].map((sign) => (face === SYMBOL_FACE ? SYMBOLS[sign] : code(sign)));
    if (signs.includes(undefined)) {
      const [width, height] = [length, 1.5 * size];
      const brush = canvas(Math.ceil(FINE * width), Math.ceil(FINE * height));
      brush.scale(FINE, FINE);
      Object.assign(brush, { font: style.font, fillStyle: style.fill });
      brush.fillText(words, 0, 1.1 * size, width);
      await this.pixels(brush, matrix.multiply(new DOMMatrix([width, 0, 0, height, 0, -1.1 * size])), 1);
      return;
    }
    const brush = canvas(1, 1);
    brush.font = `${face & 2 ? "italic" : ""} ${face & 1 ? 700 : 400} ${size}px ${HELVETICA}`;
    const stretch = length / (brush.measureText(words).width || length);
    const hex = signs.map((sign) => sign.toString(16).padStart(2, "0")).join("");
    this.code.push(
      `BT /F${face} ${number(size)} Tf ${number(100 * stretch)} Tz ${entries(matrix.scale(1, -1))} Tm <${hex}> Tj ET`,
    );
  }

  async image(element, matrix, opacity) {
    const picture = Object.assign(new Image(), { src: element.href.baseVal });
    await picture.decode();
    const [width, height] = [picture.naturalWidth, picture.naturalHeight];
    const brush = canvas(width, height);
    brush.drawImage(picture, 0, 0);
    const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => element[name].baseVal.value);
    await this.pixels(brush, matrix.multiply(new DOMMatrix([w, 0, 0, h, x, y])), opacity);
  }

  // draws the content of a canvas in the unit square of the matrix, y downwards
  async pixels(brush, matrix, opacity) {
    const { width, height } = brush.canvas;
    const pixels = brush.getImageData(0, 0, width, height).data;
    const [colors, alphas] = [new Uint8Array(3 * width * height), new Uint8Array(width * height)];
    for (let at = 0; at < width * height; at++) {
      colors.set(pixels.subarray(4 * at, 4 * at + 3), 3 * at);
      alphas[at] = pixels[4 * at + 3];
    }
    this.images.push({ width, height, colors: await deflated(colors), alphas: await deflated(alphas) });
    const upright = matrix.multiply(new DOMMatrix([1, 0, 0, -1, 0, 1]));
    this.code.push(
      "q", this.seenThrough(opacity, 1), `${entries(upright)} cm`, `/I${this.images.length - 1} Do Q`,
    ); // prettier-ignore
  }

  path(commands, matrix) {
    for (const [letter, ...values] of commands) {
      const places = [];
      for (let at = 0; at < values.length; at += 2) {
        const { x, y } = matrix.transformPoint(new DOMPoint(values[at], values[at + 1]));
        places.push(number(x), number(y));
      }
      this.code.push([...places, { M: "m", L: "l", C: "c", Z: "h" }[letter]].join(" "));
    }
  }

  // the operator that sets the opacity of areas and lines
  seenThrough(fill, stroke) {
    const key = `/ca ${number(fill)} /CA ${number(stroke)}`;
    if (!this.opacities.has(key)) this.opacities.set(key, `G${this.opacities.size}`);
    return `/${this.opacities.get(key)} gs`;
  }

  async bytes(title) {
    const encoder = new TextEncoder();
    const objects = []; // each is a list of texts and bytes; its number is its index + 1
    const add = (...parts) => objects.push(parts);
    const stream = (words, data) =>
      add(`<< ${words} /Length ${data.length} /Filter /FlateDecode >> stream\n`, data, "\nendstream");
    const fonts = FACES.map((face, at) => `/F${at} ${6 + at} 0 R`).join(" ");
    const states = [...this.opacities].map(([words, name]) => `/${name} << ${words} >>`).join(" ");
    const shadings = this.shadings.map((words, at) => `/S${at} ${words}`).join(" ");
    const first = 6 + FACES.length;
    const pictures = this.images.map((image, at) => `/I${at} ${first + 2 * at} 0 R`).join(" ");
    add("<< /Type /Catalog /Pages 2 0 R >>");
    add("<< /Type /Pages /Kids [3 0 R] /Count 1 >>");
    const size = `${number(this.width)} ${number(this.height)}`;
    add(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${size}] /Contents 5 0 R /Resources << /Font << ${fonts} >> `
      + `/ExtGState << ${states} >> /XObject << ${pictures} >> /Shading << ${shadings} >> >> >>`,
    ); // prettier-ignore
    add(`<< /Title <feff${hex16(title)}> /Producer (skillviz) >>`);
    stream("", await deflated(encoder.encode(this.code.join("\n"))));
    for (const [at, face] of FACES.entries()) {
      const encoding = at === SYMBOL_FACE ? "" : " /Encoding /WinAnsiEncoding";
      add(`<< /Type /Font /Subtype /Type1 /BaseFont /${face}${encoding} >>`);
    }
    for (const [at, { width, height, colors, alphas }] of this.images.entries()) {
      const size = `/Type /XObject /Subtype /Image /Width ${width} /Height ${height} /BitsPerComponent 8`;
      stream(`${size} /ColorSpace /DeviceRGB /SMask ${first + 2 * at + 1} 0 R`, colors);
      stream(`${size} /ColorSpace /DeviceGray`, alphas);
    }
    const parts = [encoder.encode("%PDF-1.4\n"), new Uint8Array([0x25, 0xe2, 0xe3, 0xcf, 0xd3, 0x0a])];
    const length = () => parts.reduce((sum, part) => sum + part.length, 0);
    const places = [];
    for (const [at, object] of objects.entries()) {
      places.push(length());
      const pieces = [`${at + 1} 0 obj\n`, ...object, "\nendobj\n"];
      parts.push(...pieces.map((piece) => (typeof piece === "string" ? encoder.encode(piece) : piece)));
    }
    const start = length();
    const rows = places.map((place) => `${String(place).padStart(10, "0")} 00000 n \n`).join("");
    parts.push(encoder.encode(
      `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${rows}trailer\n`
      + `<< /Size ${objects.length + 1} /Root 1 0 R /Info 4 0 R >>\nstartxref\n${start}\n%%EOF\n`,
    )); // prettier-ignore
    return new Blob(parts, { type: "application/pdf" });
  }
}

// the element's own transformation
function own(element) {
  const all = (element.transform ?? element.patternTransform)?.baseVal;
  let matrix = new DOMMatrix();
  for (let at = 0; at < (all?.length ?? 0); at++) {
    const { a, b, c, d, e, f } = all[at].matrix;
    matrix = matrix.multiply(new DOMMatrix([a, b, c, d, e, f]));
  }
  return matrix;
}

// the shape as [M|L|C|Z, ...coordinates] in its own coordinates
function outline(element) {
  const value = (name) => element[name].baseVal.value;
  switch (element.tagName) {
    case "path": return parsed(element.getAttribute("d") ?? "");
    case "line": return [["M", value("x1"), value("y1")], ["L", value("x2"), value("y2")]];
    case "rect": {
      const [x, y, w, h] = ["x", "y", "width", "height"].map(value);
      return [["M", x, y], ["L", x + w, y], ["L", x + w, y + h], ["L", x, y + h], ["Z"]];
    }
    case "circle": case "ellipse": {
      const [x, y] = [value("cx"), value("cy")];
      const [w, h] = element.tagName === "circle" ? [value("r"), value("r")] : [value("rx"), value("ry")];
      return parsed(`M${x - w},${y}A${w},${h} 0 1 1 ${x + w},${y}A${w},${h} 0 1 1 ${x - w},${y}Z`);
    }
    case "polygon": case "polyline": {
      const points = [...element.points].map(({ x, y }, at) => [at ? "L" : "M", x, y]);
      return element.tagName === "polygon" && points.length ? [...points, ["Z"]] : points;
    }
    default: return [];
  }
} // prettier-ignore

const ARGUMENTS = { M: 2, L: 2, H: 1, V: 1, C: 6, S: 4, Q: 4, T: 2, A: 7, Z: 0 };

// the path converted to absolute lines and cubic curves
function parsed(text) {
  const result = [];
  let [x, y, startX, startY, cubic, quadratic] = [0, 0, 0, 0, null, null];
  for (const [, letter, rest] of text.matchAll(/([MLHVCSQTAZ])([^MLHVCSQTAZ]*)/gi)) {
    const values = (rest.match(/[-+]?(?:\d*\.\d+|\d+\.?)(?:e[-+]?\d+)?/gi) ?? []).map(Number);
    let kind = letter.toUpperCase();
    const isRelative = letter !== kind;
    const count = ARGUMENTS[kind];
    for (let at = 0; at < (count ? values.length : 1); at += count || 1) {
      const [dx, dy] = isRelative ? [x, y] : [0, 0];
      const v = values.slice(at, at + count);
      const point = (place) => [v[place] + dx, v[place + 1] + dy];
      let [nextCubic, nextQuadratic] = [null, null];
      if (kind === "Z") {
        result.push(["Z"]);
        [x, y] = [startX, startY];
      } else if (kind === "M" || kind === "L" || kind === "H" || kind === "V") {
        const [toX, toY] = kind === "H" ? [v[0] + dx, y] : kind === "V" ? [x, v[0] + dy] : point(0);
        result.push([kind === "M" ? "M" : "L", toX, toY]);
        [x, y] = [toX, toY];
        if (kind === "M") [startX, startY, kind] = [x, y, "L"]; // further points after a move are lines
      } else if (kind === "C" || kind === "S") {
        const first = kind === "C" ? point(0) : cubic ? [2 * x - cubic[0], 2 * y - cubic[1]] : [x, y];
        const [second, end] = kind === "C" ? [point(2), point(4)] : [point(0), point(2)];
        result.push(["C", ...first, ...second, ...end]);
        [[x, y], nextCubic] = [end, second];
      } else if (kind === "Q" || kind === "T") {
        const control = kind === "Q" ? point(0) : quadratic ? [2 * x - quadratic[0], 2 * y - quadratic[1]] : [x, y];
        const end = kind === "Q" ? point(2) : point(0);
        const toward = ([a, b]) => [a + (2 / 3) * (control[0] - a), b + (2 / 3) * (control[1] - b)];
        result.push(["C", ...toward([x, y]), ...toward(end), ...end]);
        [[x, y], nextQuadratic] = [end, control];
      } else {
        const end = point(5);
        result.push(...arc(x, y, v, end));
        [x, y] = end;
      }
      [cubic, quadratic] = [nextCubic, nextQuadratic];
    }
  }
  return result;
}

// an elliptical arc as cubic curves, by the center parametrization of the SVG specification (appendix F.6)
function arc(x, y, [givenX, givenY, degrees, isLarge, isSweep], [toX, toY]) {
  let [rx, ry] = [Math.abs(givenX), Math.abs(givenY)];
  if (!rx || !ry || (x === toX && y === toY)) return [["L", toX, toY]];
  const turn = (degrees * Math.PI) / 180;
  const [cos, sin] = [Math.cos(turn), Math.sin(turn)];
  const [halfX, halfY] = [(x - toX) / 2, (y - toY) / 2];
  const [px, py] = [cos * halfX + sin * halfY, -sin * halfX + cos * halfY];
  const spread = Math.sqrt(Math.max(1, (px / rx) ** 2 + (py / ry) ** 2));
  [rx, ry] = [rx * spread, ry * spread];
  const square = (rx * ry) ** 2 / ((rx * py) ** 2 + (ry * px) ** 2) - 1;
  const factor = (!isLarge === !isSweep ? -1 : 1) * Math.sqrt(Math.max(0, square));
  const [qx, qy] = [(factor * rx * py) / ry, (-factor * ry * px) / rx];
  const [cx, cy] = [cos * qx - sin * qy + (x + toX) / 2, sin * qx + cos * qy + (y + toY) / 2];
  const from = Math.atan2((py - qy) / ry, (px - qx) / rx);
  let angle = Math.atan2((-py - qy) / ry, (-px - qx) / rx) - from;
  if (isSweep && angle < 0) angle += 2 * Math.PI;
  if (!isSweep && angle > 0) angle -= 2 * Math.PI;
  const count = Math.max(1, Math.ceil(Math.abs(angle) / (Math.PI / 2) - 1e-9));
  const step = angle / count;
  const reach = (4 / 3) * Math.tan(step / 4);
  const place = (u, v) => [cx + cos * rx * u - sin * ry * v, cy + sin * rx * u + cos * ry * v];
  return Array.from({ length: count }, (_, at) => {
    const [start, end] = [from + at * step, from + (at + 1) * step];
    return [
      "C",
      ...place(Math.cos(start) - reach * Math.sin(start), Math.sin(start) + reach * Math.cos(start)),
      ...place(Math.cos(end) + reach * Math.sin(end), Math.sin(end) - reach * Math.cos(end)),
      ...place(Math.cos(end), Math.sin(end)),
    ];
  });
}

// a CSS color as `r g b` of a PDF with its opacity; null if nothing is painted
function paint(color, opacity) {
  const [red, green, blue, alpha = 1] = (color.match(/[\d.]+(?:e-?\d+)?/g) ?? []).map(Number);
  const seen = alpha * Number(opacity);
  if (!color.startsWith("rgb") || !seen) return null;
  return { color: [red, green, blue].map((part) => number(part / 255)).join(" "), alpha: seen };
}

// [from, to, face] for each part of the text in one face
function runs(words, style) {
  const face = (Number(style.fontWeight) >= 600 ? 1 : 0) + (style.fontStyle === "italic" ? 2 : 0);
  const result = [];
  for (let at = 0; at < words.length; at++) {
    const of = words[at] in SYMBOLS ? SYMBOL_FACE : face;
    if (result.length && result.at(-1)[2] === of) result.at(-1)[1] = at + 1;
    else result.push([at, at + 1, of]);
  }
  return result;
}

// the character's code in Windows-1252; undefined if it has none
function code(sign) {
  const point = sign.codePointAt(0);
  if ((point >= 0x20 && point < 0x7f) || (point >= 0xa0 && point <= 0xff)) return point;
  const at = WINDOWS.indexOf(sign);
  return sign !== "\0" && at >= 0 ? 0x80 + at : undefined;
}

const determinant = ({ a, b, c, d }) => a * d - b * c;
const entries = ({ a, b, c, d, e, f }) => [a, b, c, d, e, f].map(number).join(" ");
const canvas = (width, height) => Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
const number = (value) => String(Number(value.toFixed(4)));
const hex16 = (text) => Array.from(text, (_, at) => text.charCodeAt(at).toString(16).padStart(4, "0")).join("");

async function deflated(bytes) {
  const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(packed).arrayBuffer());
}
