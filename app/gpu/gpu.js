// One canvas, one clock: a GPU's execution in slow motion.

const WHOLE_RUN = 20; // seconds that the first pace takes for the run, about
const players = new WeakMap(); // shadow root to player: the component's function runs again whenever its data change

class GpuPlayer {
  constructor(parent) {
    this.root = parent.querySelector(".player");
    this.stage = new Stage(this.root);
    Object.assign(this, { time: 0, playing: false, head: 0, colouring: "query", pace: 10, window: [0, 1] });
    [this.aim, this.tip] = [".aim", ".tip"].map((selector) => this.root.querySelector(selector));
    this.controls = new GpuControls(this.root, this);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.stage.canvas);
    this.onResize = () => this.fit();
    window.addEventListener("resize", this.onResize);
  }

  release() {
    this.playing = false;
    this.controls.release();
    this.observer.disconnect();
    window.removeEventListener("resize", this.onResize);
  }

  /** New data or a new theme: the picture changes within this task, the share of the run stays. */
  update(bytes) {
    const theme = readTheme(this.root), recolored = JSON.stringify(theme) !== JSON.stringify(this.theme);
    const renewed = !this.bytes || !equalBytes(bytes, this.bytes);
    if (!recolored && !renewed) return;
    this.theme = theme;
    if (recolored) wear(this.root, theme);
    if (renewed) this.load(bytes);
    this.fit(true);
  }

  load(bytes) {
    const part = this.model ? this.time / this.model.longest : 0.45;
    this.bytes = bytes.slice();
    this.model = new Recorded(this.bytes);
    this.time = part * this.model.longest;
    this.head = Math.min(this.head, this.model.heads - 1);
    this.window = [0, this.model.longest];
    this.pace = PACES.reduce((best, pace) =>
      Math.abs(Math.log((pace * WHOLE_RUN) / this.model.longest)) < Math.abs(Math.log((best * WHOLE_RUN) / this.model.longest)) ? pace : best);
  }

  // moving in time

  seek(time) {
    this.time = clamp(time, 0, this.model.longest);
    this.draw();
  }

  step(by, far = false) {
    this.playing = false;
    if (far) return this.seek(this.time + (by * this.model.longest) / 20);
    const events = this.model.lanes.map(({ events }) => {
      const at = countUpTo(events, this.time);
      return by > 0 ? events[at] ?? Infinity : events[at - 1 - (events[at - 1] === Math.fround(this.time) ? 1 : 0)] ?? 0;
    });
    this.seek(by > 0 ? Math.min(...events) : Math.max(...events));
  }

  toggle() {
    if (!this.playing && this.time >= this.model.longest) this.time = 0;
    this.playing = !this.playing;
    this.before = null;
    this.draw();
  }

  setPace(pace) {
    this.pace = pace;
    this.draw();
  }

  faster(by) {
    this.setPace(PACES[clamp(PACES.indexOf(this.pace) + by, 0, PACES.length - 1)]);
  }

  // what is shown

  setColouring(colouring) {
    this.colouring = colouring;
    this.draw();
  }

  nextColouring() {
    const names = Object.keys(COLOURINGS);
    this.setColouring(names[(names.indexOf(this.colouring) + 1) % names.length]);
  }

  moveHead(by) {
    this.head = clamp(this.head + by, 0, this.model.heads - 1);
    this.draw();
  }

  get charts() {
    return this.stage.panels.filter((panel) => panel instanceof ChartPanel);
  }

  zoom(event) {
    const chart = this.charts.find(({ plot }) => event.offsetX >= plot.x && event.offsetX < plot.x + plot.w);
    if (!chart || event.deltaY === 0 || !(event.ctrlKey || this.zoomed || event.deltaY < 0)) return;
    event.preventDefault();
    const [from, to] = this.window, about = chart.timeAt(event.offsetX, this.window), factor = event.deltaY > 0 ? 1.25 : 0.8;
    const span = clamp((to - from) * factor, this.model.longest / 2000, this.model.longest);
    this.show(about - ((about - from) / (to - from)) * span, span);
  }

  get zoomed() {
    return this.window[1] - this.window[0] < this.model.longest;
  }

  /** Show a span of time, kept within the run. */
  show(from, span) {
    const start = clamp(from, 0, this.model.longest - span);
    this.window = [start, start + span];
    this.draw();
  }

  zoomOut() {
    this.show(0, this.model.longest);
  }

  press(event) {
    this.root.focus({ preventScroll: true });
    const heads = this.stage.panels.find((panel) => panel instanceof HeadsPanel), head = heads?.headAt(event.offsetX, event.offsetY) ?? NOWHERE;
    if (head !== NOWHERE) {
      this.head = head;
      return this.draw();
    }
    const chart = this.charts.find(({ plot, strip }) => event.offsetX >= plot.x && event.offsetX < plot.x + plot.w
      && event.offsetY >= plot.y && event.offsetY < strip.y + strip.h);
    if (!chart) return;
    this.held = { chart, x: event.offsetX, window: this.window, moved: false };
    this.stage.canvas.setPointerCapture(event.pointerId);
  }

  point(event) {
    if (!this.held) return this.hover(event.offsetX, event.offsetY);
    const { chart, x, window: [from, to] } = this.held;
    if (Math.abs(event.offsetX - x) > 3) this.held.moved = true;
    if (this.held.moved && this.zoomed) this.show(from - ((event.offsetX - x) / chart.plot.w) * (to - from), to - from);
  }

  /** A press that did not drag goes to that moment. */
  lift(event) {
    const held = this.held;
    this.held = null;
    if (held && !held.moved) this.seek(held.chart.timeAt(event.offsetX, this.window));
  }

  leave() {
    this.aim.hidden = this.tip.hidden = true;
  }

  /** What the block under the pointer is; the tip stands beside the block, not at the pointer. */
  hover(x, y) {
    for (const chart of this.charts) {
      const n = chart.blockAt(x, y, this.window);
      if (n === NOWHERE) continue;
      const { lane, plot } = chart, [top, thick] = chart.line(n);
      const left = Math.max(plot.x, chart.x(lane.start[n], this.window)), right = Math.min(plot.x + plot.w, chart.x(lane.end[n], this.window));
      const [title, ...lines] = this.words(lane, n);
      this.tip.innerHTML = `<b>${title}</b>${lines.join("<br>")}`;
      this.aim.hidden = this.tip.hidden = false;
      Object.assign(this.aim.style, { left: `${left - 2}px`, top: `${top - 2}px`, width: `${right - left + 4}px`, height: `${thick + 4}px` });
      const { offsetWidth, offsetHeight } = this.tip;
      const beside = right + 10 + offsetWidth <= this.stage.width ? right + 10 : Math.max(0, left - 10 - offsetWidth);
      Object.assign(this.tip.style, { left: `${beside}px`, top: `${clamp(top - 10, 0, Math.max(0, this.stage.height - offsetHeight))}px` });
      return;
    }
    this.leave();
  }

  words(lane, n) {
    const { model } = this, query = lane.query[n], key = lane.key[n];
    const where = [`head ${lane.head[n]}`, query === NOWHERE ? "all query blocks" : `query block ${query}`];
    if (key !== NOWHERE) where.push(`key block ${key}`);
    const visits = query !== NOWHERE && key === NOWHERE && !model.whole ? [`visits ${plural(model.stop[query] - model.first[query], "tile")}`] : [];
    return [
      `SM ${lane.sm[n]}${lane.kernels.length > 1 ? `, ${lane.kernels[lane.kernel[n]]}` : ""}`,
      where.join(", "),
      ...visits,
      `${microseconds(lane.start[n])} to ${microseconds(lane.end[n])} µs`,
      `took ${duration((lane.end[n] - lane.start[n]) / 1e6)}, wave ${lane.wave[n] + 1} of ${lane.waves}`,
    ];
  }

  // drawing

  /** Lays out and draws everything anew where the room has changed, or anyway. */
  fit(anyway = false) {
    if (!this.model || !(this.stage.measure() || (anyway && this.stage.u))) return;
    this.stage.place(gpuLayout(this.model, this.stage), this.model, this.theme);
    this.leave();
    this.draw();
  }

  draw() {
    if (!this.stage.pen) return;
    const { time, head, colouring, model, playing, pace } = this, span = this.window;
    this.stage.paint({ time, head, colouring, window: span });
    const where = `${microseconds(time, model.longest < 1000 ? 0.1 : 1)} µs, ${grouped(1e6 / pace)} times slowed down`;
    this.controls.show({ sentence: this.sentence(), where, length: duration(model.longest / 1e6), part: time / model.longest, playing, pace, colouring });
    this.stage.canvas.setAttribute("aria-label", `${plural(model.sms, "SM")} over time. ${this.controls.shown.sentence}`);
    if (playing && !this.pending) this.pending = requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.pending = 0;
    if (!this.playing || !this.root.isConnected) return;
    const elapsed = this.before === null ? 0 : Math.min(0.25, (now - this.before) / 1000);
    this.before = now;
    this.time += elapsed * this.pace;
    if (this.time >= this.model.longest) [this.time, this.playing] = [this.model.longest, false];
    this.draw();
  }

  /** What happens now, in one sentence, of the first lane. */
  sentence() {
    const { model, time } = this, lane = model.lanes[0], { done, running, busy } = lane.at(time);
    const apart = model.lanes.some(({ origin }) => origin !== lane.origin) ? lane.origin.split(" ")[0] : lane.name;
    const name = model.lanes.length > 1 ? `${apart[0].toUpperCase()}${apart.slice(1)}: ` : "";
    if (time >= lane.microseconds) {
      return `${name}${plural(lane.count, "block")} in ${duration(lane.microseconds / 1e6)}. SMs were busy ${percent(lane.busy)} of the time; ` +
        `in the last ${duration(lane.tail / 1e6)}, the tail, some had nothing left to do; the busiest worked ${percent(lane.imbalance)} longer than the average.`;
    }
    const idle = lane.used - busy, never = lane.sms - lane.used, tail = time >= lane.microseconds - lane.tail;
    const state = `${name}${plural(running, "block")} on ${busy} of ${lane.sms} SMs, ${grouped(done)} of ${grouped(lane.count)} done.`;
    if (never) return `${state} ${plural(never, "SM")} never ${never === 1 ? "gets" : "get"} a block.`;
    if (tail && idle) return `${state} This is the tail: ${plural(idle, "SM")} with nothing left to do.`;
    return idle ? `${state} ${plural(idle, "SM")} ${idle === 1 ? "waits" : "wait"}.` : `${state} No SM stands idle.`;
  }
}

