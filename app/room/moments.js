// The moment of the picture in the window that leads a room, on its way to the phones.

const THERE = "room/moment", // from the document's own address
  OFTEN = 150, // ms between two moments of a picture that is dragged, for phones to follow
  SELDOM = 2000; // and of one that plays, as theirs play too
let passed = { at: 0, part: null, rest: "" },
  waiting;

/** Passes the moment of the picture in this window on to the phones. */
function pass(moment) {
  clearTimeout(waiting);
  const { part, ...others } = moment,
    rest = JSON.stringify(others),
    now = performance.now();
  if (rest === passed.rest && part === passed.part) return;
  const left = rest === passed.rest ? passed.at + (moment.playing ? SELDOM : OFTEN) - now : 0;
  if (left > 0) {
    waiting = setTimeout(pass, left, moment);
    return;
  }
  passed = { at: now, part, rest };
  fetch(THERE, { method: "POST", body: JSON.stringify(moment) }).catch(() => {}); // the next one may arrive
}

/** Whether this window's pictures tell their moments from now on. */
export const lead = (leads) => (globalThis.attentionRoom = leads ? pass : undefined);
