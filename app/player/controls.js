// The player's own buttons and keys, its help and the table of its steps: everything that is not the picture.

const SPEEDS = [0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const speedName = (speed) => ({ 0.125: "⅛", 0.25: "¼", 0.5: "½" }[speed] || speed) + "×";
const TABLE_ROWS = 16;

const KEYS = [
  ["Space", "play or pause (Enter too)"],
  ["← →", "one step back or forward"],
  ["Shift ← →", "one tile back or forward"],
  ["Home End", "to the start, to the end"],
  ["↑ ↓", "another row (Shift: another query tile)"],
  ["+ −", "faster, slower"],
  ["r", "race of the three algorithms"],
  ["l", "loop"],
  ["t", "the steps as a table"],
  ["c", "copy a link to this moment"],
  ["f", "full screen"],
  ["?", "this help"],
  ["Esc", "close, leave full screen; follow the tile at work again"],
];
const GUIDE = [
  ["tile", "one block of S = Q Kᵀ: a query tile meets a key tile"],
  ["framed", "the tile at work now"],
  ["mauve", "done; the stronger, the more softmax mass of its rows lies in it"],
  ["hatched", "hidden by the mask: whole tiles are skipped, halves are masked"],
  ["O", "pale while it gathers, full when written for good; in FlashAttention-1 every part is one rewrite"],
  ["counted", "bytes that the schedule's steps ask of HBM for one head, of which the L2 cache serves a part: see Traffic; 1 MB = 10⁶ bytes"],
  ["on chip", "what one block of threads keeps on its SM, modelled; 1 KB = 1,024 bytes"],
  ["pale bars", "the whole run; the other algorithms stand at the same share of their own modelled time"],
  ["1×", "one tile a second; in the race, the slowest takes 24 s"],
];

const BACKWARD_GUIDE = [
  ...GUIDE.slice(0, 2),
  ["mauve", "done: pale by kernel 2, full by kernel 3; the stronger, the more softmax mass of its rows lies in it"],
  GUIDE[3],
  ["striped", "a gradient, in the colour of its tensor: pale while it gathers, full when written"],
  ["δ", "one number a row, rowsum(dO ∘ O)"],
  ["counted", "bytes that the schedule's steps ask of HBM for one head, of which the L2 cache serves a part; 1 MB = 10⁶ bytes; K, V, dK and dV of kernel 2 once for all heads that share them"],
  GUIDE[6],
  ["closed form", "what the formulas of the papers give for other ways through the same pass"],
  ["1×", "one tile a second"],
];

class Controls extends Transport {
  constructor(root, player) {
    super(root, player);
    [this.ticks, this.speed, this.steps] = [".ticks", "select", ".steps"].map((selector) => root.querySelector(selector));
    Object.assign(this.actions, {
      loop: () => player.setLoop(!player.loop), race: () => player.setRace(!player.race), link: () => this.copyLink(),
      table: () => this.showTable(this.steps.classList.contains("behind")),
      earlier: () => this.turnPage(-1), later: () => this.turnPage(1),
    });
    this.speed.append(...SPEEDS.map((speed) => new Option(speedName(speed), speed)));
    this.slider.addEventListener("input", () => player.seek(Number(this.slider.value)));
    this.speed.addEventListener("change", () => player.setSpeed(Number(this.speed.value)));
    this.canvas.addEventListener("pointerdown", (event) => player.chooseAt(event.offsetX, event.offsetY));
  }

  keyActions(far) {
    const { player, actions } = this;
    return {
      ...super.keyActions(far), r: actions.race, l: actions.loop, t: actions.table, c: actions.link, Escape: () => this.escape(),
      ArrowUp: () => player.moveRow(-1, far), ArrowDown: () => player.moveRow(1, far),
    };
  }

  escape() {
    if (!this.help.hidden) this.showHelp(false);
    else if (!this.steps.classList.contains("behind")) this.showTable(false);
    else if (inFullScreen()) document.exitFullscreen();
    else this.player.follow();
  }

  /** What the reader can do and read with this model: a race needs others, a backward pass has gradients. */
  suit(model, races) {
    this.root.querySelector('[data-do="race"]').hidden = !races;
    const keys = races ? KEYS : KEYS.filter(([key]) => key !== "r");
    this.help.innerHTML = helpPage(keys, model.algorithm === "backward" ? BACKWARD_GUIDE : GUIDE);
  }

  async copyLink() {
    const label = this.root.querySelector('[data-do="link"] span'), url = this.player.link();
    let copied = true;
    try {
      await navigator.clipboard.writeText(url);
    } catch {
      copied = copyBySelection(url, this.root);
    }
    label.textContent = copied ? "copied" : "see URL";
    if (!copied) history.replaceState(history.state, "", url);
    clearTimeout(this.linkTimer);
    this.linkTimer = setTimeout(() => (label.textContent = "link"), 1600);
  }

  /** All for a moment; only what differs is touched. */
  show(next) {
    const { shown } = this, { position, last, race, loop, speed } = next;
    if (shown.last !== last) this.slider.max = last;
    if (shown.position !== position || shown.last !== last) this.scrub(position, last);
    if (shown.speed !== speed) this.speed.value = speed;
    if (shown.race !== race) this.press("race", race);
    if (shown.loop !== loop) this.press("loop", loop);
    super.show(next);
  }

  /** Ticks above the scrubber: `parts` are positions from 0 to 1, the taller ones begin a kernel. */
  paintTicks(parts, color) {
    const canvas = this.ticks, dpr = window.devicePixelRatio || 1;
    const w = canvas.clientWidth, h = canvas.clientHeight;
    canvas.width = Math.round(w * dpr);
    canvas.height = Math.round(h * dpr);
    const ctx = canvas.getContext("2d");
    ctx.scale(dpr, dpr);
    ctx.fillStyle = color;
    const inset = h; // half of the thumb
    for (const { part, tall } of parts) ctx.fillRect(inset + part * (w - 2 * inset), tall ? 0 : h / 2, 1, tall ? h : h / 2);
  }

  showTable(on) {
    this.steps.classList.toggle("behind", !on);
    this.press("table", on);
    this.page = null;
    this.fillTable();
  }

  turnPage(by) {
    const pages = Math.ceil(this.player.model.run.visits / TABLE_ROWS);
    this.page = clamp((this.page ?? this.currentPage()) + by, 0, pages - 1);
    this.fillTable();
  }

  currentPage() {
    return Math.floor(this.currentVisit() / TABLE_ROWS);
  }

  currentVisit() {
    const { run, stepNow } = this.player;
    return Math.max(0, run.visitsSoFar[clamp(stepNow, 0, run.steps - 1)] - 1);
  }

  /** A page of tile visits as text, around the current one unless the reader has turned to another. */
  fillTable() {
    const { model, run } = this.player;
    const page = this.page ?? this.currentPage(), current = this.currentVisit();
    const from = page * TABLE_ROWS, to = Math.min(run.visits, from + TABLE_ROWS);
    const columns = visitColumns(run);
    this.steps.querySelector("caption").textContent =
      `${TITLES[run.name]}, visits ${grouped(from + 1)} to ${grouped(to)} of ${grouped(run.visits)}` +
      (model.scaled ? ` (${drawnNote(model)})` : "");
    const cell = (tag, words, number) => `<${tag}${number ? ' class="number"' : ""}>${words}</${tag}>`;
    this.steps.querySelector("thead tr").innerHTML = columns.map(({ title, number }) => cell("th", title, number)).join("");
    const rows = [];
    for (let visit = from; visit < to; visit++) {
      const cells = columns.map(({ of, show, number }) => cell("td", show(of(model, visit)), number)).join("");
      rows.push(`<tr${visit === current ? ' class="current" aria-current="step"' : ""}>${cells}</tr>`);
    }
    this.steps.querySelector("tbody").innerHTML = rows.join("");
  }
}

function copyBySelection(text, root) {
  const area = document.createElement("textarea");
  area.value = text;
  root.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
