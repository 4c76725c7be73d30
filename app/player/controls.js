// The player's own buttons and keys, its help and the table of its steps: what is neither picture nor table.

import { capital, counted } from "../canvas/format.js";
import { TimedControls } from "../canvas/timed_player.js";
import { inFullScreen } from "../canvas/transport.js";
import { helpOf } from "./guide.js";
import { StepsTable } from "./steps_table.js";

export const SPEEDS = [0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const speedName = (speed) => (({ 0.125: "⅛", 0.25: "¼", 0.5: "½" })[speed] || speed) + "×";

export class Controls extends TimedControls {
  constructor(root, player) {
    super(root, player, { speeds: SPEEDS, named: speedName });
    this.ticks = root.querySelector(".ticks");
    this.table = new StepsTable(root.querySelector(".steps"), player);
    Object.assign(this.actions, {
      loop: () => player.setLoop(!player.loop),
      race: () => player.setRace(!player.race),
      link: () => this.copyLink(),
      table: () => this.showTable(!this.table.open),
      earlier: () => this.table.turn(-1),
      later: () => this.table.turn(1),
    });
  }

  keyActions(far) {
    const { player, actions } = this;
    return {
      ...super.keyActions(far),
      r: actions.race,
      l: actions.loop,
      t: actions.table,
      c: actions.link,
      Escape: () => this.escape(),
      ArrowUp: () => player.moveRow(-1, far),
      ArrowDown: () => player.moveRow(1, far),
    };
  }

  escape() {
    if (!this.help.hidden) this.showHelp(false);
    else if (this.table.open) this.showTable(false);
    else if (inFullScreen()) document.exitFullscreen();
    else this.player.follow();
  }

  /** What the reader can do and read with this model. */
  suit(model, races) {
    const race = this.root.querySelector('[data-do="race"]');
    race.hidden = !races;
    race.title = `${capital(counted(model.algorithms.length))} algorithms on one clock (r)`;
    this.help.innerHTML = helpOf(model, races);
  }

  async copyLink() {
    const label = this.root.querySelector('[data-do="link"] span'),
      url = this.player.link();
    let copied = true;
    try {
      await navigator.clipboard.writeText(url);
    } catch {
      copied = copyBySelection(url, this.root);
    }
    label.textContent = copied ? "Copied" : "See URL";
    if (!copied) history.replaceState(history.state, "", url);
    clearTimeout(this.linkTimer);
    this.linkTimer = setTimeout(() => (label.textContent = "Link"), 1600);
  }

  show(next) {
    const { shown } = this,
      { last, race, loop } = next;
    if (shown.last !== last) {
      this.slider.max = last;
      shown.part = null; // the scrubber stands elsewhere
    }
    if (shown.race !== race) this.press("race", race);
    if (shown.loop !== loop) this.press("loop", loop);
    super.show(next);
  }

  /** Ticks above the scrubber: `parts` are positions from 0 to 1, the taller ones begin a kernel. */
  paintTicks(parts, color) {
    const canvas = this.ticks,
      dpr = window.devicePixelRatio || 1;
    const w = canvas.clientWidth,
      h = canvas.clientHeight;
    canvas.width = Math.round(w * dpr);
    canvas.height = Math.round(h * dpr);
    const ctx = canvas.getContext("2d");
    ctx.scale(dpr, dpr);
    ctx.fillStyle = color;
    const inset = h; // half of the thumb
    for (const { part, tall } of parts)
      ctx.fillRect(inset + part * (w - 2 * inset), tall ? 0 : h / 2, 1, tall ? h : h / 2);
  }

  showTable(on) {
    this.table.show(on);
    this.press("table", on);
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
