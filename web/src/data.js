// Opens a recording: a safetensors file, each array a piece of deflated planes of bytes (docs/recordings.md).
const TYPES = {
  "<f8": Float64Array,
  "<f4": Float32Array,
  "<i4": Int32Array,
  "<i2": Int16Array,
  "|i1": Int8Array,
  "|u1": Uint8Array,
};

const PIECE = 22; // hexadecimal digits per piece: codec 2, length 12, checksum 8

export async function openRecording(file) {
  const bytes = new Uint8Array(file);
  const start = 8 + Number(new DataView(bytes.buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, start)));
  const { head, pieces } = JSON.parse(header.__metadata__.slipstream);
  const ends = [start];
  for (let i = 0; i < pieces.length; i += PIECE) ends.push(ends.at(-1) + parseInt(pieces.slice(i + 2, i + 14), 16));
  const arrays = {};
  for (const [name, spec] of Object.entries(head.data))
    arrays[name] = readArray(await inflate(bytes.subarray(ends[spec.piece], ends[spec.piece + 1])), spec);
  return {
    scene: head.scene,
    title: head.title,
    meta: head.meta,
    events: head.events,
    groups: head.groups,
    times: arrays["clock:"].values,
    arrays,
  };
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function readArray(planes, spec) {
  const Type = TYPES[spec.dtype],
    width = Type.BYTES_PER_ELEMENT;
  const count = spec.shape.reduce((a, b) => a * b, 1);
  const mixed = new Uint8Array(count * width);
  for (let b = 0; b < width; b++) for (let i = 0, p = b * count; i < count; i++) mixed[i * width + b] = planes[p + i];
  let values = new Type(mixed.buffer);
  const row = spec.shape.length > 1 ? count / (spec.shape[0] || 1) : 1;
  // wraps as it was written
  if (spec.dtype.includes("i")) for (let i = row; i < count; i++) values[i] += values[i - row];
  if (spec.step) {
    const nothing = spec.dtype === "<i2" ? -32768 : -2147483648;
    const out = new Float32Array(count);
    for (let i = 0; i < count; i++) out[i] = values[i] === nothing ? NaN : values[i] * spec.step + spec.offset;
    values = out;
  }
  return { values, shape: spec.shape, row };
}

// The row before time t, and the share of the way to the next one.
export function place(times, t) {
  let low = 0,
    high = times.length - 1;
  if (high <= 0 || t <= times[0]) return [0, 0];
  if (t >= times[high]) return [high, 0];
  while (high - low > 1) {
    const mid = (low + high) >> 1;
    if (times[mid] <= t) low = mid;
    else high = mid;
  }
  return [low, (t - times[low]) / (times[low + 1] - times[low] || 1)];
}
