// What a tile is, beside the tile that the pointer is on.

import { percent, plural, traffic } from "../canvas/format.js";
import { Tip } from "../canvas/tip.js";

/** The lines of the tip: where the tile lies, what the mask does to it, its share and its bytes. */
function tileWords(model, run, i, j) {
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
    read + written ? `asks L2 for ${traffic(read + written)}, counted` : "asks for nothing",
    ...(written ? [`${traffic(written)} of that written`] : []),
  ];
}

export class TileTip {
  constructor(root, player) {
    this.player = player;
    this.tip = new Tip(root);
    const canvas = root.querySelector(".stage canvas");
    canvas.addEventListener("pointermove", (event) => this.point(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerleave", () => this.hide());
  }

  hide() {
    this.shown = "";
    this.tip.hide();
  }

  point(x, y) {
    const { stage } = this.player;
    for (const [n, { grid, painter }] of stage.panels.entries()) {
      const tile = grid?.tileAt(x, y);
      if (!tile) continue;
      const name = `${n} ${tile}`;
      if (name !== this.shown)
        this.tip.show(stage, grid.cell(...tile), tileWords(painter.model, painter.run, ...tile));
      this.shown = name;
      return;
    }
    this.hide();
  }
}
