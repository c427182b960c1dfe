// Runs a policy that `slipstream export` wrote: reads the ONNX file and computes its nodes in order, for a batch.
// A value is { dims, data }: row-major, Float32Array or an array of integers.

// -- reading: a file of protocol buffers, each message a list of numbered fields
function fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    found = {};
  let at = 0;
  const varint = () => {
    let low = 0n,
      shift = 0n;
    for (;;) {
      if (at >= bytes.length) throw new Error("the policy's file is cut short");
      const byte = bytes[at++];
      low |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, low));
      shift += 7n;
    }
  };
  while (at < bytes.length) {
    const key = varint(),
      kind = key & 7;
    let value;
    if (kind === 0) value = varint();
    else if (kind === 5) {
      value = view.getFloat32(at, true);
      at += 4;
    } else if (kind === 1) {
      value = view.getFloat64(at, true);
      at += 8;
    } else if (kind === 2) {
      const length = varint();
      if (length < 0 || at + length > bytes.length) throw new Error("the policy's file is cut short");
      value = bytes.subarray(at, at + length);
      at += length;
    } else throw new Error("this is no ONNX file");
    (found[key >> 3] ??= []).push(value);
  }
  return found;
}
const text = (bytes) => new TextDecoder().decode(bytes ?? new Uint8Array());

// Repeated integers: one by one, or packed in one piece of bytes.
function integers(values = []) {
  return values.flatMap((value) => {
    if (typeof value === "number") return [value];
    const out = [];
    for (let at = 0; at < value.length; ) {
      let x = 0n,
        shift = 0n,
        byte;
      do {
        byte = value[at++];
        x |= BigInt(byte & 127) << shift;
        shift += 7n;
      } while (byte >= 128 && at < value.length);
      out.push(Number(BigInt.asIntN(64, x)));
    }
    return out;
  });
}

const FLOAT = 1,
  INT32 = 6,
  INT64 = 7,
  BOOL = 9;
function tensor(bytes) {
  const f = fields(bytes),
    dims = integers(f[1]),
    type = f[2]?.[0],
    raw = f[9]?.[0];
  let data;
  if (type === FLOAT) {
    const packed = raw ?? f[4]?.[0];
    if (packed instanceof Uint8Array) data = new Float32Array(packed.slice().buffer);
    else data = new Float32Array(f[4] ?? []);
  } else if (type === INT64) data = raw ? Array.from(new BigInt64Array(raw.slice().buffer), Number) : integers(f[7]);
  else if (type === INT32) data = raw ? Array.from(new Int32Array(raw.slice().buffer)) : integers(f[5]);
  else if (type === BOOL) data = raw ? Array.from(raw) : integers(f[5]);
  else throw new Error(`the policy holds numbers of a type that this page does not know (${type})`);
  return { name: text(f[8]?.[0]), value: { dims, data } };
}

function attribute(bytes) {
  const f = fields(bytes);
  const value = f[8] ? integers(f[8]) : f[5] ? tensor(f[5][0]).value : (f[3]?.[0] ?? f[2]?.[0] ?? text(f[4]?.[0]));
  return [text(f[1]?.[0]), value];
}

export class Policy {
  constructor(bytes) {
    const model = fields(bytes),
      graph = fields(model[7]?.[0] ?? new Uint8Array());
    this.about = Object.fromEntries(
      (model[14] ?? []).map((p) => {
        const f = fields(p);
        return [text(f[1]?.[0]), text(f[2]?.[0])];
      }),
    );
    this.constants = Object.fromEntries((graph[5] ?? []).map(tensor).map(({ name, value }) => [name, value]));
    this.nodes = (graph[1] ?? []).map((bytes) => {
      const f = fields(bytes),
        kind = text(f[4]?.[0]);
      const attributes = Object.fromEntries((f[5] ?? []).map(attribute));
      if (!(kind in OPERATIONS)) throw new Error(`the policy uses the operation ${kind}, which this page cannot run`);
      return { kind, inputs: (f[1] ?? []).map(text), outputs: (f[2] ?? []).map(text), attributes };
    });
    this.outputs = (graph[12] ?? []).map((value) => text(fields(value)[1][0]));
  }

  // {name: {dims, data}} of the inputs to the same of the outputs
  run(inputs) {
    const values = { ...this.constants, ...inputs };
    for (const { kind, inputs, outputs, attributes } of this.nodes) {
      const got = OPERATIONS[kind](
        inputs.map((name) => values[name]),
        attributes,
        outputs.length,
      );
      (Array.isArray(got) ? got : [got]).forEach((value, i) => (values[outputs[i]] = value));
    }
    return Object.fromEntries(this.outputs.map((name) => [name, values[name]]));
  }
}

