// What a tile is, beside the tile that the pointer is on.

/** The lines of the tip: where the tile lies, what the mask does to it, its share and its bytes. */
function tileWords(model, run, i, j) {
  const { block_q, block_kv } = model.drawn, seen = model.seen(i, j);
  const range = (block, size, count) => `${grouped(block * size)} to ${grouped(block * size + count - 1)}`;
  const hidden = run.name === "standard" ? "hidden by the mask, computed all the same" : "skipped: the mask hides all of it";
  const rows = model.rowStart[i + 1] - model.rowStart[i];
  const { read, written } = run.bytesOfTile(i, j);
  return [
    `Tile (${i}, ${j})`,
    !seen ? hidden : model.partial(i, j) ? "partial: the mask hides some of it" : "full: nothing of it is masked",
    `queries ${range(i, block_q, model.queryRows(i))}`,
    `keys ${range(j, block_kv, model.keyRows(j))}`,
    `softmax share ${percent(model.share(i, j))}, mean of ${plural(rows, "row")}`,
    read + written ? `asks HBM for ${traffic(read + written)}, counted` : "asks HBM for nothing",
    ...(written ? [`of which written ${traffic(written)}`] : []),
  ];
}

/** A tip that stands beside its tile, not at the pointer: it moves only from tile to tile. */
class TileTip {
  constructor(root, player) {
    this.player = player;
    [this.aim, this.tip] = [".aim", ".tip"].map((selector) => root.querySelector(selector));
    const canvas = root.querySelector(".stage canvas");
    canvas.addEventListener("pointermove", (event) => this.point(event.offsetX, event.offsetY));
    canvas.addEventListener("pointerleave", () => this.hide());
  }

  hide() {
    this.shown = "";
    this.aim.hidden = this.tip.hidden = true;
  }

  point(x, y) {
    const { stage } = this.player;
    for (const [n, { grid, painter }] of stage.panels.entries()) {
      const tile = grid?.tileAt(x, y);
      if (!tile) continue;
      const name = `${n} ${tile}`;
      if (name !== this.shown) this.show(grid, painter.run, tile);
      this.shown = name;
      return;
    }
    this.hide();
  }

  show(grid, run, [i, j]) {
    const { model, stage } = this.player, [x, y, w, h] = grid.cell(i, j), away = 10;
    const [title, ...lines] = tileWords(model, run, i, j);
    this.tip.innerHTML = `<b>${title}</b>${lines.join("<br>")}`;
    this.aim.hidden = this.tip.hidden = false;
    Object.assign(this.aim.style, { left: `${x - 2}px`, top: `${y - 2}px`, width: `${w + 4}px`, height: `${h + 4}px` });
    const { offsetWidth, offsetHeight } = this.tip;
    const right = x + w + away, left = right + offsetWidth <= stage.width ? right : Math.max(0, x - away - offsetWidth);
    const top = clamp(y - away, 0, Math.max(0, stage.height - offsetHeight));
    Object.assign(this.tip.style, { left: `${left}px`, top: `${top}px` });
  }
}
