// An MP4 of H.264 as the browser's encoder packs it: one track, all of its index before the pictures.
// The format: ISO/IEC 14496-12 and -15.

const CODECS = ["avc1.640033", "avc1.640028", "avc1.4d0033", "avc1.42e033"]; // High 5.1, which 4K needs, first
const BITS = 0.08, // of a pixel of each picture, about, on which the encoder bases its rate
  KEY = 2, // seconds from one whole picture to the next, to which a player can jump
  AHEAD = 8; // pictures that may wait for the encoder
const SECOND = 1e6, // in what the encoder counts
  TICKS = 90_000; // of the file's clock per second
const IDENTITY = [0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000];
const TELEVISION = { primaries: "bt709", transfer: "bt709", matrix: "bt709", fullRange: false };
export const NO_ENCODER =
  "This browser makes no film here: it has no H.264 encoder, or this address is not secure. Open the dashboard as localhost or by https in Chrome, Edge, Safari or Firefox; the GIF can be made anywhere.";

const bytes = (number, count) =>
  Array.from({ length: count }, (_, n) => Math.floor(number / 256 ** (count - 1 - n)) & 255);
const u16 = (...numbers) => numbers.flatMap((number) => bytes(number, 2));
const u32 = (...numbers) => numbers.flatMap((number) => bytes(number, 4));
const letters = (text) => [...text].map((letter) => letter.charCodeAt(0));
const box = (name, ...parts) => {
  const held = parts.flat();
  return [...u32(held.length + 8), ...letters(name), ...held];
};
const full = (name, flags, ...parts) => box(name, u32(flags), ...parts);

/**
 * The file of a track: `samples` are { data, key, time } in the order of decoding, with the time at which each is
 * shown in microseconds, `rate` pictures a second, `config` the encoder's description of what it made.
 */
export function mp4Of(samples, { width, height, rate, config }) {
  const each = Math.round(TICKS / rate),
    length = samples.length * each,
    sizes = samples.map(({ data }) => data.byteLength),
    late = samples.map(({ time }, n) => Math.round((time * TICKS) / SECOND) - n * each),
    keys = samples.flatMap(({ key }, n) => (key ? [n + 1] : []));
  const entry = box(
    "avc1",
    [...u32(0), ...u16(0, 1), ...u32(0, 0, 0, 0), ...u16(width, height), ...u32(0x480000, 0x480000, 0)],
    [...u16(1), ...Array(32).fill(0), ...u16(24, 0xffff)],
    box("avcC", [...new Uint8Array(config.description)]),
    box("colr", letters("nclx"), u16(1, 1, 1), 0), // as TELEVISION says
  );
  const table = (start) =>
    box(
      "stbl",
      full("stsd", 0, u32(1), entry),
      full("stts", 0, u32(1, sizes.length, each)),
      late.some(Boolean)
        ? full("ctts", 0x1000000, u32(late.length, ...late.flatMap((ticks) => [1, ticks])))
        : [],
      full("stss", 0, u32(keys.length, ...keys)),
      full("stsc", 0, u32(1, 1, samples.length, 1)),
      full("stsz", 0, u32(0, sizes.length, ...sizes)),
      full("stco", 0, u32(1, start)),
    );
  const about = (start) =>
    box(
      "moov",
      full(
        "mvhd",
        0,
        u32(0, 0, TICKS, length, 0x10000),
        u16(0x100, 0),
        u32(0, 0, ...IDENTITY),
        u32(0, 0, 0, 0, 0, 0, 2),
      ),
      box(
        "trak",
        full("tkhd", 3, u32(0, 0, 1, 0, length, 0, 0, 0, 0, ...IDENTITY, width * 65536, height * 65536)),
        box(
          "mdia",
          full("mdhd", 0, u32(0, 0, TICKS, length), u16(0x55c4, 0)),
          full("hdlr", 0, u32(0), letters("vide"), u32(0, 0, 0), letters("Film\0")),
          box(
            "minf",
            full("vmhd", 1, u16(0, 0, 0, 0)),
            box("dinf", full("dref", 0, u32(1), full("url ", 1))),
            table(start),
          ),
        ),
      ),
    );
  const kind = box("ftyp", letters("isom"), u32(0x200), letters("isomiso2avc1mp41")),
    start = kind.length + about(0).length + 8,
    whole = sizes.reduce((sum, size) => sum + size, 8);
  const head = Uint8Array.from([...kind, ...about(start), ...u32(whole), ...letters("mdat")]);
  return new Blob([head, ...samples.map(({ data }) => data)], { type: "video/mp4" });
}