// -- computing
const size = (dims) => dims.reduce((a, b) => a * b, 1);
const each =
  (f) =>
  ([x], attributes) => {
    const data = new Float32Array(x.data.length);
    for (let i = 0; i < data.length; i++) data[i] = f(x.data[i], attributes);
    return { dims: x.dims, data };
  };

// Operations on several values of shapes that broadcast.
const together = (f) => (values) => {
  const rank = Math.max(...values.map((v) => v.dims.length)),
    padded = values.map((v) => [...Array(rank - v.dims.length).fill(1), ...v.dims]),
    dims = padded[0].map((_, k) => (padded.some((d) => d[k] === 0) ? 0 : Math.max(...padded.map((d) => d[k])))),
    data = new Float32Array(size(dims));
  const strides = padded.map((d) => d.map((n, k) => (n === 1 ? 0 : size(d.slice(k + 1)))));
  const place = Array(rank).fill(0),
    arguments_ = Array(values.length);
  for (let i = 0; i < data.length; i++) {
    for (let v = 0; v < values.length; v++) {
      let at = 0;
      for (let k = 0; k < rank; k++) at += place[k] * strides[v][k];
      arguments_[v] = values[v].data[at];
    }
    data[i] = f(...arguments_);
    for (let k = rank - 1; k >= 0 && ++place[k] === dims[k]; k--) place[k] = 0;
  }
  return { dims, data };
};

function gemm([a, b, c], { transA = 0, transB = 0, alpha = 1, beta = 1 }) {
  const [rows, inner] = transA ? [a.dims[1], a.dims[0]] : a.dims,
    columns = transB ? b.dims[0] : b.dims[1],
    data = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) {
      let sum = 0;
      for (let k = 0; k < inner; k++)
        sum += a.data[transA ? k * rows + i : i * inner + k] * b.data[transB ? j * inner + k : k * columns + j];
      const more = c ? c.data[c.data.length === 1 ? 0 : c.dims.length > 1 && c.dims[0] > 1 ? i * columns + j : j] : 0;
      data[i * columns + j] = alpha * sum + beta * more;
    }
  return { dims: [rows, columns], data };
}

function matmul([a, b]) {
  const rows = a.dims.slice(0, -1);
  const { data } = gemm([{ dims: [size(rows), a.dims.at(-1)], data: a.data }, b], {});
  return { dims: [...rows, b.dims.at(-1)], data };
}

function conv([x, w, bias], { pads = [0, 0, 0, 0], strides = [1, 1], dilations = [1, 1], group = 1 }) {
  const [n, channels, high, wide] = x.dims,
    [filters, inner, kh, kw] = w.dims,
    oh = Math.floor((high + pads[0] + pads[2] - dilations[0] * (kh - 1) - 1) / strides[0]) + 1,
    ow = Math.floor((wide + pads[1] + pads[3] - dilations[1] * (kw - 1) - 1) / strides[1]) + 1,
    data = new Float32Array(n * filters * oh * ow);
  let at = 0;
  for (let b = 0; b < n; b++)
    for (let f = 0; f < filters; f++) {
      const first = Math.floor((f * group) / filters) * inner;
      for (let i = 0; i < oh; i++)
        for (let j = 0; j < ow; j++) {
          let sum = bias ? bias.data[f] : 0;
          for (let c = 0; c < inner; c++)
            for (let p = 0; p < kh; p++) {
              const y = i * strides[0] + p * dilations[0] - pads[0];
              if (y < 0 || y >= high) continue;
              const row = ((b * channels + first + c) * high + y) * wide,
                weights = ((f * inner + c) * kh + p) * kw;
              for (let q = 0; q < kw; q++) {
                const z = j * strides[1] + q * dilations[1] - pads[1];
                if (z >= 0 && z < wide) sum += x.data[row + z] * w.data[weights + q];
              }
            }
          data[at++] = sum;
        }
    }
  return { dims: [n, filters, oh, ow], data };
}

function layerNormalization([x, scale, bias], { epsilon = 1e-5, axis = -1 }) {
  const width = size(x.dims.slice(axis < 0 ? x.dims.length + axis : axis)),
    data = new Float32Array(x.data.length);
  for (let row = 0; row < data.length; row += width) {
    let mean = 0,
      square = 0;
    for (let i = 0; i < width; i++) mean += x.data[row + i] / width;
    for (let i = 0; i < width; i++) square += (x.data[row + i] - mean) ** 2 / width;
    const inverse = 1 / Math.sqrt(square + epsilon);
    for (let i = 0; i < width; i++)
      data[row + i] = (x.data[row + i] - mean) * inverse * scale.data[i] + (bias ? bias.data[i] : 0);
  }
  return { dims: x.dims, data };
}

