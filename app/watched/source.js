// The file's lines: the one at work lit and kept in view, findings below the lines that they are about.

/** An element with a text, set as text. */
const made = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });

export class Source {
  constructor(root) {
    this.box = made("div", "");
    const about = "The file's source, with the line at work and the findings";
    Object.assign(this.box, { className: "source", tabIndex: 0, role: "group", ariaLabel: about });
    root.querySelector(".stage").after(this.box);
  }

  /** Lines and findings of another run. */
  load({ source, findings }) {
    this.lit = 0;
    this.lines = source.map((text, n) => {
      const line = made("div", "");
      line.append(made("i", n + 1), made("span", text || " "));
      return line;
    });
    this.box.replaceChildren(...this.lines);
    for (const { line, sentence } of [...findings].reverse()) {
      const place = this.lines[line - 1];
      if (!place) continue;
      place.classList.add("wrong");
      place.after(made("p", sentence));
    }
    this.first = findings.find(({ line }) => this.lines[line - 1])?.line ?? 0;
    this.keep();
  }

  /** Lights a line, 0 for none; at first the first finding is in view. */
  show(number) {
    if (number === this.lit) return;
    this.lines[this.lit - 1]?.classList.remove("lit");
    this.lines[number - 1]?.classList.add("lit");
    this.lit = number;
    this.keep();
  }

  /** Keeps the line at work in view, or the first finding where none is. */
  keep() {
    this.reveal(this.lines?.[(this.lit || this.first) - 1]);
  }

  /** Scrolls the box alone, and only where the line is out of its sight or near its edge. */
  reveal(line) {
    if (!line) return;
    const { box } = this,
      margin = 2 * line.offsetHeight,
      top = line.offsetTop;
    if (top < box.scrollTop + margin || top + 3 * margin > box.scrollTop + box.clientHeight)
      box.scrollTop = top - box.clientHeight / 3;
  }
}