/** Charts of all timelines at the left, what they compute at the right; on a phone below them, side by side. */
function gpuLayout(model, { width: w, height: h, u }) {
  const narrow = w < NARROW, gap = (narrow ? 20 : 30) * u, side = narrow ? (w - gap) / 2 : clamp(0.27 * w, 230 * u, 420 * u);
  const low = narrow ? 220 * u : 0, wide = narrow ? w : w - side - gap, between = 12 * u;
  const each = (h - low - (model.lanes.length - 1) * between) / model.lanes.length, upper = 0.4 * h, right = w - side;
  const [written, tiles] = narrow
    ? [{ x: 0, y: h - low + between, w: side, h: low - between }, { x: right, y: h - low + between, w: side, h: low - between }]
    : [{ x: right, y: 0, w: side, h: upper }, { x: right, y: upper + 22 * u, w: side, h: h - upper - 22 * u }];
  return [
    ...model.lanes.map((_, n) => ({ panel: new ChartPanel(n), box: { x: 0, y: n * (each + between), w: wide, h: each } })),
    { panel: new HeadsPanel(0), box: written },
    { panel: new TilesPanel(0), box: tiles },
  ];
}

/** Streamlit calls this whenever the data or the theme change; for tests `window.__gpu` tells and moves the moment. */
export default function show({ data, parentElement }) {
  if (!data) return undefined;
  let player = players.get(parentElement);
  if (!player) players.set(parentElement, (player = new GpuPlayer(parentElement)));
  player.update(data);
  window.__gpu = {
    seek: (time) => player.seek(time),
    state: () => ({ time: player.time, head: player.head, window: player.window, longest: player.model.longest, ...player.controls.shown }),
  };
  return () => player.release();
}
