// The race in words.

import { capital, counted, duration, grouped, plural, times } from "../canvas/format.js";

/** What an algorithm is doing, short. */
export function doing(run, step) {
  if (step < 0) return "at the start";
  const kernel = run.phase[step] + 1,
    { name, outer } = run.phases[kernel - 1],
    where = outer === "query" ? `query tile ${run.query[step]}` : `key tile ${run.key[step]}`;
  return run.phases.length > 1 ? `kernel ${kernel} of ${run.phases.length}, ${name}: ${where}` : where;
}

/** Where the race stands. */
export function raceSentence(model, seconds) {
  const { runs, finishing: order, algorithms, chip, misfits } = model,
    title = (name) => runs[name].title,
    took = (name) => duration(runs[name].time),
    unfit = algorithms.filter((name) => misfits[name]).map(title),
    does = unfit.length > 1 ? "do" : "does",
    out = unfit.length ? ` ${capital(unfit.join(" and "))} ${does} not fit.` : "";
  if (!order.length)
    return `${algorithms.length === 2 ? "Neither" : "None"} of the ${counted(algorithms.length)} fits the ${chip.name}, so nothing races. Each lane says what its algorithm needs.`;
  const [winner] = order,
    slowest = order.at(-1),
    alone = order.length === 1,
    first = capital(title(winner));
  if (seconds <= 0)
    return alone
      ? `${first} runs alone on a clock of modelled time.${out}`
      : `${capital(plural(order.length, "algorithm"))} compute one head in the same tiles, on one clock of modelled time. Which is done first?${out}`;
  if (seconds >= runs[slowest].time)
    return alone
      ? `${first} took ${took(winner)}, modelled.${out}`
      : `${first} finished first, after ${took(winner)}: ${times(runs[slowest].time / runs[winner].time)} times as fast as ` +
          `${title(slowest)} (${took(slowest)}, both modelled)${fewBlocks(chip, runs[slowest])}.${out}`;
  const is = order.map((name) =>
    runs[name].time <= seconds
      ? `${title(name)} was done after ${took(name)}`
      : `${title(name)} is ${Math.floor(100 * (seconds / runs[name].time))}% through`,
  );
  const ended = order.filter((name) => runs[name].time <= seconds).length,
    going = is.slice(ended).join(", "),
    done = is.slice(0, ended).join(", ");
  const told = ended ? `${done}; ${going}` : `After ${duration(seconds)} of modelled time ${going}`;
  return `${capital(told)}.${out}`;
}

/** That a run has too few blocks for the GPU, which is why it is slow, as the end of a sentence; or nothing. */
function fewBlocks({ sms }, { blocks }) {
  if (!(blocks < sms)) return "";
  return `, whose ${plural(blocks, "thread block")} ${blocks === 1 ? "is" : "are"} too few for ${grouped(sms)} SMs`;
}

/** Why an algorithm cannot run, as one sentence: a verdict and what it rests on. */
export const misfitSentence = ([verdict, ...reasons]) => `${verdict}: it ${reasons.join(", but ")}.`;
