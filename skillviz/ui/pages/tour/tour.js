// What Streamlit leaves undone when the tour's content changes: it stays scrolled where it was, and the keyboard's place
// is lost with the button that was pressed.

export default function ({ data }) {
  const before = window.skillvizTour;
  window.skillvizTour = data;
  if (before === undefined) return;
  if (before.step !== data.step) document.querySelector("[data-testid='stMain']")?.scrollTo({ top: 0 });
  const verdict = document.querySelector(".st-key-tour-verdict");
  if (before.step === data.step && data.revealed > before.revealed && verdict) {
    verdict.tabIndex = -1;
    verdict.focus({ preventScroll: true });
  }
}
