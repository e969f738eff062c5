// Accessibility that Streamlit lacks, applied whenever the page has changed:
// - the effect of a choice is announced: the finding (the first paragraph), and the title if the page is another one;
// - icons in a text are not read out by their names;
// - the buttons under a figure are named after it;
// - the focus moves into an opened popover, which is last in the document, and back to its button when it closes.

const [SOON, QUIET] = [50, 700]; // milliseconds without a change until fixes are applied, and until announced
const ICONS = "[data-testid=stMarkdownContainer] [role=img][aria-label$=' icon']";
const FOLDED = "[data-testid=stExpander] summary, [data-testid=stPopoverButton]";
const BLOCK = "[data-testid=stVerticalBlock]";
const STOPS = "button, a[href], input, select, textarea, summary, [tabindex='0']";
const OPEN = "[data-testid=stPopoverBody]";

const words = (element) => {
  const copy = element.cloneNode(true);
  copy.querySelectorAll("[aria-hidden=true]").forEach((icon) => icon.remove());
  return copy.textContent.trim().replace(/\s+/g, " ");
};

// Only the chosen option of a group is a tab stop.
function isStop(element) {
  const group = element.closest("[role=radiogroup]");
  const isChosen = (choice) => choice.checked || choice.ariaChecked === "true";
  const choices = group ? [...group.querySelectorAll("[role=radio], input[type=radio]")] : [];
  const isPassedOver = choices.includes(element) && choices.some(isChosen) && !isChosen(element);
  return !element.disabled && element.tabIndex >= 0 && !isPassedOver;
}

function mend() {
  document.querySelectorAll(ICONS).forEach((icon) => icon.setAttribute("aria-hidden", "true"));
  for (const figure of document.querySelectorAll("[data-testid=stPlotlyChart]")) {
    let card = figure.closest(BLOCK);
    while (card && !card.querySelector("h2, h3")) card = card.parentElement.closest(BLOCK);
    if (!card || card.querySelector("h1")) continue;
    const title = card.querySelector("h2, h3");
    for (const button of card.querySelectorAll(FOLDED)) {
      button.setAttribute("aria-label", `${words(button)}: ${words(title)}`);
    }
  }
}

function shown() {
  const main = document.querySelector("[data-testid=stMain]");
  const title = main?.querySelector("h1");
  if (!title) return null;
  const follows = (text) => title.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING;
  const texts = [...main.querySelectorAll("[data-testid=stMarkdownContainer] p")];
  const finding = texts.find((text) => follows(text) && !text.closest("button, summary, label, a"));
  return { title: words(title), finding: finding ? words(finding) : "" };
}

function tellChanges(status) {
  let told = null;
  return () => {
    const now = shown();
    if (!now) return;
    if (told && now.title !== told.title) status.textContent = `${now.title}. ${now.finding}`;
    else if (told && now.finding !== told.finding) status.textContent = now.finding;
    told = now;
  };
}

// Returns a function that moves the focus into an open popover, and back to the button of a closed one.
function guidePopovers() {
  let [opener, isInside] = [null, false];
  window.addEventListener("keydown", (event) => {
    const at = document.activeElement;
    if (["Enter", " "].includes(event.key) && at.matches("[data-testid=stPopoverButton]")) {
      [opener, isInside] = [at, false];
    }
    const opened = at.closest(OPEN);
    if (event.key !== "Tab" || !opened || !opener?.isConnected) return;
    const inside = [...opened.querySelectorAll(STOPS)].filter(isStop);
    const ends = event.shiftKey ? [opened, inside[0]] : [inside.at(-1) ?? opened];
    if (!ends.includes(at)) return;
    event.preventDefault();
    opener.focus();
  }, { capture: true });
  window.addEventListener("pointerdown", () => (opener = null), { capture: true });
  return () => {
    const opened = document.querySelector(OPEN);
    // focus moves from its button, or from the body if the content with the focus was redrawn
    const from = isInside ? document.body : opener;
    if (opened && opener && from === document.activeElement) {
      isInside = true;
      opened.tabIndex = -1;
      (opened.querySelector(STOPS) ?? opened).focus({ preventScroll: true });
    } else if (!opened && isInside) {
      if (document.activeElement === document.body && opener?.isConnected) opener.focus();
      isInside = false;
    }
  };
}

export default function () {
  if (document.querySelector(".skillviz-status")) return;
  const status = document.createElement("p");
  status.className = "skillviz-status";
  status.setAttribute("role", "status");
  document.body.append(status);
  const [tell, guide] = [tellChanges(status), guidePopovers()];
  let [soon, quiet] = [0, 0];
  const changed = () => {
    clearTimeout(soon);
    clearTimeout(quiet);
    soon = setTimeout(() => (mend(), guide()), SOON);
    quiet = setTimeout(tell, QUIET);
  };
  new MutationObserver(changed).observe(document.body, { childList: true, subtree: true, characterData: true });
  changed();
}
