// Terms on the page, underlined where they first stand and explained where they are pointed at.
// The page's elements belong to Streamlit: ranges over its text are marked by the CSS Custom Highlight API, nothing is changed.

import { APART, MAIN, PROSE } from "../canvas/streamlit.js";
import { showing } from "../canvas/view.js";

const MARK = "attention-term";
const NOT_IN = `button, a, code, .katex, svg, ${APART}`;
const SETTLE = 250; // ms without a change before the page is read again

class Glossary {
  constructor(parent) {
    this.tip = parent.querySelector(".meaning");
    this.main = document.querySelector(MAIN);
    this.style = document.createElement("style");
    this.style.textContent = `::highlight(${MARK}) { text-decoration: underline dotted; text-decoration-thickness: 1px; text-underline-offset: 0.22em; }`;
    document.head.append(this.style);
    this.observer = new MutationObserver(() => this.soon());
    this.observer.observe(this.main, { childList: true, subtree: true, characterData: true });
    this.point = (event) => this.pointed(event);
    this.hide = () => (this.tip.hidden = true);
    document.addEventListener("pointermove", this.point);
    document.addEventListener("pointerdown", this.point); // a touch
    document.addEventListener("scroll", this.hide, true);
    [this.meanings, this.pattern] = [{}, /(?!)/gu]; // none is known yet
  }

  /** The meanings of all terms lie at an address, and are the same for every page. */
  update(address) {
    if (this.address === address) return;
    this.address = address;
    fetch(new URL(address, document.baseURI))
      .then((answer) => answer.json())
      .then((meanings) => this.learn(meanings));
  }

  learn(meanings) {
    this.meanings = meanings;
    const names = Object.keys(meanings)
      .sort((a, b) => b.length - a.length)
      .map((name) => name.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"));
    this.pattern = new RegExp(`(?<![\\p{L}\\p{N}_-])(?:${names.join("|")})(?![\\p{L}\\p{N}_-])`, "gu");
    this.soon();
  }

  release() {
    clearTimeout(this.timer);
    this.observer.disconnect();
    document.removeEventListener("pointermove", this.point);
    document.removeEventListener("pointerdown", this.point);
    document.removeEventListener("scroll", this.hide, true);
    this.style.remove();
    CSS.highlights?.delete(MARK);
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), SETTLE);
  }

  /** Marks the first of each term that the page's words hold. */
  read() {
    if (!window.Highlight) return;
    const seen = new Set(),
      marks = new Highlight();
    for (const words of this.main.querySelectorAll(PROSE)) {
      const walker = document.createTreeWalker(words, NodeFilter.SHOW_TEXT);
      for (let text = walker.nextNode(); text; text = walker.nextNode()) {
        if (text.parentElement.closest(NOT_IN)) continue;
        for (const { 0: name, index } of text.data.matchAll(this.pattern)) {
          const meaning = this.meanings[name];
          if (seen.has(meaning)) continue;
          seen.add(meaning);
          marks.add(this.range(text, index, name.length));
        }
      }
    }
    CSS.highlights.set(MARK, marks);
  }

  range(text, start, length) {
    const range = document.createRange();
    range.setStart(text, start);
    range.setEnd(text, start + length);
    return range;
  }

  /** What lies under the pointer, told beside it where it is a term. */
  pointed({ clientX: x, clientY: y, target }) {
    if (!target.closest?.(PROSE) || target.closest(NOT_IN) || !this.main.contains(target)) return this.hide();
    const caret = document.caretPositionFromPoint?.(x, y);
    const text = caret?.offsetNode ?? document.caretRangeFromPoint?.(x, y)?.startContainer;
    if (text?.nodeType !== Node.TEXT_NODE) return this.hide();
    for (const { 0: name, index } of text.data.matchAll(this.pattern)) {
      const box = [...this.range(text, index, name.length).getClientRects()].find(
        ({ left, right, top, bottom }) => x >= left && x <= right && y >= top && y <= bottom,
      );
      if (box) return this.tell(name, box);
    }
    this.hide();
  }

  tell(name, { left, top, bottom }) {
    const { tip } = this,
      title = document.createElement("b");
    title.textContent = `${name}: `;
    tip.replaceChildren(title, this.meanings[name]);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect(),
      edge = 8;
    const below = bottom + edge + height <= innerHeight;
    tip.style.left = `${Math.max(edge, Math.min(left, innerWidth - width - edge))}px`;
    tip.style.top = `${below ? bottom + edge : Math.max(edge, top - height - edge)}px`;
  }
}

export const glossary = showing(Glossary);
