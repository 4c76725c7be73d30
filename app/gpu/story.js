// A moment of the GPU in words.

import { capital, duration, grouped, percent, plural } from "../canvas/format.js";

/** What happens now, in one sentence, of the first lane. */
export function sentence(model, time) {
  const lane = model.lanes[0],
    { done, running, busy } = lane.at(time);
  const apart = model.lanes.some(({ origin }) => origin !== lane.origin) ? lane.source : lane.name;
  const name = model.lanes.length > 1 ? `${capital(apart)}: ` : "";
  if (time >= lane.microseconds) {
    return (
      `${name}${plural(lane.count, "block")} took ${duration(lane.microseconds / 1e6)}, and the SMs were busy ${percent(lane.busy)} of that time. ` +
      `In the last ${duration(lane.tail / 1e6)}, the tail, some had nothing left to do; the busiest worked ${percent(lane.imbalance)} longer than the average.`
    );
  }
  const idle = lane.used - busy,
    never = lane.sms - lane.used,
    tail = time >= lane.microseconds - lane.tail;
  const state = `${name}${plural(running, "block")} ${running === 1 ? "runs" : "run"} on ${busy} of ${lane.sms} SMs; ${grouped(done)} of ${grouped(lane.count)} ${done === 1 || lane.count === 1 ? "is" : "are"} done.`,
    few = lane.count < lane.sms ? ", because there are fewer blocks than SMs" : "";
  if (never) return `${state} ${plural(never, "SM")} never ${never === 1 ? "gets" : "get"} a block${few}.`;
  if (!idle) return `${state} No SM is idle.`;
  const [waits, has] = idle === 1 ? ["waits", "has"] : ["wait", "have"];
  return tail
    ? `${state} In this tail, ${plural(idle, "SM")} ${has} nothing left to do.`
    : `${state} ${plural(idle, "SM")} ${waits}.`;
}
