// Enter takes the best match of a box that takes new names too. Streamlit puts "Add: ..." above the matches and marks it,
// so Enter took what was typed so far. Here the mark goes on to the first match after each letter, as the down arrow
// moves it. A path is named whole: it is added as it was typed. An Enter that comes before the list has followed the
// letters waits for it.

const BOX = "[data-testid=stSelectbox] input[role=combobox]";
const ADDED = "Add: ";
const PATH = /^[/~.$\\]/;
const LOOKS = 8; // times that the list is looked at, each after LATER milliseconds
const LATER = 25;

const options = (input) => [...(document.getElementById(input.getAttribute("aria-controls"))?.querySelectorAll("[role=option]") ?? [])];
const press = (input, key) => input.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));

// Whether the list is that of the letters typed so far, and has its own mark.
function hasFollowed(input) {
  const [added] = options(input);
  return added?.textContent === `${ADDED}${input.value}` && Boolean(input.getAttribute("aria-activedescendant"));
}

function markMatch(input) {
  const [added, match] = options(input);
  if (!hasFollowed(input) || !match || PATH.test(input.value)) return;
  if (input.getAttribute("aria-activedescendant") === added.id) press(input, "ArrowDown");
}

// Marks the match once the list has followed, and then presses what waits for that.
function follow(input, key = "", looks = LOOKS) {
  setTimeout(() => {
    if (looks > 0 && !hasFollowed(input)) return follow(input, key, looks - 1);
    markMatch(input);
    if (key) setTimeout(() => press(input, key), LATER);
  }, LATER);
}

export default function () {
  if (window.skillvizEnter) return;
  window.skillvizEnter = true;
  let moved = false; // by the user, since the last letter
  let typedAt = -Infinity;
  const box = (event) => (event.target.matches?.(BOX) ? event.target : null);
  window.addEventListener("input", (event) => {
    const input = box(event);
    if (!input) return;
    moved = false;
    typedAt = performance.now();
    follow(input);
  }, { capture: true });
  window.addEventListener("keydown", (event) => {
    const input = event.isTrusted && box(event);
    if (!input) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") moved = true;
    else if (event.key === "Enter" && !moved) {
      if (hasFollowed(input) || performance.now() - typedAt > LOOKS * LATER) return markMatch(input);
      event.preventDefault();
      event.stopImmediatePropagation();
      follow(input, "Enter");
    }
  }, { capture: true });
}
