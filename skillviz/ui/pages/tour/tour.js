// Scrolling and focus that Streamlit does not handle when the tour's content changes: the page stays scrolled, and the
// keyboard focus is lost with the pressed button.

const [EVERY, TRIES] = [100, 30]; // milliseconds between checks, and their number

// The button, and the keyboard focus with it, disappears some time after the step is drawn.
const toHeading = (left) => {
  const heading = document.querySelector("[data-testid='stMain'] h2");
  if (heading && document.activeElement === document.body) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  } else if (left > 0) setTimeout(toHeading, EVERY, left - 1);
};

export default function ({ data }) {
  const before = window.skillvizTour;
  window.skillvizTour = data;
  if (before === undefined) return;
  if (before.step !== data.step) {
    document.querySelector("[data-testid='stMain']")?.scrollTo({ top: 0 });
    toHeading(TRIES);
  }
  const verdict = document.querySelector(".st-key-tour-verdict");
  if (before.step === data.step && data.revealed > before.revealed && verdict) {
    verdict.tabIndex = -1;
    verdict.focus({ preventScroll: true });
    // with the bars of a class, the card may be too high for a projector
    document.querySelector(".st-key-tour-question")?.scrollIntoView({ block: "nearest" });
  }
}
