// One lane of the picture: memory on the left, the chip on the right, and what is on its way between them.

import { duration, traffic } from "../canvas/format.js";
import { mix } from "../canvas/theme.js";
import { bytesOf, inFlight, movedAt, secondsOf } from "./loop.js";

const ROWS = 4; // of squares in each direction
const SM_COLUMNS = 12;
const PHONE = 420; // units of a lane that is narrow
const NARROW = 150; // units of a memory or a chip that has room for few words
const WIDE = 300; // units of a pipe that has room for words

/** Where the parts of a lane lie, in a box of the canvas. */
function partsOf({ x, y, w, h }, u) {
  const head = 46 * u,
    side = Math.min((w < PHONE * u ? 0.32 : 0.26) * w, 200 * u),
    top = y + head,
    height = h - head;
  return {
    memory: { x, y: top, w: side, h: height },
    pipe: { x: x + side, y: top + 0.16 * height, w: w - 2 * side, h: 0.68 * height },
    chip: { x: x + w - side, y: top, w: side, h: height },
  };
}

/** A lane at a moment of the loop; `told` are the numbers to show where they are not those of the moment. */
export function paintLane(pen, box, { lane, flights, data, pace, moment, still }) {
  const seconds = Math.min(moment * pace, secondsOf(lane)),
    moved = movedAt(lane, seconds),
    done = seconds >= secondsOf(lane),
    parts = partsOf(box, pen.u);
  paintHead(pen, box, lane, {
    bytes: still ? bytesOf(lane) : moved.read + moved.written,
    seconds: still ? secondsOf(lane) : seconds,
    done: done || still,
  });
  paintPipe(pen, parts.pipe, flights, moment);
  paintMemory(pen, parts.memory, lane, data, moved.shares);
  paintChip(pen, parts.chip, data, !done);
}

function paintHead(pen, { x, y, w }, lane, { bytes, seconds, done }) {
  const { theme, u } = pen,
    narrow = w < 640;
  pen.text(lane.name, x, y + 18 * u, { size: 18, weight: 650 });
  const color = done ? theme.ink : theme.muted,
    look = { size: narrow ? 17 : 22, weight: 650, mono: true, align: "right", color };
  const right = x + w;
  if (narrow) {
    pen.text(traffic(Math.round(bytes)), right, y + 17 * u, look);
    pen.text(duration(seconds), right, y + 37 * u, look);
  } else {
    pen.text(duration(seconds), right, y + 24 * u, look);
    pen.text(traffic(Math.round(bytes)), right - 130 * u, y + 24 * u, look);
  }
  const room = w - (narrow ? 100 : 260) * u;
  pen.text(lane.about, x, y + 37 * u, { size: 13, color: theme.muted, room });
}

/** The way between the memories, and the squares on it: to the chip above, from it below. */
function paintPipe(pen, { x, y, w, h }, flights, moment) {
  const { theme, u } = pen;
  pen.box(x, y, w, h, mix(theme.panel, theme.ground, 0.75), 0);
  pen.box(x, y + h / 2, w, 1, theme.line, 0);
  const ways = { size: 12, color: theme.muted };
  if (w > WIDE * u) {
    pen.text("to the chip →", x + 10 * u, y - 5 * u, ways);
    pen.right("← to memory", x + w - 10 * u, y + h + 14 * u, ways);
  }
  const step = h / 2 / ROWS,
    side = Math.min(11 * u, 0.74 * step);
  for (const way of ["read", "written"]) {
    const out = way === "read";
    for (const { share, tensor, n } of inFlight(flights[way], moment)) {
      const along = out ? share : 1 - share,
        row = (n * 3) % ROWS;
      const left = x - side + along * (w + side),
        top = y + (out ? 0 : h / 2) + (row + 0.5) * step - side / 2;
      pen.box(left, top, side, side, theme[tensor === "P" ? "S" : tensor], 2);
    }
  }
}

/** What a memory is called and, where there is room, its size. */
function nameBox(pen, facts, x, y, room) {
  const words = room + 16 * pen.u < NARROW * pen.u ? facts.slice(0, 1) : facts;
  pen.text(words.join(", "), x, y + 16 * pen.u, { size: 12, color: pen.theme.muted, room });
}

/** The tensors in HBM, their areas to one scale: strips of N × d, and S and P of N × N where they are stored. */
function paintMemory(pen, { x, y, w, h }, lane, data, shares) {
  const { theme, u } = pen,
    pad = 8 * u;
  pen.box(x, y, w, h, theme.panel, 6);
  nameBox(pen, data.memory, x + pad, y, w - 2 * pad);
  const gap = (w < NARROW * u ? 6 : 8) * u,
    tall = Math.min(h - 40 * u - pad, (w - 2 * pad - 5 * gap) / (2 + (4 * data.width) / data.keys)),
    thin = Math.max(2 * u, (tall * data.width) / data.keys),
    top = y + h - pad - tall;
  let at = x + pad;
  const letter = { size: 12, align: "center", mono: true };
  const strip = (name, part) => {
    pen.box(at, top, thin, tall, theme.cell, 0);
    pen.box(at, top, thin, part * tall, theme[name], 0);
    pen.text(name, at + thin / 2, top - 4 * u, { ...letter, color: theme[name] });
  };
  for (const name of "QKV") {
    strip(name, 1);
    at += thin + gap;
  }
  if (lane.stores) {
    const written = { S: shares[0], P: shares[1] };
    for (const name of "SP") {
      pen.box(at, top, tall, tall, theme.cell, 0);
      pen.box(at, top, tall, written[name] * tall, theme.S, 0);
      pen.text(name, at + tall / 2, top - 4 * u, { ...letter, color: theme.S });
      at += tall + gap;
    }
  }
  strip("O", shares.at(-1));
}

/** The SMs of the chip, lit while they compute. */
function paintChip(pen, { x, y, w, h }, data, busy) {
  const { theme, u } = pen,
    pad = 8 * u;
  pen.box(x, y, w, h, theme.panel, 6);
  nameBox(pen, data.chip, x + pad, y, w - 2 * pad);
  const rows = Math.ceil(data.sms / SM_COLUMNS),
    top = y + 24 * u,
    pitch = Math.min((w - 2 * pad) / SM_COLUMNS, (h - 24 * u - pad) / rows),
    left = x + (w - pitch * SM_COLUMNS) / 2;
  const color = busy ? mix(theme.good, theme.panel, 0.75) : theme.cell;
  for (let n = 0; n < data.sms; n++)
    pen.box(
      left + (n % SM_COLUMNS) * pitch,
      top + Math.floor(n / SM_COLUMNS) * pitch,
      0.76 * pitch,
      0.76 * pitch,
      color,
      1,
    );
}
