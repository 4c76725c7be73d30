// The playhead over the picture: where it stands, what happens there in words, and its walk while it plays.

const WALK_SECONDS = 24; // from the first mark to the last
const STILL = matchMedia("(prefers-reduced-motion: reduce)"), STILL_PAUSE = 400; // ms between a calm playhead's moves
const FIRST_LOOK = 2; // the first group's softmax, counted from 0, in whose middle the playhead stands at first
const STEPS = 1000;
const USUAL_TYPE = 14; // px, of the page; a presenter's is larger
const LEAST = 0.75; // of that type's size: what is smaller is not read from the back of a hall
const BELOW = 64; // px, of the buttons below the picture
const views = new WeakMap(); // shadow root to view: the component's function runs again whenever its data change

const DOING = { "Q Kᵀ": "multiplies", "P V": "multiplies", softmax: "takes the", "store O": "stores" };

/** What one lane does at a moment, in words; empty where it waits. */
function doingNow(lane, index, seconds) {
  const now = lane.marks.filter(([, , start, end]) => seconds >= start && seconds < end);
  if (index === 0) {
    const names = now.map(([operation, key]) => markName(operation, key));
    return names.length ? `${names.join(", ")} ${names.length > 1 ? "are" : "is"} on the way` : "nothing is being copied";
  }
  if (!now.length) return `${lane.name.replace("warp ", "")} waits`;
  const words = now.map(([operation, key]) => `${DOING[operation]} ${markName(operation, key).replace("softmax ", "softmax of ")}`);
  return `${lane.name.replace("warp ", "")} ${[...new Set(words)].join(" and ")}`;
}

class InsideView {
  constructor(parent) {
    this.root = parent.querySelector(".inside");
    const find = (selector) => this.root.querySelector(selector);
    Object.assign(this, { picture: find(".picture"), now: find(".now"), play: find(".play"), slider: find("input"), when: find(".when") });
    Object.assign(this, { share: null, playing: false });
    this.play.addEventListener("click", () => this.toggle());
    this.slider.addEventListener("input", () => this.move(this.slider.value / STEPS));
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.picture);
    this.onResize = () => this.draw();
    window.addEventListener("resize", this.onResize);
  }

  release() {
    this.playing = false;
    this.observer.disconnect();
    window.removeEventListener("resize", this.onResize);
  }

  update(data) {
    const theme = readTheme(this.root), told = JSON.stringify([data, theme]);
    if (told === this.told) return;
    Object.assign(this, { data, theme, told });
    wear(this.root, theme);
    this.width = 0;
    this.share ??= this.telling();
    this.draw();
  }

  /** The share of the way at which softmax and products are under way at once. */
  telling() {
    const softmax = this.data.lanes[1].marks.filter(([operation]) => operation === "softmax");
    const [, , start, end] = softmax[Math.min(FIRST_LOOK, softmax.length - 1)];
    return (start + end) / 2 / this.data.seconds;
  }

  draw() {
    const { clientWidth } = this.picture;
    if (!this.data || !clientWidth) return;
    const u = this.unit();
    if (clientWidth === this.width && u === this.u) return;
    Object.assign(this, { u, width: clientWidth, across: clientWidth / u });
    this.picture.innerHTML = pictureOf(this.data, this.across, this.theme, u);
    this.head = this.picture.querySelector(".head");
    this.left = leftOf(this.across);
    this.move(this.share);
  }

  /** How large the picture is: it grows with the page's type, while picture and buttons fit the window. */
  unit() {
    const type = parseFloat(getComputedStyle(document.documentElement).fontSize) / USUAL_TYPE;
    const room = window.innerHeight - aboveOf(this.picture) - BELOW;
    return clamp(room / placedRows(this.data).height, Math.max(1, LEAST * type), Math.max(1, type));
  }

  move(share) {
    this.share = clamp(share, 0, 1);
    const seconds = this.share * this.data.seconds, x = this.left + this.share * (this.across - this.left - 8);
    this.head.setAttribute("x1", x);
    this.head.setAttribute("x2", x);
    for (const mark of this.picture.querySelectorAll("g[data-start]")) {
      const lit = seconds >= mark.dataset.start && seconds < mark.dataset.end;
      mark.querySelector("rect").style.stroke = lit ? this.theme.edge : "";
    }
    this.slider.value = Math.round(this.share * STEPS);
    this.when.textContent = `${duration(seconds)} of ${duration(this.data.seconds)}`;
    this.slider.setAttribute("aria-valuetext", this.when.textContent);
    const words = this.data.lanes.map((lane, index) => doingNow(lane, index, seconds)).join("; ");
    if (!this.playing || performance.now() - (this.spoke || 0) > 700) {
      this.spoke = performance.now();
      this.now.textContent = `${capitalised(words)}.`;
    }
  }

  toggle() {
    this.playing = !this.playing;
    if (this.playing && this.share >= 1) this.move(0);
    this.now.setAttribute("aria-live", this.playing ? "off" : "polite");
    this.root.classList.toggle("playing", this.playing);
    this.play.setAttribute("aria-label", this.playing ? "Pause" : "Play");
    this.before = performance.now();
    if (this.playing) requestAnimationFrame((now) => this.frame(now));
    else this.move(this.share);
  }

  frame(now) {
    if (!this.playing || !this.root.isConnected) return;
    if (!STILL.matches || now - this.before >= STILL_PAUSE) {
      this.move(this.share + Math.max(0, now - this.before) / 1000 / WALK_SECONDS);
      this.before = now;
    }
    if (this.share >= 1) this.toggle();
    else requestAnimationFrame((next) => this.frame(next));
  }

  key(event) {
    const by = { ArrowRight: 0.01, ArrowLeft: -0.01 }[event.key];
    if (event.key === " " && event.target !== this.play) this.toggle();
    else if (by && event.target !== this.slider) this.move(this.share + by);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

const capitalised = (words) => words[0].toUpperCase() + words.slice(1);

/** Streamlit calls this whenever the data or the theme change; the view of a shadow root is made once. */
export default function show({ data, parentElement }) {
  if (!data) return undefined;
  let view = views.get(parentElement);
  if (!view) views.set(parentElement, (view = new InsideView(parentElement)));
  view.update(data);
  return () => view.release();
}
