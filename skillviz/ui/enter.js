// Enter takes the best match of a box that takes new names too. Streamlit puts "Add: ..." above the matches and marks it,
// so Enter took what was typed so far. Here the mark goes on to the first match after each letter, as the down arrow
// moves it. A path is named whole: it is added as it was typed.

const BOX = "[data-testid=stSelectbox] input[role=combobox]";
const ADDED = "Add: ";
const PATH = /^[/~.$\\]/;

const options = (input) => [...(document.getElementById(input.getAttribute("aria-controls"))?.querySelectorAll("[role=option]") ?? [])];

function markMatch(input) {
  const [added, match] = options(input);
  const isOffered = added?.textContent === `${ADDED}${input.value}` && match;
  if (!isOffered || PATH.test(input.value)) return;
  const marked = input.getAttribute("aria-activedescendant");
  if (marked && marked !== added.id) return;
  input.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true, cancelable: true }));
}

export default function () {
  if (window.skillvizEnter) return;
  window.skillvizEnter = true;
  let moved = false; // by the user, since the last letter
  const box = (event) => (event.target.matches?.(BOX) ? event.target : null);
  window.addEventListener("input", (event) => {
    const input = box(event);
    if (!input) return;
    moved = false;
    setTimeout(() => markMatch(input), 50);
  }, { capture: true });
  window.addEventListener("keydown", (event) => {
    const input = event.isTrusted && box(event);
    if (!input) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") moved = true;
    else if (event.key === "Enter" && !moved) markMatch(input);
  }, { capture: true });
}
