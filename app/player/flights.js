// Tiles on their way between memories: where each is at a moment.

export const FLIGHT_SECONDS = 0.7; // that a tile is on its way while the run plays
const MOST = 9; // tiles on their way at once: of more, every so many is shown
const RESTS_AT = 0.7; // share of the way at which a tile stands in a picture that does not move

/** Slow at both ends. */
const eased = (part) => part * part * (3 - 2 * part);

/**
 * The loads and stores that are on their way at a moment: { step, part }, part from 0 (leaving) to 1 (there).
 * `at` is the position in the run, whose step n lasts from n + 1 to n + 2; `span` is how many steps a flight lasts, 0 in a still picture.
 */
export function flightsOf(run, at, span) {
  if (!span)
    return run
      .transfersWithin(Math.floor(at) - 1, Math.floor(at) - 1, 1)
      .map((step) => ({ step, part: RESTS_AT }));
  return run
    .transfersWithin(Math.ceil(at - 1 - span), Math.floor(at - 1), MOST)
    .map((step) => ({ step, part: eased((at - 1 - step) / span) }));
}
