// What a tile is, in the lines of a tip.

import { percent, plural, traffic } from "../canvas/format.js";

/** The lines of the tip: where the tile lies, what the mask does to it, its share and its bytes. */
export function tileWords(model, run, i, j) {
  const seen = model.seen(i, j);
  const hidden = run.visitsHidden
    ? "wasted: the mask hides it, but it is computed"
    : "skipped: the mask hides all of it";
  const rows = model.rowStart[i + 1] - model.rowStart[i];
  const { read, written } = run.bytesOfTile(i, j);
  return [
    `Tile (${i}, ${j})`,
    !seen
      ? hidden
      : model.partial(i, j)
        ? "partial: the mask hides some of it"
        : "full: the mask hides nothing of it",
    ...model.rangeWords(i, j),
    `softmax share ${percent(model.share(i, j))}, mean of ${plural(rows, "row")}`,
    read + written ? `requests ${traffic(read + written)} from L2, counted` : "requests nothing",
    ...(written ? [`${traffic(written)} of that written`] : []),
  ];
}
