// What is under way at a moment of the loop: bytes so far, and the squares in flight between the two memories.

export const LOOP = 10; // seconds, of which the last are still
export const RUN = 8; // seconds that the longer of the two runs takes here
export const TRAVEL = 0.8; // seconds that a square is on its way

/** GPU seconds that a lane takes. */
export const secondsOf = (lane) => lane.kernels.reduce((sum, { seconds }) => sum + seconds, 0);

/** Bytes that a lane moves in all. */
export const bytesOf = (lane) => lane.kernels.reduce((sum, { read, written }) => sum + read + written, 0);

/** GPU seconds for each second of the loop. */
export const paceOf = (lanes) => Math.max(...lanes.map(secondsOf)) / RUN;

/** Bytes that a lane has read and written after so many GPU seconds: evenly over each kernel. */
export function movedAt(lane, seconds) {
  let [read, written, left] = [0, 0, seconds];
  const shares = lane.kernels.map((kernel) => {
    const share = Math.min(1, Math.max(0, left / kernel.seconds));
    left -= kernel.seconds;
    read += share * kernel.read;
    written += share * kernel.written;
    return share;
  });
  return { read, written, shares };
}

/** The tensor of a kernel's nth square: as often as the tensor is large, N × N or N × d. */
function tensorOf(names, share, { keys, width }) {
  const sizes = [...names].map((name) => ("SP".includes(name) ? keys : width));
  const at = share * sizes.reduce((sum, size) => sum + size, 0);
  return names[sizes.findIndex((_, n) => sizes.slice(0, n + 1).reduce((sum, size) => sum + size, 0) > at)];
}

/** A lane's squares by direction: when each sets out, in seconds of the loop, and of which tensor it is. */
export function flightsOf(lane, data, pace) {
  const flights = { read: [], written: [] };
  for (const [way, at] of [
    ["read", 0],
    ["written", 1],
  ]) {
    let [start, before] = [0, 0];
    for (const kernel of lane.kernels) {
      const most = Math.round((before + kernel[way]) / data.flight);
      for (let n = flights[way].length; n < most; n++) {
        const share = Math.min(1, Math.max(0, ((n + 0.5) * data.flight - before) / kernel[way]));
        const cycle = (n * 0.618034) % 1; // so that tensors take turns instead of coming in blocks
        flights[way].push({
          at: (start + share * kernel.seconds) / pace,
          tensor: tensorOf(kernel.of[at], cycle, data),
        });
      }
      start += kernel.seconds;
      before += kernel[way];
    }
  }
  return flights;
}

/** Those in flight at a moment, each with the share of its way that it has come and its number. */
export function inFlight(flights, moment) {
  return flights.flatMap(({ at, tensor }, n) =>
    moment >= at && moment < at + TRAVEL ? [{ share: (moment - at) / TRAVEL, tensor, n }] : [],
  );
}
