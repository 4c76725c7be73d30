// Boxes on a stage.

/** A box cut along "x" or "y" into parts of so many pixels, null for one of equal shares of what is left, with a gap between them. */
export function cut(box, along, gap, sizes) {
  const size = along === "x" ? "w" : "h",
    given = sizes.reduce((sum, one) => sum + (one ?? 0), (sizes.length - 1) * gap),
    share = (box[size] - given) / sizes.filter((one) => one === null).length;
  let at = box[along];
  return sizes.map((one) => {
    const part = { ...box, [along]: at, [size]: one ?? share };
    at += part[size] + gap;
    return part;
  });
}
