// What several panels and stories say of a run and of its size.

import { capital, grouped, plural, times, traffic } from "../canvas/format.js";

/** How the bytes of a whole run compare with another's: "5.9 times less than standard". */
export function compared(run, other, name = "") {
  const part = other.total / run.total,
    than = name && ` than ${name}`;
  if (part >= 1.05) return `${times(part)} times less${than}`;
  return part <= 0.95 ? `${times(1 / part)} times more${than}` : `about as much${name && ` as ${name}`}`;
}

/** A problem's size in words: "1,024 queries and 1,024 keys". */
export const sizeWords = ({ seq_q, seq_kv }) =>
  `${plural(seq_q, "query", "queries")} and ${plural(seq_kv, "key")}`;

/** The end of a forward run: what it requested, beside the run that it is compared with. */
export function closingWords(model, run) {
  const { against } = model,
    asked = `Done. ${capital(run.title)} requested ${traffic(run.total)} from L2 and HBM for this head`;
  if (run.unfused)
    return `${asked}; ${against.title} requests ${traffic(against.total)}, ${compared(against, run)}.`;
  return `${asked}, ${compared(run, against, `${against.title} attention`)} (${traffic(against.total)}).`;
}

/** How much of a large problem is drawn. */
export function drawnNote({ drawn, asked }) {
  if (drawn.seq_kv !== asked.seq_kv)
    return `drawn: ${grouped(drawn.seq_kv)} of ${grouped(asked.seq_kv)} keys`;
  return `drawn: ${grouped(drawn.seq_q)} of ${grouped(asked.seq_q)} queries`;
}
