// The tile visits as text, a page at a time, behind the picture until it is asked for.

import { clamp, grouped } from "../canvas/format.js";
import { drawnNote } from "./size_words.js";
import { visitColumns } from "./visit_columns.js";

const TABLE_ROWS = 16;
const HTML = `<table><caption></caption><thead><tr></tr></thead><tbody></tbody></table>
<div class="pager"><button data-do="earlier">Earlier</button><button data-do="later">Later</button><button data-do="table">Close</button></div>`;

export class StepsTable {
  /** The table stands within a player's root. */
  constructor(player) {
    const root = document.createElement("section"),
      ariaLabel = "Steps around the current one";
    Object.assign(root, { className: "steps behind", ariaLabel, innerHTML: HTML });
    player.root.append(root);
    Object.assign(this, { root, player, page: null }); // no page: that of the current visit
  }

  get open() {
    return !this.root.classList.contains("behind");
  }

  show(on) {
    this.root.classList.toggle("behind", !on);
    this.page = null;
    this.fill();
  }

  turn(by) {
    const pages = Math.ceil(this.player.model.run.visits / TABLE_ROWS);
    this.page = clamp((this.page ?? this.currentPage()) + by, 0, pages - 1);
    this.fill();
  }

  currentPage() {
    return Math.floor(this.currentVisit() / TABLE_ROWS);
  }

  currentVisit() {
    const { run, stepNow } = this.player;
    return Math.max(0, run.visitsSoFar[clamp(stepNow, 0, run.steps - 1)] - 1);
  }

  /** A page of tile visits as text, around the current one unless the reader has turned to another. */
  fill() {
    const { model, run } = this.player;
    const page = this.page ?? this.currentPage(),
      current = this.currentVisit();
    const from = page * TABLE_ROWS,
      to = Math.min(run.visits, from + TABLE_ROWS);
    const columns = visitColumns(run);
    this.root.querySelector("caption").textContent =
      `${run.title}, visits ${grouped(from + 1)} to ${grouped(to)} of ${grouped(run.visits)}` +
      (model.scaled ? ` (${drawnNote(model)})` : "");
    const cell = (tag, words, number) => `<${tag}${number ? ' class="number"' : ""}>${words}</${tag}>`;
    this.root.querySelector("thead tr").innerHTML = columns
      .map(({ title, number }) => cell("th", title, number))
      .join("");
    const rows = [];
    for (let visit = from; visit < to; visit++) {
      const cells = columns
        .map(({ of, show, number }) => cell("td", show(of(model, visit)), number))
        .join("");
      rows.push(`<tr${visit === current ? ' class="current" aria-current="step"' : ""}>${cells}</tr>`);
    }
    this.root.querySelector("tbody").innerHTML = rows.join("");
  }
}
