// A moment of several GPUs, and one mark, in words.

import { duration, percent, plural, times, traffic } from "../canvas/format.js";

const FEW = 6; // idle GPUs that are named

/** What happens now in a run, in a sentence or two. */
export function sentence(model, run, time) {
  if (time >= run.length) return done(model, run);
  const now = run.now(time),
    first = now.find((n) => !run.moves(n));
  if (first === undefined)
    return `${run.name}: no GPU computes. ${
      run.ring || run.gathers
        ? "The next round begins once its kernels have started and its K and V are here."
        : "Tokens are on their way to the GPU that computes their heads, or back."
    }`;
  if (run.kind[first] === run.merging)
    return `${run.name}: every GPU merges the m, l and O that its rounds left, one part per block of keys.`;
  if (run.kind[first] === run.packing)
    return run.ring || run.gathers
      ? `${run.name}: every GPU lays its K and V where the others can fetch them.`
      : `${run.name}: every GPU lays its tokens out for the GPUs that get them, or puts those that came in order.`;
  return run.ring ? ringSentence(model, run, time, now, first) : groupSentence(run, now, first);
}

function done(model, run) {
  const faster = times(run.oneGpu / run.length);
  return (
    `${run.name}: ${plural(model.gpus, "GPU")} take ${duration(run.length / 1e6)}, ${faster} times as fast as one GPU (${duration(run.oneGpu / 1e6)}). ` +
    `Efficiency ${percent(run.efficiency)}, ${run.origin}.`
  );
}

function ringSentence(model, run, time, now, first) {
  const round = run.round[first],
    moving = now.filter((n) => run.moves(n));
  const whose =
    round === 0
      ? "its own keys"
      : run.hosts
        ? hostsWords(run, round)
        : `the keys of the GPU ${round === 1 ? "one place" : `${round} places`} before it`;
  const idle = run.idle(model.gpus, time),
    some = `${model.gpus - idle.length} of ${model.gpus} GPUs compute`,
    computes = idle.length ? some : "every GPU computes";
  const travel = moving.length
    ? ` Meanwhile ${traffic(run.block)} of K and V come to each for a later round${run.backward ? ", and as many bytes of dK and dV go back" : ""}.`
    : round === model.gpus - 1
      ? " Nothing is left to fetch."
      : run.waiting(time).length
        ? " The next block has already arrived."
        : " The next block comes as the call ends, for NCCL's kernels wait for an SM.";
  return `${run.name}, round ${round + 1} of ${model.gpus}: ${computes} with ${whose}.${idleWords(run, idle, round) || travel}`;
}

/** Whose keys a round of a ring of hosts computes with. */
function hostsWords(run, round) {
  const turn = Math.floor(round / run.host);
  if (turn === 0) return "keys of another GPU of its own host";
  return `keys of the host ${turn === 1 ? "one place" : `${turn} places`} before its own`;
}

/** Who waits, and why: for keys that are on their way, or for a round in which the mask leaves nothing. */
function idleWords(run, idle, round) {
  if (!idle.length) return "";
  const unseen = idle.filter((gpu) => !run.computes(gpu, round));
  if (!unseen.length) return ` ${named(idle)} ${idle.length === 1 ? "has" : "have"} finished the round.`;
  const [verb, queries] = unseen.length === 1 ? ["is", "its queries see"] : ["are", "their queries see"];
  return ` ${named(unseen)} ${verb} idle, because ${queries} none of these keys.`;
}

function named(gpus) {
  if (gpus.length === 1) return `GPU ${gpus[0]}`;
  if (gpus.length > FEW) return plural(gpus.length, "GPU");
  return `GPUs ${gpus.slice(0, -1).join(", ")} and ${gpus.at(-1)}`;
}

function groupSentence(run, now, first) {
  const group = run.groups > 1 ? `, for group ${run.round[first] + 1} of ${run.groups} of the heads` : "",
    moving = now.some((n) => run.moves(n));
  const what = run.gathers
    ? "its own queries on all keys that they see"
    : "whole heads, all queries on all keys";
  return (
    `${run.name}: every GPU computes ${what}${group}.` + (moving ? " Meanwhile the next group moves." : "")
  );
}
