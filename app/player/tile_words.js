// What a tile is, in the lines of a tip.

import { percent, plural, traffic } from "../canvas/format.js";

/** The lines of the tip: where the tile lies, what the mask does to it, its share and its bytes. */
export function tileWords(model, run, i, j) {
  const wasted = run.visitsHidden && !model.seen(i, j),
    kind = !model.seen(i, j) ? "skipped" : model.partial(i, j) ? "partial" : "full";
  const rows = model.rowStart[i + 1] - model.rowStart[i];
  const { read, written } = run.bytesOfTile(i, j);
  return [
    `Tile (${i}, ${j})`,
    wasted ? "wasted: the mask hides it, but it is computed" : `${kind}: ${model.maskWords(i, j)}`,
    ...model.rangeWords(i, j),
    `softmax share ${percent(model.share(i, j))}, mean of ${plural(rows, "row")}`,
    read + written ? `requests ${traffic(read + written)} from L2, counted` : "requests nothing",
    ...(written ? [`${traffic(written)} of that written`] : []),
  ];
}
