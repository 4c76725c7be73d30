// The player's own buttons and keys, and how its picture is read.

import { counted } from "../canvas/format.js";

// how the picture is read
const GUIDE = {
  mauve: "done; the stronger, the more softmax mass of its rows lies in it",
  hatched: "hidden by the mask: whole tiles are skipped, halves are masked",
  O: "pale while it accumulates, full when written for good; where it comes and goes, every part is one rewrite",
  "crosses HBM":
    "what of the bytes requested L2 cannot answer, modelled: a tile that a kernel touches for the first time, one that L2 has lost since, and what is written",
  striped:
    "of a bar what is written, the rest is read; of a backward pass gradients, in their tensors' colours",
  pipes:
    "as thick as they are fast, by the sidebar's figures of the GPU; the inner part is what kernels reach, fitted on an H200. A tile from HBM is one that crosses, one from L2 was answered there",
  "pale bars":
    "the whole run; another algorithm's stands at the same share of its own modelled time, and what a backward pass stands beside does not move",
};

export const BAR = {
  label: "Player: attention, tile by tile",
  state: { race: false, flaw: "", speeds: { single: 0, race: 1 }, pinned: null },
  speeds: [0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
  named: (speed) => (({ 0.125: "⅛", 0.25: "¼", 0.5: "½" })[speed] || speed) + "×",
  far: "one tile back or forward",
  options: [
    {
      ...{ name: "race", key: "r", words: "Race", pressed: true },
      told: ({ algorithms: { length } }) => `race of the ${counted(length)} algorithms`,
      act: (player) => player.setRace(!player.race),
    },
    {
      ...{ name: "flaw", key: "b", label: "Break it: leave a line out", choices: [] },
      told: "leave a line of the kernel out: O turns red where it goes wrong",
    },
  ],
  guide: GUIDE,
};