/**
 * A canvas as Y of every pixel and U and V of every four, in the range of television: what browsers make of it by
 * themselves differs, and not every program that plays films knows all of it.
 */
class Planes {
  constructor(width, height) {
    const blank = () => new Uint32Array(width * height);
    Object.assign(this, {
      width,
      height,
      pixels: blank(),
      last: blank(),
      bytes: new Uint8Array(1.5 * width * height),
    });
  }

  /** Takes a canvas, by a frame because that is ten times as fast; lines that are as they were are left alone. */
  async take(canvas) {
    const { last: pixels, pixels: last } = this,
      frame = new VideoFrame(canvas, { timestamp: 0 });
    this.red = frame.format[0] === "B" ? 16 : 0; // the bit at which it begins
    await frame.copyTo(pixels);
    frame.close();
    Object.assign(this, { pixels, last });
    this.renew(pixels, last);
    return this.bytes;
  }

  renew(pixels, last) {
    const { width, height } = this;
    for (let row = 0; row < height; row += 2) {
      const start = row * width,
        end = start + 2 * width;
      let at = start;
      while (at < end && pixels[at] === last[at]) at++;
      if (at < end) this.lines(pixels, start);
    }
  }

  /** Two lines, the upper of which begins at a pixel. */
  lines(pixels, start) {
    const { width, height, bytes, red } = this,
      blue = 16 - red;
    for (let at = start; at < start + 2 * width; at++) {
      const pixel = pixels[at];
      bytes[at] =
        (47 * ((pixel >> red) & 255) + 157 * ((pixel >> 8) & 255) + 16 * ((pixel >> blue) & 255) + 4224) >> 8;
    }
    let u = width * height + start / 4,
      v = u + (width * height) / 4;
    for (let at = start; at < start + width; at += 2) {
      let [r, g, b] = [0, 0, 0];
      for (let n = 0; n < 4; n++) {
        const pixel = pixels[at + (n & 1) + (n >> 1) * width];
        r += (pixel >> red) & 255;
        g += (pixel >> 8) & 255;
        b += (pixel >> blue) & 255;
      }
      bytes[u++] = (-26 * r - 86 * g + 112 * b + 131584) >> 10;
      bytes[v++] = (112 * r - 102 * g - 10 * b + 131584) >> 10;
    }
  }
}

/** What the browser's encoder is asked for: the first that it has; throws where it has none. */
async function settingsFor(width, height, rate) {
  const usual = {
    width,
    height,
    framerate: rate,
    bitrate: Math.round(BITS * rate * width * height),
    avc: { format: "avc" },
  };
  for (const codec of CODECS) {
    const asked = { codec, ...usual };
    if (window.VideoEncoder && (await VideoEncoder.isConfigSupported(asked)).supported) return asked;
  }
  throw new Error(NO_ENCODER);
}

/** A film of `count` pictures of a canvas: `draw(n)` draws the nth, and `rest(n)` lets the page answer. */
export async function filmOf(canvas, { count, rate, draw, rest }) {
  const { width, height } = canvas,
    samples = [],
    planes = new Planes(width, height),
    settings = await settingsFor(width, height, rate);
  let config, failed;
  const encoder = new VideoEncoder({
    output(chunk, { decoderConfig } = {}) {
      config ??= decoderConfig;
      const data = new Uint8Array(chunk.byteLength);
      chunk.copyTo(data);
      samples.push({ data, key: chunk.type === "key", time: chunk.timestamp });
    },
    error(error) {
      failed = error;
      encoder.ondequeue?.();
    },
  });
  try {
    encoder.configure(settings);
    for (let n = 0; n < count; n++) {
      draw(n);
      const times = { timestamp: Math.round((n * SECOND) / rate), duration: Math.round(SECOND / rate) },
        format = { format: "I420", codedWidth: width, codedHeight: height, colorSpace: TELEVISION },
        frame = new VideoFrame(await planes.take(canvas), { ...format, ...times });
      encoder.encode(frame, { keyFrame: n % (KEY * rate) === 0 });
      frame.close();
      await rest(n);
      while (!failed && encoder.encodeQueueSize > AHEAD)
        await new Promise((done) => (encoder.ondequeue = done));
      if (failed) throw failed;
    }
    await encoder.flush();
    return mp4Of(samples, { width, height, rate, config });
  } finally {
    if (encoder.state !== "closed") encoder.close();
  }
}
