// In a box that also accepts new names, Enter takes the best match. Streamlit lists "Add: ..." above the matches and
// marks it, so that Enter took the letters typed so far. This moves the mark to the first match after each letter, as
// the down arrow does. A path is added as typed, because paths are typed in full. If Enter is pressed before the list
// shows the matches of the last letter, it waits for them.

const BOX = "[data-testid=stSelectbox] input[role=combobox]";
const ADDED = "Add: ";
const PATH = /^[/~.$\\]/;
const LOOKS = 8; // checks of the list, each after LATER milliseconds
const LATER = 25;

const options = (input) => [...(document.getElementById(input.getAttribute("aria-controls"))?.querySelectorAll("[role=option]") ?? [])];
const press = (input, key) => input.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));

// Returns whether the list matches the letters typed so far and has Streamlit's own mark.
function hasFollowed(input) {
  const [added] = options(input);
  return added?.textContent === `${ADDED}${input.value}` && Boolean(input.getAttribute("aria-activedescendant"));
}

function markMatch(input) {
  const [added, match] = options(input);
  if (!hasFollowed(input) || !match || PATH.test(input.value)) return;
  if (input.getAttribute("aria-activedescendant") === added.id) press(input, "ArrowDown");
}

// Marks the match once the list has caught up, and then presses the key that waited.
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
  let moved = false; // whether the user has moved the mark since the last letter
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
