// Copies the address of the present view. Where the browser keeps its clipboard to itself, the address is marked in a
// box, to be copied by hand.

const SHORT = 2500; // milliseconds

// The address, and the defaults that a link names too (`copy_link.include`).
function link() {
  const url = new URL(window.location.href);
  for (const { dataset } of document.querySelectorAll(".copied-too")) {
    if (!url.searchParams.has(dataset.name)) url.searchParams.set(dataset.name, dataset.value);
  }
  return url.href;
}

export default function ({ parentElement }) {
  const [button, status] = [parentElement.querySelector("button"), parentElement.querySelector("[role=status]")];
  button.onclick = async () => {
    const box = parentElement.querySelector("input");
    box.value = link();
    try {
      await navigator.clipboard.writeText(box.value);
      status.textContent = "Copied";
    } catch {
      box.hidden = false;
      box.select();
      status.textContent = "Press Ctrl+C";
    }
    setTimeout(() => {
      status.textContent = "";
    }, SHORT);
  };
}
