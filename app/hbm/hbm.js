// Bytes across HBM in slow motion: the same work by several algorithms, which set out together.

import { duration, percent, times, traffic } from "../canvas/format.js";
import { TimedPlayer } from "../canvas/timed_player.js";
import { showing } from "../canvas/view.js";
import { Sampled } from "./flow.js";
import { aboveOf, FlowPanel, FOOT } from "./lane.js";

const FIRST_LOOK = 0.6; // of the run: where the fast ones are done
const BAR = {
  label: "What crosses HBM, while it happens",
  state: { speed: 1, open: false, outline: false },
  walk: () => 9,
  options: [
    {
      ...{ name: "open", key: "o", words: "On the chip", pressed: true },
      act: (player) => Object.assign(player, { open: !player.open }).fit(true),
      told: "SMs, tensor cores and exponentials below the bytes",
    },
    {
      ...{ name: "outline", key: "m", words: "Model", pressed: true },
      act: (player) => player.choose("outline", !player.outline),
      told: "what the model has cross, as an outline",
    },
  ],
  guide: {
    line: "bytes read from HBM above it, written below it; paler after the end: what still lay in L2",
    "dashed lines": "all that the memory delivers, by its data sheet",
    SMs: "how many have work; where blocks were noted too, in a run of their own, each block on its SM",
  },
};

/** What happens now, in a sentence or two, of the first calls that have one origin. */
export function sentence({ lanes }, time) {
  const other = lanes.findIndex(({ origin }, n) => n && origin),
    same = other < 0 ? lanes : lanes.slice(0, other),
    running = same.find(({ end }) => time < end);
  if (running) {
    const [, , words] = running.kernels.find(([start, end]) => time >= start && time < end) ?? [],
      told = [running.name, words].filter(Boolean).join(", "),
      done = same.filter(({ end }) => time >= end),
      ended = done.map(({ name, seconds }) => `${name} was done after ${duration(seconds)}`).join(" and ");
    return `${told}: ${percent(running.busy(time))} of what HBM can deliver.${ended && ` ${ended}.`}`;
  }
  const [first, last] = [same[0], same.at(-1)],
    moved = (lane) => traffic(Math.round(lane.moved(Infinity))),
    whole = `${first.name} moved ${moved(first)} through HBM in ${duration(first.seconds)}`;
  if (first === last) return `${whole}.`;
  const [less, faster] = [first.moved(Infinity) / last.moved(Infinity), first.seconds / last.seconds];
  return `${whole}, ${last.name} ${moved(last)} in ${duration(last.seconds)}: ${times(less)} times fewer bytes, ${times(faster)} times less time.`;
}

class HbmPlayer extends TimedPlayer {
  static bar = BAR;
  static Model = Sampled;

  load(part) {
    const alone = part === null && this.model.plays && !this.clock.calm.matches;
    this.fraction = part ?? (alone ? 0 : FIRST_LOOK);
    if (alone) this.clock.start();
    this.controls.optionOf("outline").hidden = !this.model.lanes.some(({ modelled }) => modelled.length);
  }

  /** As many pixels for each lane's bytes as for the others', so that areas compare. */
  layout() {
    const { lanes } = this.model,
      { width: w, height: h, u } = this.stage,
      gap = 12 * u,
      above = lanes.map((lane) => aboveOf(lane, w / u) * u),
      each = (h - FOOT * u - above.reduce((sum, one) => sum + one) - (lanes.length - 1) * gap) / lanes.length;
    let y = 0;
    return lanes.map((lane, n) => {
      const lowest = n === lanes.length - 1,
        box = { x: 0, y, w, h: above[n] + each + (lowest ? FOOT : 4) * u };
      y += above[n] + each + gap;
      return [FlowPanel, box, { lane, lowest, open: this.open }];
    });
  }

  moment() {
    const { at: time, model, open, outline } = this;
    return {
      view: { time, outline },
      sentence: this.standing(() => sentence(model, time)),
      where: this.microsecondsWords,
      length: duration(model.longest / 1e6),
      ...{ open, outline },
    };
  }
}

export default showing(HbmPlayer);
