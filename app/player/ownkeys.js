// Keys of a moving picture: heard also where nothing has the focus, and kept from Streamlit's shortcuts.

class OwnKeys {
  /** `actions(far)` says what each key does, by its name; `far` is whether Shift is held. */
  constructor(root, actions) {
    this.actions = actions;
    root.addEventListener("keydown", (event) => this.key(event));
    this.unfocused = (event) => {
      const nothingFocused = [document.body, document.documentElement].includes(event.composedPath()[0]);
      if (nothingFocused && root.isConnected && !takenByPage(event.key)) this.key(event);
    };
    window.addEventListener("keydown", this.unfocused, true);
  }

  release() {
    window.removeEventListener("keydown", this.unfocused, true);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0];
    if (target.matches?.("select") && event.key !== "Escape") return event.stopPropagation();
    if (target.matches?.("button") && [" ", "Enter"].includes(event.key)) return event.stopPropagation();
    const action = this.actions(event.shiftKey)[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    action();
  }
}

/** Whether a part of the page has put its name on a key that goes to nothing else, see app/keys.js. */
function takenByPage(key) {
  return [...document.querySelectorAll("[data-keys]")].some((element) => JSON.parse(element.dataset.keys).includes(key));
}

/** The keys and the reading guide, side by side. */
function helpPage(keys, guide) {
  const list = (title, entries) =>
    `<div><h3>${title}</h3><dl>${entries.map(([name, words]) => `<dt>${name}</dt><dd>${words}</dd>`).join("")}</dl></div>`;
  return `<div class="columns">${list("Keys", keys)}${list("How to read it", guide)}</div>`;
}
