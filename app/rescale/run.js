// The online softmax of one row with its output: what is summed before, rescaled, and with every tile.

const total = (weights) => weights.reduce((sum, weight) => sum + weight, 0);

/**
 * The tiles of a row, in order: {first, stop, was, largest, m, alpha, factor, before, after, l, out}, where `before` are the
 * weights of the tiles read, relative to the maximum that `was`, and `l` and `out` are {before, rescaled, after}.
 * A masked score is -Infinity. A maximum stays that a score passes by no more than the threshold, in log2. Without α what is summed stays as it is: `factor` is what it is multiplied by, `alpha` what it must be.
 */
export function tilesOf(scores, values, block, rescaling, threshold = 0) {
  const tiles = [],
    output = (weights) =>
      values[0].map((_, dim) => total(weights.map((each, key) => each * values[key][dim])));
  let [was, before] = [-Infinity, scores.map(() => 0)];
  for (let first = 0; first < scores.length; first += block) {
    const stop = Math.min(first + block, scores.length),
      largest = Math.max(...scores.slice(first, stop)),
      m = was === -Infinity || largest - was > threshold * Math.LN2 ? Math.max(was, largest) : was,
      alpha = was === -Infinity ? 0 : Math.exp(was - m),
      factor = rescaling ? alpha : 1,
      rescaled = before.map((weight) => weight * factor),
      weightOf = (score) => (score === -Infinity ? 0 : Math.exp(score - m)),
      after = rescaled.map((old, key) => (key < first || key >= stop ? old : weightOf(scores[key]))),
      three = (of) => ({ before: of(before), rescaled: of(rescaled), after: of(after) }),
      sums = { before, after, l: three(total), out: three(output) };
    tiles.push({ first, stop, was, largest, m, alpha, factor, ...sums });
    [was, before] = [m, after];
  }
  return tiles;
}

/** O divided by l, after all tiles. */
export const resultOf = (tiles) => {
  const { out, l } = tiles.at(-1);
  return out.after.map((value) => value / (l.after || 1));
};
