// The tile visits as text, a page at a time, behind the picture until it is asked for, and as a file.

import { csvFile } from "../canvas/csv.js";
import { clamp, decimal, duration, factor, grouped, percent, sum, traffic } from "../canvas/format.js";
import { NONE } from "./run.js";
import { drawnNote } from "./size_words.js";

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

/** A column of numbers: its title, what it has `of(model, visit)`, how that is shown, and its unit. */
const numbers = (title, of, show = String, unit = "") => ({ title, of, show, unit, number: true });

function visitColumns(run) {
  const start = (visit) => run.visitStart[visit],
    end = (visit) => (visit + 1 < run.visits ? run.visitStart[visit + 1] : run.steps) - 1,
    tile = (n) => (n === NONE ? "all" : n),
    kernel = (_, visit) => run.phases[run.phase[start(visit)]].name;
  const amount = (title, unit, show, at) => numbers(title, (_, visit) => at(end(visit)), show, unit);
  const crossing = (step) => run.readAt(step, "crossing") + run.writtenAt(step, "crossing");
  const own = { whole: () => [], gradients: gradientColumns, online: statisticColumns }[run.rows];
  return [
    numbers("visit", (_, visit) => visit + 1, grouped),
    ...(run.phases.length > 1 ? [{ title: "kernel", of: kernel, show: String }] : []),
    numbers("query tile", (_, visit) => tile(run.query[start(visit)])),
    numbers("key tile", (_, visit) => tile(run.key[start(visit)])),
    ...own(run, start),
    amount("read from L2", "bytes", traffic, (step) => run.readAt(step)),
    amount("written to L2", "bytes", traffic, (step) => run.writtenAt(step)),
    amount("of both across HBM, modelled", "bytes", traffic, crossing),
    amount("modelled time", "s", duration, (step) => run.timeAt(step)),
  ];
}

/** m, l and alpha of the middle sampled row of the visit's query tile, after the visit. */
function statisticColumns(run, start) {
  const row = (model, visit) => model.rowOf(run.query[start(visit)], 0.5);
  const after = (model, visit) => {
    const j = run.key[start(visit)]; // none where parts are merged
    return j === NONE ? { m: NaN, l: NaN, alpha: NaN } : model.after(row(model, visit), j);
  };
  return [
    numbers("row", (model, visit) => model.rows[row(model, visit)]),
    numbers("m", (model, visit) => after(model, visit).m, decimal),
    numbers("l", (model, visit) => after(model, visit).l, sum),
    numbers("α", (model, visit) => after(model, visit).alpha, factor),
  ];
}

/** The sums of P and dS in the visited tile, of the middle sampled row of its query tile. */
function gradientColumns(run, start) {
  const row = (model, visit) => model.rowOf(run.query[start(visit)], 0.5);
  const sums = (model, visit) => {
    const j = run.key[start(visit)];
    return j === NONE ? { weight: NaN, gradient: NaN } : model.rowInTile(row(model, visit), j);
  };
  const share = (x) => (Number.isNaN(x) ? "–" : percent(x));
  return [
    numbers("row", (model, visit) => model.rows[row(model, visit)]),
    numbers("P", (model, visit) => sums(model, visit).weight, share),
    numbers(
      "dS",
      (model, visit) => sums(model, visit).gradient,
      (x) => decimal(x, 3),
    ),
  ];
}

/** All visits with their numbers as they are, not as they are shown. */
export function visitsCsv({ model, run }) {
  const columns = visitColumns(run),
    head = columns.map(({ title, unit }) => (unit ? `${title} (${unit})` : title)),
    number = (x) => (Number.isNaN(x) ? "" : x);
  const visits = Array.from({ length: run.visits }, (_, n) => columns.map(({ of }) => number(of(model, n))));
  return csvFile([head, ...visits]);
}
