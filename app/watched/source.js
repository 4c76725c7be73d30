// The file's lines: the one at work lit and kept in view, findings below the lines that they are about.

export class Source {
  constructor(root) {
    this.box = root.querySelector(".source");
    this.lit = 0;
  }

  /** Lines and findings of another run; the text is set as text. */
  load({ source, findings }) {
    this.lit = 0;
    this.lines = source.map((text, n) => {
      const line = document.createElement("div"),
        number = document.createElement("i"),
        words = document.createElement("span");
      number.textContent = n + 1;
      words.textContent = text || " ";
      line.append(number, words);
      return line;
    });
    this.box.replaceChildren(...this.lines);
    for (const { line, sentence } of [...findings].reverse()) {
      const place = this.lines[line - 1];
      if (!place) continue;
      place.classList.add("wrong");
      const note = document.createElement("p");
      note.textContent = sentence;
      place.after(note);
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

  /** Scrolls the box alone, and only where the line and its findings are out of its sight or near its edge. */
  reveal(line) {
    if (!line) return;
    const { box } = this,
      margin = 2 * line.offsetHeight,
      top = line.offsetTop;
    let last = line;
    while (last.nextElementSibling?.localName === "p") last = last.nextElementSibling;
    const end = last.offsetTop + last.offsetHeight;
    if (top < box.scrollTop + margin || Math.max(top + 3 * margin, end) > box.scrollTop + box.clientHeight)
      box.scrollTop = Math.max(
        0,
        Math.min(top, Math.max(top - box.clientHeight / 3, end - box.clientHeight)),
      );
  }
}
