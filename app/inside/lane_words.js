// What the lanes do, in words: the names of marks, and a moment as one sentence.

import { capital, subscript } from "../canvas/format.js";

const SHORT = { "Q Kᵀ": "S", softmax: "P", "P V": "O" }; // what an operation makes
const DOING = { softmax: "softmax of S", "store O": "writing O" }; // else the product's own name

const at = (key) => (key < 0 ? "" : subscript(key));

/** What a mark is called: "Q K₇ᵀ", "P V₇", "softmax S₇". */
export function markName(operation, key) {
  if (operation === "Q Kᵀ") return `Q K${at(key)}ᵀ`;
  return operation === "softmax" ? `softmax S${at(key)}` : `${operation}${at(key)}`;
}

/** The same in a bar, as short as it can be. */
export function shortName(operation, key) {
  return operation in SHORT ? `${SHORT[operation]}${at(key)}` : markName(operation, key);
}

/** The same as what somebody does: "softmax of S₇". */
function deed(operation, key) {
  return operation in DOING ? `${DOING[operation]}${at(key)}` : markName(operation, key);
}

/** What one lane does at a moment; the first copies, the others compute. */
function doingNow({ short, marks }, index, seconds) {
  const now = marks.filter(([, , start, end]) => seconds >= start && seconds < end);
  if (index === 0) {
    const names = now.map(([operation, key]) => markName(operation, key));
    return names.length ? `Copies in flight: ${names.join(", ")}` : "No copy in flight";
  }
  const deeds = [...new Set(now.map(([operation, key]) => deed(operation, key)))];
  return `${capital(short)}: ${deeds.join(" and ") || "waiting"}`;
}

/** What all lanes do at a moment. */
export function sentenceAt({ lanes }, seconds) {
  return lanes.map((lane, index) => `${doingNow(lane, index, seconds)}.`).join(" ");
}
