// The race in words.

import { capital, counted, duration, grouped, plural, times } from "../canvas/format.js";

/** What an algorithm is doing, short. */
export function doing(run, step) {
  if (step < 0) return "at the start";
  if (step >= run.steps) return "done";
  const { name } = run.phases[run.phase[step]],
    tile = run.query[step],
    key = run.key[step];
  const where = run.phases[run.phase[step]].outer === "query" ? `query tile ${tile}` : `key tile ${key}`;
  return run.phases.length > 1
    ? `kernel ${run.phase[step] + 1} of ${run.phases.length}, ${name}: ${where}`
    : where;
}

/** "Standard and FlashAttention-1 do not fit." of those that cannot run on the GPU, or nothing. */
function outOfRace(model) {
  const names = model.algorithms.filter((name) => model.misfits[name]).map((name) => model.runs[name].title);
  if (!names.length) return "";
  return ` ${capital(names.join(" and "))} ${names.length > 1 ? "do" : "does"} not fit.`;
}

const TENTHS = 10; // that a sentence tells apart while the race goes on: finer ones could not be read

/** Where the race stands; while it is `moving`, in steps that can be read. */
export function raceSentence(model, seconds, moving = false) {
  const { runs, finishing: order } = model,
    out = outOfRace(model),
    took = (name) => duration(runs[name].time);
  const title = (name) => runs[name].title;
  if (!order.length)
    return `${model.algorithms.length === 2 ? "Neither" : "None"} of the ${counted(model.algorithms.length)} fits the ${model.chip.name}, so nothing races. Each lane says what its algorithm needs.`;
  const [winner] = order,
    slowest = order.at(-1);
  if (seconds <= 0) {
    return order.length === 1
      ? `${capital(title(winner))} runs alone on a clock of modelled time.${out}`
      : `${capital(plural(order.length, "algorithm"))} compute one head in the same tiles, on one clock of modelled time. Which is done first?${out}`;
  }
  if (seconds >= runs[slowest].time) {
    if (order.length === 1) return `${capital(title(winner))} took ${took(winner)}, modelled.${out}`;
    const gain = runs[slowest].time / runs[winner].time;
    return (
      `${capital(title(winner))} finished first, after ${took(winner)}: ${times(gain)} times as fast as ` +
      `${title(slowest)} (${took(slowest)}, both modelled)${fewBlocks(model, runs[slowest])}.${out}`
    );
  }
  const ended = order.filter((name) => runs[name].time <= seconds),
    going = order.filter((name) => runs[name].time > seconds);
  const share = (name) => {
    const part = seconds / runs[name].time;
    return `${title(name)} is ${moving ? 10 * Math.floor(TENTHS * part) : Math.floor(100 * part)}% through`;
  };
  if (!ended.length) {
    const when = moving ? "" : `After ${duration(seconds)} of modelled time `;
    return `${capital(`${when}${going.map(share).join(", ")}`)}.${out}`;
  }
  return `${capital(ended.map((name) => `${title(name)} was done after ${took(name)}`).join(", "))}; ${going.map(share).join(", ")}.${out}`;
}

/** That a run has too few blocks for the GPU, which is why it is slow, as the end of a sentence; or nothing. */
function fewBlocks({ chip }, { blocks }) {
  if (!(blocks < chip.sms)) return "";
  return `, whose ${plural(blocks, "thread block")} ${blocks === 1 ? "is" : "are"} too few for ${grouped(chip.sms)} SMs`;
}

/** Why an algorithm cannot run, as one sentence: a verdict and what it rests on. */
export const misfitSentence = ([verdict, ...reasons]) => `${verdict}: it ${reasons.join(", but ")}.`;
