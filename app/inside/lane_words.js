// What the lanes do, in words: a mark's names, and a moment as one sentence.

import { capital, subscript } from "../canvas/format.js";

/** What the table of operations calls a mark of a key block: "Q K₇ᵀ", "softmax of S₇". */
export const named = (pattern, key) => pattern.replace("{}", key < 0 ? "" : subscript(key));

/** What one lane does at a moment; the first copies, the others compute. */
function doingNow({ short, marks }, index, seconds, operations) {
  const now = marks.filter(([, , start, end]) => seconds >= start && seconds < end),
    called = (field) => now.map(([operation, key]) => named(operations[operation][field], key));
  if (index === 0) return now.length ? `Copies in flight: ${called("name").join(", ")}` : "No copy in flight";
  return `${capital(short)}: ${[...new Set(called("deed"))].join(" and ") || "waiting"}`;
}

/** What all lanes do at a moment. */
export function sentenceAt({ lanes, operations }, seconds) {
  return lanes.map((lane, index) => `${doingNow(lane, index, seconds, operations)}.`).join(" ");
}
