// A small GIF89a encoder: one palette for all pictures, of each picture only the lines that differ from the last, LZW.
// The format: www.w3.org/Graphics/GIF/spec-gif89a.txt

const COLOURS = 255; // the 256th entry of the palette means: as in the picture before
const UNCHANGED = 255;
const MOST_CODES = 4096;

/** The most frequent colours of some pictures, as [r, g, b], the most frequent first; pictures are Uint32Arrays of RGBA. */
export function commonColours(pictures) {
  const counts = new Map();
  for (const picture of pictures) {
    for (let from = 0, to = 0; from < picture.length; from = to) {
      while (picture[to] === picture[from]) to++;
      counts.set(picture[from], (counts.get(picture[from]) || 0) + to - from);
    }
  }
  const often = [...counts].sort((a, b) => b[1] - a[1]);
  const near = new Set(),
    chosen = [];
  for (const [pixel] of often) {
    // of colours that hardly differ, the first speaks for all
    const alike = pixel & 0xf8f8f8;
    if (near.has(alike)) continue;
    near.add(alike);
    chosen.push([pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255]);
    if (chosen.length === COLOURS) break;
  }
  return chosen;
}

export class GifEncoder {
  /** A picture of `width` by `height` pixels in the colours of `palette`, played over and over. */
  constructor(width, height, palette) {
    Object.assign(this, { width, height, palette, parts: [], size: 0 });
    this.known = new Uint8Array(65536).fill(UNCHANGED); // a rough colour's place in the palette, once looked for
    palette.forEach(([r, g, b], n) => {
      this.known[rough(r | (g << 8) | (b << 16))] = n;
    });
    this.codes = new Uint16Array(MOST_CODES << 8); // of LZW, by the code before and the index that follows; 0: none
    this.indices = new Uint8Array(width * height);
    this.out = new Uint8Array(2 * width * height + 16);
    const table = new Uint8Array(768);
    palette.forEach((colour, n) => table.set(colour, 3 * n));
    this.write([...new TextEncoder().encode("GIF89a"), ...short(width), ...short(height), 0xf7, 0, 0]);
    this.write(table);
    this.write([0x21, 0xff, 11, ...new TextEncoder().encode("NETSCAPE2.0"), 3, 1, 0, 0, 0]);
  }

  /** Adds a picture, a Uint32Array of RGBA, shown for some hundredths of a second. */
  add(picture, hundredths) {
    this.write([0x21, 0xf9, 4, this.last ? 5 : 4, ...short(hundredths), UNCHANGED, 0]); // 4: leave it standing
    const { width } = this,
      [top, bottom] = this.changed(picture);
    this.write([0x2c, 0, 0, ...short(top), ...short(width), ...short(bottom - top + 1), 0, 8]);
    this.compress(this.indexed(picture, top * width, (bottom + 1) * width));
    this.last = picture;
  }

  /** The first and the last line that differ from the picture before; one line where none do. */
  changed(picture) {
    const { last, width } = this;
    let [from, to] = [0, picture.length - 1];
    while (from < to && picture[from] === last?.[from]) from++;
    while (from < to && picture[to] === last?.[to]) to--;
    return [Math.floor(from / width), Math.floor(to / width)];
  }

  indexed(picture, from, to) {
    const { last, indices } = this;
    for (let at = from; at < to; at++)
      indices[at] = last && picture[at] === last[at] ? UNCHANGED : this.nearest(picture[at]);
    return indices.subarray(from, to);
  }

  nearest(pixel) {
    const found = this.known[rough(pixel)];
    if (found !== UNCHANGED) return found;
    const r = pixel & 255,
      g = (pixel >> 8) & 255,
      b = (pixel >> 16) & 255;
    let best = 0,
      least = Infinity;
    this.palette.forEach((colour, n) => {
      const distance = 2 * (r - colour[0]) ** 2 + 4 * (g - colour[1]) ** 2 + 3 * (b - colour[2]) ** 2;
      if (distance < least) [best, least] = [n, distance];
    });
    this.known[rough(pixel)] = best;
    return best;
  }

  /** LZW with codes of 9 to 12 bits, in blocks of at most 255 bytes. */
  compress(indices) {
    const { codes, out } = this,
      CLEAR = 256,
      END = 257;
    let held = 0,
      bits = 0,
      filled = 0,
      width = 9,
      next = END + 1;
    const emit = (code) => {
      held |= code << bits;
      for (bits += width; bits >= 8; bits -= 8, held >>>= 8) out[filled++] = held & 255;
    };
    const clear = () => {
      codes.fill(0);
      [width, next] = [9, END + 1];
    };
    clear();
    emit(CLEAR);
    let prefix = indices[0];
    for (let n = 1; n < indices.length; n++) {
      const string = (prefix << 8) | indices[n],
        code = codes[string];
      if (code) {
        prefix = code;
        continue;
      }
      emit(prefix);
      prefix = indices[n];
      if (next < MOST_CODES) {
        codes[string] = next;
        if (next === 1 << width) width++;
        next++;
      } else {
        emit(CLEAR);
        clear();
      }
    }
    emit(prefix);
    if (next === 1 << width && next < MOST_CODES) width++;
    emit(END);
    if (bits) out[filled++] = held & 255;
    for (let from = 0; from < filled; from += 255) {
      const part = out.subarray(from, Math.min(filled, from + 255));
      this.write([part.length]);
      this.write(part);
    }
    this.write([0]);
  }

  write(bytes) {
    this.parts.push(Uint8Array.from(bytes));
    this.size += bytes.length;
  }

  /** The whole file. */
  finish() {
    this.write([0x3b]);
    return new Blob(this.parts, { type: "image/gif" });
  }
}

/** Five or six bits of each channel of a pixel. */
const rough = (pixel) => ((pixel & 0xf8) << 8) | ((pixel & 0xfc00) >> 5) | ((pixel & 0xf80000) >> 19);
const short = (number) => [number & 255, number >> 8];
