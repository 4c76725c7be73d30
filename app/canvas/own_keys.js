// Keys of a moving picture: heard also where nothing has the focus, and kept from Streamlit's shortcuts.

export class OwnKeys {
  /**
   * `actions(far, target)` says what each key does, by its name; `far` is whether Shift is held, `target` what has the focus.
   * `everywhere` is whether they are heard where nothing has the focus.
   */
  constructor(root, actions, everywhere) {
    this.actions = actions;
    root.addEventListener("keydown", (event) => this.key(event));
    this.unfocused = (event) => {
      const nothingFocused = [document.body, document.documentElement].includes(event.composedPath()[0]);
      if (nothingFocused && root.isConnected && !takenByPage(event.key)) this.key(event);
    };
    if (everywhere) window.addEventListener("keydown", this.unfocused, true);
  }

  release() {
    window.removeEventListener("keydown", this.unfocused, true);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0];
    if (target.matches?.("select") && event.key !== "Escape") return event.stopPropagation();
    if (target.matches?.("button") && [" ", "Enter"].includes(event.key)) return event.stopPropagation();
    const action = this.actions(event.shiftKey, target)[
      event.key.length === 1 ? event.key.toLowerCase() : event.key
    ];
    if (!action) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    action();
  }
}

/** Whether a part of the page has put its name on a key that goes to nothing else, see app/presenter/keys.js. */
function takenByPage(key) {
  return [...document.querySelectorAll("[data-keys]")].some((element) =>
    JSON.parse(element.dataset.keys).includes(key),
  );
}
