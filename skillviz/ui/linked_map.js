// A map of parts and a list of sentences: a chosen part marks the sentences that it changes, a chosen sentence its parts.
// All is done here, so no script runs. Texts are users' data: they are only ever set as textContent.

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const known = new WeakMap(); // the drawn content by root, because this runs again at each run of the page

function element(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// The buttons of the map by row and column, as in the figures: no button where the region has no entry.
function drawMap(root, data) {
  const heads = data.titles.map((title) => element("th", { scope: "col", title }));
  heads.forEach((head, at) => head.append(element("span", {}, data.columns[at])));
  const head = element("tr");
  head.append(element("td"), ...heads);
  root.querySelector("caption").textContent = `Sentences changed, by ${data.down} and ${data.across}`;
  root.querySelector("thead").replaceChildren(head);
  const grid = data.rows.map(() => []);
  const buttons = data.parts.map((part, number) => {
    const button = element("button", { type: "button", tabindex: number ? -1 : 0 });
    grid[part.at[0]][part.at[1]] = button;
    return button;
  });
  root.querySelector("tbody").replaceChildren(
    ...data.rows.map((name, row) => {
      const line = element("tr");
      line.append(element("th", { scope: "row" }, name));
      data.columns.forEach((_, column) => {
        const cell = line.appendChild(element("td"));
        if (grid[row][column]) cell.append(grid[row][column]);
      });
      return line;
    }),
  );
  return { buttons, grid };
}

function drawSentences(root, data) {
  root.querySelector(".sentences p").textContent = data.listed;
  const items = data.sentences.map((sentence) => {
    const item = element("li");
    const button = item.appendChild(element("button", { type: "button" }));
    button.append(element("span", { class: "mark" }), element("bdi", { class: "text" }, sentence.text));
    button.append(element("bdi", { class: "facts" }, sentence.facts));
    return item;
  });
  root.querySelector("ol").replaceChildren(...items);
  return items;
}

const better = ([, direction]) => (direction > 0 ? "better" : "worse");
const size = ([points, , answer]) => (answer ? 1000 : 0) + Number(points.replace(/[+−]/, ""));

function draw(root, data) {
  const [{ buttons, grid }, items] = [drawMap(root, data), drawSentences(root, data)];
  const [status, list] = [root.querySelector("[role=status]"), root.querySelector("ol")];
  let chosen = null;
  // The choice outlasts this content and the page, and stands in the address (history.js).
  const choices = (window.skillvizChoices ??= {});
  const remembered = () => choices[data.name]?.value;
  const remember = (value) => {
    choices[data.name] = { path: window.location.pathname, value };
    const url = new URL(window.location.href);
    if (value) url.searchParams.set(data.name, value);
    else url.searchParams.delete(data.name);
    window.history.replaceState(window.history.state, "", url);
  };

  // Shows the marks of a part or a sentence, or of none; `of` is ["part" or "sentence", its number].
  const mark = (of) => {
    const [kind, number] = of ?? [];
    const part = kind === "part" ? data.parts[number] : null;
    data.parts.forEach((one, at) => {
      const [button, found] = [buttons[at], kind === "sentence" ? one.marks[number] : null];
      const isFaint = kind === "sentence" && !found;
      button.className = [found ? better(found) : "", found?.[2] ? "turned" : "", isFaint ? "faint" : ""].join(" ");
      button.textContent = kind === "sentence" ? (found?.[0] ?? "") : one.count;
      Object.assign(button.style, { background: isFaint || found ? "" : one.ground, color: found ? "" : one.ink });
      button.style.fontWeight = one.bold && kind !== "sentence" ? 700 : 400;
      const changed = found ? `${found[0]} points${found[2] && `, answer ${found[2]}`}` : "no change";
      button.ariaLabel = `${one.name}: ${kind === "sentence" ? changed : `changes ${one.count} sentences`}`;
      button.ariaPressed = kind === "part" && number === at;
    });
    items.forEach((item, at) => {
      const [button, found] = [item.firstChild, part?.marks[at]];
      item.className = found ? `${better(found)} ${found[2] ? "turned" : ""}` : "";
      button.firstChild.textContent = found ? `${found[2] ? `◆ now ${found[2]}, ` : ""}${found[0]} points` : "";
      button.ariaPressed = kind === "sentence" && number === at;
    });
    if (kind !== "sentence") {
      const rank = (item) => size(part?.marks[items.indexOf(item)] ?? ["-1", 0, ""]);
      const focused = root.getRootNode().activeElement;
      list.append(...[...items].sort((a, b) => rank(b) - rank(a)));
      if (list.contains(focused)) focused.focus();
      list.scrollTop = 0;
    }
    const lost = !chosen && remembered() ? `'${remembered()}' is not among these parts and sentences. ` : "";
    status.textContent = of ? (part ?? data.sentences[number]).says : lost + data.hint;
  };
  const choose = (of) => {
    chosen = of && chosen?.join() === of.join() ? null : of;
    remember(chosen ? data[`${chosen[0]}s`][chosen[1]].key : "");
    mark(chosen);
  };
  const preview = (of) => (!chosen || chosen[0] === of[0]) && mark(of);
  const link = (button, kind, number) => {
    button.onclick = () => choose([kind, number]);
    button.onpointerenter = ({ pointerType }) => void (pointerType === "mouse" && preview([kind, number]));
    button.onpointerleave = ({ pointerType }) => void (pointerType === "mouse" && mark(chosen));
  };
  buttons.forEach((button, number) => link(button, "part", number));
  items.forEach((item, number) => link(item.firstChild, "sentence", number));

  // Arrow keys move to the next part in their direction; it is marked as if the mouse was over it.
  root.querySelector("table").onkeydown = (event) => {
    const [step, number] = [STEPS[event.key], buttons.indexOf(event.target)];
    if (!step || number < 0) return;
    event.preventDefault();
    let [row, column] = data.parts[number].at;
    do [row, column] = [row + step[0], column + step[1]];
    while (grid[row] && column >= 0 && column < data.columns.length && !grid[row][column]);
    const next = grid[row]?.[column];
    if (!next) return;
    [buttons[number].tabIndex, next.tabIndex] = [-1, 0];
    next.focus();
    preview(["part", buttons.indexOf(next)]);
  };
  root.querySelector("table").onfocusout = () => mark(chosen);
  root.onkeydown = ({ key }) => void (key === "Escape" && chosen && choose(chosen)); // false would stop Enter
  remember(remembered() ?? data.chosen);
  for (const kind of ["part", "sentence"]) {
    const at = data[`${kind}s`].findIndex((one) => one.key === remembered());
    if (at >= 0) chosen ??= [kind, at];
  }
  mark(chosen);
}

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".linked");
  const content = JSON.stringify({ ...data, chosen: "" });
  if (known.get(root) === content) return;
  known.set(root, content);
  for (const name of ["better", "worse"]) root.style.setProperty(`--${name}`, data[name]);
  draw(root, data);
}
