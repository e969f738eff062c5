// Moves the keyboard focus to a button once, as soon as the button exists.

const [EVERY, TRIES] = [100, 50]; // milliseconds between checks, and their number

export default function ({ data }) {
  if (data.number <= (window.skillvizFocus ?? 0)) return;
  window.skillvizFocus = data.number;
  let left = TRIES;
  const look = () => {
    const button = document.querySelector(`.st-key-${data.key} button`);
    const isLost = document.activeElement === document.body;
    if (button && isLost) button.focus({ preventScroll: true });
    else if (left-- > 0) setTimeout(look, EVERY);
  };
  look();
}
