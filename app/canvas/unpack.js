// The bytes that the server packed, as a header and typed arrays.

const KNOWN = [Uint8Array, Uint16Array, Uint32Array, Int16Array, Int32Array, Float32Array],
  TYPES = Object.fromEntries(KNOWN.map((type) => [type.name.replace("Array", "").toLowerCase(), type]));

/** Header and arrays of a payload, those called "name.column" together under their name; `bytes` must start its buffer, as typed arrays need aligned offsets. */
export function unpack(bytes) {
  const { buffer } = bytes;
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const arrays = {};
  for (const [name, type, offset, length] of header.arrays) {
    const [column, table] = name.split(".").reverse();
    if (table) arrays[table] ??= {};
    (arrays[table] ?? arrays)[column] = new TYPES[type](buffer, 4 + size + offset, length);
  }
  return { header, arrays };
}

export function equalBytes(a, b) {
  if (a.length !== b.length) return false;
  for (let n = 0; n < a.length; n++) if (a[n] !== b[n]) return false;
  return true;
}