function reshape([x, shape], { allowzero = 0 }) {
  const dims = shape.data.map((n, i) => (n === 0 && !allowzero ? x.dims[i] : n)),
    rest = dims.indexOf(-1);
  if (rest >= 0) dims[rest] = x.data.length / size(dims.filter((n) => n !== -1));
  return { dims, data: x.data };
}

function concat(values, { axis }) {
  const k = axis < 0 ? values[0].dims.length + axis : axis,
    outer = size(values[0].dims.slice(0, k)),
    widths = values.map((v) => size(v.dims.slice(k))),
    data = new Float32Array(outer * widths.reduce((a, b) => a + b, 0));
  let at = 0;
  for (let row = 0; row < outer; row++)
    values.forEach((v, i) => {
      for (let j = 0; j < widths[i]; j++) data[at++] = v.data[row * widths[i] + j];
    });
  const dims = [...values[0].dims];
  dims[k] = values.reduce((sum, v) => sum + v.dims[k], 0);
  return { dims, data };
}

// Part of one axis, from `begin` to `end`.
function part(x, axis, begin, end) {
  const k = axis < 0 ? x.dims.length + axis : axis,
    n = x.dims[k],
    inner = size(x.dims.slice(k + 1)),
    from = Math.min(Math.max(begin < 0 ? begin + n : begin, 0), n),
    to = Math.min(Math.max(end < 0 ? end + n : end, from), n),
    outer = size(x.dims.slice(0, k)),
    data = new Float32Array(outer * (to - from) * inner);
  for (let row = 0; row < outer; row++)
    for (let i = 0; i < (to - from) * inner; i++)
      data[row * (to - from) * inner + i] = x.data[(row * n + from) * inner + i];
  return { dims: x.dims.map((d, i) => (i === k ? to - from : d)), data };
}

function slice([x, starts, ends, axes, steps]) {
  if (steps?.data.some((step) => step !== 1))
    throw new Error("the policy slices with steps, which this page cannot run");
  return starts.data.reduce((y, start, i) => part(y, axes ? axes.data[i] : i, start, ends.data[i]), x);
}

function split([x, sizes], { axis = 0, num_outputs: count }, outputs) {
  const n = x.dims[axis < 0 ? x.dims.length + axis : axis],
    equal = Math.ceil(n / (count ?? outputs));
  let at = 0;
  return Array.from({ length: outputs }, (_, i) => {
    const width = sizes ? sizes.data[i] : Math.min(equal, n - at);
    at += width;
    return part(x, axis, at - width, at);
  });
}

function argMax([x], { axis = 0, keepdims = 1 }) {
  const k = axis < 0 ? x.dims.length + axis : axis,
    n = x.dims[k],
    inner = size(x.dims.slice(k + 1)),
    data = [];
  for (let row = 0; row < size(x.dims.slice(0, k)); row++)
    for (let j = 0; j < inner; j++) {
      let best = 0;
      for (let i = 1; i < n; i++)
        if (x.data[(row * n + i) * inner + j] > x.data[(row * n + best) * inner + j]) best = i;
      data.push(best);
    }
  return { dims: keepdims ? x.dims.map((d, i) => (i === k ? 1 : d)) : x.dims.filter((_, i) => i !== k), data };
}

const flat = ([x], { axis = 1 }) => ({
  dims: [size(x.dims.slice(0, axis)), size(x.dims.slice(axis))],
  data: x.data,
});

const OPERATIONS = {
  Add: together((a, b) => a + b),
  ArgMax: argMax,
  Cast: ([x]) => x,
  Clip: together((x, low = -Infinity, high = Infinity) => Math.min(Math.max(x, low), high)),
  Concat: concat,
  Conv: conv,
  Div: together((a, b) => a / b),
  Elu: each((x, { alpha = 1 }) => (x > 0 ? x : alpha * Math.expm1(x))),
  Exp: each(Math.exp),
  Flatten: flat,
  Gemm: gemm,
  Greater: together((a, b) => +(a > b)),
  Identity: ([x]) => x,
  LayerNormalization: layerNormalization,
  LeakyRelu: each((x, { alpha = 0.01 }) => (x > 0 ? x : alpha * x)),
  Less: together((a, b) => +(a < b)),
  MatMul: matmul,
  Max: together(Math.max),
  Min: together(Math.min),
  Mul: together((a, b) => a * b),
  Neg: each((x) => -x),
  Relu: each((x) => Math.max(x, 0)),
  Reshape: reshape,
  Sigmoid: each((x) => 1 / (1 + Math.exp(-x))),
  Slice: slice,
  Softplus: each((x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))),
  Split: split,
  Sqrt: each(Math.sqrt),
  Sub: together((a, b) => a - b),
  Tanh: each(Math.tanh),
  Where: together((c, a, b) => (c ? a : b)),
};
