// What several panels and stories say of a run and of its size.

import { grouped, plural, times, traffic } from "../canvas/format.js";

/** How bytes compare with others: "5.9 times less than standard". */
export function compared(bytes, others, name = "") {
  const part = others / bytes,
    than = name && ` than ${name}`;
  if (part >= 1.05) return `${times(part)} times less${than}`;
  return part <= 0.95 ? `${times(1 / part)} times more${than}` : `about as much${name && ` as ${name}`}`;
}

/** What is drawn in words: "One head has 1,024 queries and 1,024 keys", or how many of them a picture has room for. */
export function sizeWords({ drawn, asked, scaled }, whose = "One head") {
  const [queries, keys] = [drawn, asked].map(
    ({ seq_q, seq_kv }) => `${plural(seq_q, "query", "queries")} and ${plural(seq_kv, "key")}`,
  );
  return scaled ? `${whose} has ${keys}, of which ${queries} are drawn` : `${whose} has ${queries}`;
}

/** The end of a forward run: what it asked for and what of it crossed HBM, beside the run that it is compared with. */
export function closingWords({ against, scaled }, run) {
  const asked = `Done. ${scaled ? "The part of the head that is drawn" : "This head's tiles"} requested ${traffic(run.total)}`,
    crossed = traffic(run.crossing);
  if (run.unfused) {
    return (
      `${asked}, ${against.title}'s ${traffic(against.total)}: ${compared(against.total, run.total)}. ` +
      `${crossed} had to come from or go to HBM (modelled), with ${against.title} ${traffic(against.crossing)}: ` +
      `${compared(against.crossing, run.crossing)}.`
    );
  }
  const part = run.crossing < 0.995 * run.total ? `Only ${crossed} of that` : "All of that";
  return (
    `${asked}, ${compared(run.total, against.total, `${against.title} attention`)}. ${part} had to ` +
    `come from or go to HBM (modelled): ${compared(run.crossing, against.crossing)}.`
  );
}

/** How much of a large problem is drawn. */
export function drawnNote({ drawn, asked }) {
  if (drawn.seq_kv !== asked.seq_kv)
    return `drawn: ${grouped(drawn.seq_kv)} of ${grouped(asked.seq_kv)} keys`;
  return `drawn: ${grouped(drawn.seq_q)} of ${grouped(asked.seq_q)} queries`;
}
