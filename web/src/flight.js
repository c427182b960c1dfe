// Flights over an obstacle field: up to a thousand drones, their trails, moving obstacles, LiDAR of the chosen drone.
import {
  BoxGeometry,
  BufferAttribute,
  BufferGeometry,
  Color,
  CylinderGeometry,
  InstancedMesh,
  LineSegments,
  MeshLambertMaterial,
  Mesh,
  PlaneGeometry,
  Points,
  ShaderMaterial,
  Vector3,
} from "three";
import { place } from "./data.js";
import { Lines, Stage, geometryOf } from "./stage.js";
import { Timeline } from "./timeline.js";
import { button, choice, el, keyboardHelp, percent, theme, titled, toggle, typing } from "./ui.js";
import { smallPlot } from "./plots.js";

// another drone that is nearer to the first-person camera would fill the picture: drones fly through one another
const NEAR_M = 1.5;
const OUTCOMES = [
  ["timeout", "timed out", "■"],
  ["success", "goal reached", "●"],
  ["collision", "collided", "✕"],
];
const VIEWS = [
  ["orbit", "Orbit", "Turn around the field (1)"],
  ["follow", "Follow", "Fly behind the chosen drone (2)"],
  ["top", "Top", "From above (3)"],
  ["first", "First person", "From the chosen drone (4)"],
];

export class FlightView {
  constructor(host, recording, { controls = [], live = false, run = "" } = {}) {
    this.recording = recording;
    this.live = live;
    const { arrays, meta, times } = recording;
    this.times = times;
    this.half = meta.map_half_m ?? 20;
    this.position = filled(arrays["drone.position"]);
    this.count = this.position.count;
    this.dronesAt = new Float32Array(3 * this.count);
    this.outcome = arrays["drone.outcome"].values;
    this.movers = arrays["mover.position"] ?? null;
    this.group = arrays["drone.group"]?.values ?? null; // drones of one group meet one another
    this.oneGroup = !!this.group;
    this.chosen = this._interesting();
    this.shown = [true, true, true];
    this.trail = 6;
    this.beams = true;
    this.view = "orbit";
    this.stageHost = el("div", { class: "stage" });
    this.panel = el("aside", { class: "panel", "aria-label": "details" });
    this.element = el("div", { class: "viewer" });
    this.timeline = new Timeline(times, recording.events, {
      onTime: () => {
        this.moved = true;
      },
      kinds: { jump: "collision", jumpTo: ["collision"], colors: { collision: "collision", goal: "success" } },
    });
    this.timeline.onJump = (event) => {
      const k = +event.body.split(" ")[1] - 1;
      if (k >= 0 && k < this.count) this.choose(k);
    };
    this.views = choice("camera", VIEWS, "orbit", (v) => this.setView(v));
    const bar = el(
      "div",
      { class: "stagebar" },
      el(
        "div",
        { class: "title" },
        el("h1", { text: titled(run, recording.title) }),
        el("p", { text: meta.summary || "" }),
      ),
      ...controls,
      this.views,
      button("", () => this.help(), { iconName: "help", title: "Keys (?)" }),
    );
    this.element.append(el("div", { class: "main" }, bar, this.stageHost, this.timeline.element), this.panel);
    host.append(this.element);
    this.stage = new Stage(this.stageHost, { label: "flights in 3-D; drag to turn, scroll to zoom", far: 600 });
    this._home();
    this._build();
    if (!live) this._panel();
    this.stage.onClick = (x, y) => this._pick(x, y);
    this.stage.onTurn = () => {
      if (this.view === "top" && this.stage.polar > 0.15) this.setView("orbit", true);
    };
    this._unsubscribe = theme.onChange(() => {
      this._paint();
      this.moved = true;
    });
    this.moved = true;
  }

  _sameGroup(k) {
    return !!this.group && this.group[k] === this.group[this.chosen];
  }
  _visible(k) {
    return this.shown[this.outcome[k]] && (!this.oneGroup || this._sameGroup(k));
  }
  // Hides the trails and marks of other groups.
  _regroup() {
    if (!this.group) return;
    const n = this.count,
      hidden = (k) => this.oneGroup && !this._sameGroup(k),
      trail = this.trails.geometry.attributes.kind,
      mark = this.marks.geometry.attributes.kind;
    for (let i = 0; i < trail.count; i++) {
      const k = (i >> 1) % n;
      trail.array[i] = hidden(k) ? 3 : this.outcome[k];
    }
    for (let k = 0; k < n; k++) {
      mark.array[k] = hidden(k) ? 4 : 3;
      mark.array[n + k] = hidden(k) ? 4 : this.outcome[k];
    }
    trail.needsUpdate = mark.needsUpdate = true;
  }

  _interesting() {
    const k = this.outcome.indexOf(1);
    return k >= 0 ? k : 0;
  }
  _home() {
    const wide = Math.min(this.stage.width / this.stage.height || 1, 1.5);
    Object.assign(this.stage, { distance: (this.half * 3.6) / wide, azimuth: 0.5, polar: 0.8, free: true });
    this.stage.target.set(0, 0, 0.06 * this.half);
  }

  _build() {
    const { arrays } = this.recording,
      scene = this.stage.scene;
    this.ground = new Mesh(
      new PlaneGeometry(2 * this.half, 2 * this.half).rotateX(-Math.PI / 2),
      new MeshLambertMaterial(),
    );
    this.ground.position.y = -0.02;
    this.grid = new LineSegments(gridGeometry(this.half + 5, 5), lineMaterial());
    scene.add(this.ground, this.grid);

    const box = arrays["box"],
      boxes = box.shape[0];
    this.boxes = new InstancedMesh(new BoxGeometry(1, 1, 1), new MeshLambertMaterial(), Math.max(boxes, 1));
    this.boxes.count = boxes;
    this.heights = [];
    for (let i = 0; i < boxes; i++) {
      const [x, y, hx, hy, top, low] = boxAt(box, i);
      this.boxes.instanceMatrix.array.set(
        [2 * hx, 0, 0, 0, 0, top - low, 0, 0, 0, 0, 2 * hy, 0, x, (top + low) / 2, -y, 1],
        16 * i,
      );
      this.heights.push(top);
    }
    this.boxes.frustumCulled = false;
    scene.add(this.boxes);

    if (this.movers) {
      const k = this.movers.shape[1];
      this.moverMesh = new InstancedMesh(
        new CylinderGeometry(0.5, 0.5, 1, 14),
        new MeshLambertMaterial({ transparent: true, opacity: 0.88 }),
        k,
      );
      this.moverMesh.frustumCulled = false;
      scene.add(this.moverMesh);
    }
    this.drones = new InstancedMesh(droneGeometry(), new MeshLambertMaterial(), this.count);
    this.drones.frustumCulled = false;
    scene.add(this.drones);
    if (!this.live) this.cause = this._cause(this.chosen);
    this._buildTrails();
    this._buildMarks();
    this._regroup();
    this.lines = new Lines(this.stage, 1400);
    this._paint();
  }

  // Segments in order of time, so that a draw range is a window of time.
  _buildTrails() {
    const rows = this.times.length,
      n = this.count,
      p = this.position.values;
    const points = new Float32Array(Math.max(rows - 1, 0) * n * 6),
      kind = new Uint8Array(points.length / 3),
      row = new Float32Array(points.length / 3);
    let at = 0;
    for (let t = 0; t + 1 < rows; t++)
      for (let k = 0; k < n; k++) {
        const a = 3 * (t * n + k),
          b = a + 3 * n;
        points.set([p[a], p[a + 2], -p[a + 1], p[b], p[b + 2], -p[b + 1]], 3 * at);
        kind[at] = kind[at + 1] = this.outcome[k];
        row[at] = t;
        row[at + 1] = t + 1;
        at += 2;
      }
    const g = new BufferGeometry();
    g.setAttribute("position", new BufferAttribute(points, 3));
    g.setAttribute("kind", new BufferAttribute(kind, 1));
    g.setAttribute("row", new BufferAttribute(row, 1));
    this.trailMaterial = new ShaderMaterial({
      transparent: true,
      depthWrite: false,
      uniforms: {
        colors: { value: [new Color(), new Color(), new Color()] },
        shown: { value: new Vector3(1, 1, 1) },
        now: { value: 0 },
        span: { value: 1 },
        alpha: { value: 0.8 },
      },
      vertexShader: `attribute float kind, row; uniform vec3 colors[3]; uniform vec3 shown; uniform float now, span, alpha; varying vec4 c;
        void main() { int k = int(kind + .5); float s = k == 0 ? shown.x : k == 1 ? shown.y : k == 2 ? shown.z : 0.;
          c = vec4(k == 0 ? colors[0] : k == 1 ? colors[1] : colors[2], alpha * clamp(1. - (now - row) / span, 0.04, 1.));
          gl_Position = s > .5 ? projectionMatrix * modelViewMatrix * vec4(position, 1.) : vec4(2., 2., 2., 1.); }`,
      fragmentShader: "varying vec4 c; void main() { gl_FragColor = c;\n#include <colorspace_fragment>\n}",
    });
    this.trails = new LineSegments(g, this.trailMaterial);
    this.trails.frustumCulled = false;
    this.stage.scene.add(this.trails);
  }

  // Goals, and marks where flights ended: a cross for a collision, a square for a timeout.
  _buildMarks() {
    const { arrays } = this.recording,
      n = this.count,
      goal = arrays["drone.goal"].values,
      p = this.position.values,
      last = this.times.length - 1;
    const points = new Float32Array(6 * n),
      kind = new Float32Array(2 * n),
      from = new Float32Array(2 * n);
    for (let k = 0; k < n; k++) {
      points.set([goal[3 * k], goal[3 * k + 2], -goal[3 * k + 1]], 3 * k);
      kind[k] = 3;
      from[k] = -1;
      const e = 3 * (last * n + k);
      points.set([p[e], p[e + 2], -p[e + 1]], 3 * (n + k));
      kind[n + k] = this.outcome[k];
      from[n + k] = this.position.ends[k];
    }
    const g = new BufferGeometry();
    g.setAttribute("position", new BufferAttribute(points, 3));
    g.setAttribute("kind", new BufferAttribute(kind, 1));
    g.setAttribute("start", new BufferAttribute(from, 1));
    this.markMaterial = new ShaderMaterial({
      transparent: true,
      depthWrite: false,
      uniforms: {
        colors: { value: [0, 1, 2, 3].map(() => new Color()) },
        now: { value: 0 },
        scale: { value: 1 },
        shown: { value: new Vector3(1, 1, 1) },
      },
      vertexShader: `attribute float kind, start; uniform float now, scale; uniform vec3 shown; uniform vec3 colors[4]; varying vec3 c; varying float k;
        void main() { k = kind; int i = int(kind + .5); c = i == 0 ? colors[0] : i == 1 ? colors[1] : i == 2 ? colors[2] : colors[3];
          float s = i == 0 ? shown.x : i == 1 ? shown.y : i == 2 ? shown.z : i == 3 ? 1. : 0.;
          gl_Position = now >= start && s > .5 && i != 1 ? projectionMatrix * modelViewMatrix * vec4(position, 1.) : vec4(2., 2., 2., 1.);
          gl_PointSize = scale * (i == 3 ? 7. : 13.); }`,
      fragmentShader: `varying vec3 c; varying float k; void main() { vec2 p = gl_PointCoord * 2. - 1.; float a = 1.;
          if (k > 2.5) { float r = length(p); a = r < 1. && r > .62 ? .6 : 0.; }
          else if (k > 1.5) a = abs(abs(p.x) - abs(p.y)) < .28 ? 1. : 0.;
          else a = max(abs(p.x), abs(p.y)) < .62 ? 1. : 0.;
          if (a < .01) discard; gl_FragColor = vec4(c, a);\n#include <colorspace_fragment>\n}`,
    });
    this.marks = new Points(g, this.markMaterial);
    this.marks.frustumCulled = false;
    this.stage.scene.add(this.marks);
  }

  _paint() {
    const c = theme.colors,
      tint = new Color(),
      low = new Color(c.low),
      high = new Color(c.high);
    const most = Math.max(...this.heights, 1),
      least = Math.min(...this.heights, most);
    this.heights.forEach((h, i) =>
      this.boxes.setColorAt(
        i,
        this.cause?.box === i ? tint.set(c.collision) : tint.copy(low).lerp(high, (h - least) / (most - least || 1)),
      ),
    );
    if (this.boxes.instanceColor) this.boxes.instanceColor.needsUpdate = true;
    this.ground.material.color.set(c.field);
    this.grid.material.uniforms.color.value.set(c.grid);
    if (this.moverMesh) this.moverMesh.material.color.set(c.mover);
    const order = [c.timeout, c.success, c.collision];
    order.forEach((color, i) => {
      this.trailMaterial.uniforms.colors.value[i].set(color);
      this.markMaterial.uniforms.colors.value[i].set(color);
    });
    this.markMaterial.uniforms.colors.value[3].set(c.ink);
    for (let k = 0; k < this.count; k++)
      this.drones.setColorAt(
        k,
        tint.set(this.live ? (k ? c.threat : c.own) : k === this.chosen ? c.ink : order[this.outcome[k]]),
      );
    this.drones.instanceColor.needsUpdate = true;
  }

  choose(k) {
    this.chosen = k;
    this.cause = this._cause(k);
    this._regroup();
    this._paint();
    this._describe();
    this.picker.value = k + 1;
    this.moved = true;
  }
  step(by) {
    for (let i = 1; i <= this.count; i++) {
      const k = (this.chosen + by * i + this.count * i) % this.count;
      if (this.shown[this.outcome[k]]) return this.choose(k);
    }
  }
  setView(view, keep = false) {
    const s = this.stage;
    this.view = view;
    this.views.set(view);
    s.free = view !== "first";
    if (view === "orbit" && !keep) this._home();
    if (view === "top")
      (Object.assign(s, {
        distance: (this.half * 2.75) / Math.min(s.width / s.height || 1, 1),
        polar: 0.01,
        azimuth: 0,
      }),
        s.target.set(0, 0, 0));
    if (view === "follow") Object.assign(s, { distance: 5, polar: 1.1, azimuth: this._heading() });
    this.moved = true;
  }
  _ahead() {
    const yaw = this.recording.arrays["drone.yaw"].values[this.chosen];
    return Math.atan2(-Math.cos(yaw), Math.sin(yaw));
  } // along the goal frame, in which a person steers
  _heading() {
    const v = this._velocity(this.chosen);
    return Math.atan2(-v[0], v[1]);
  }

  _velocity(k) {
    const n = this.count,
      p = this.position.values,
      [row] = place(this.times, this.timeline.time);
    const a = Math.max(row - 1, 0),
      b = Math.min(row + 1, this.times.length - 1),
      dt = this.times[b] - this.times[a] || 1;
    return [0, 1, 2].map((c) => (p[3 * (b * n + k) + c] - p[3 * (a * n + k) + c]) / dt);
  }

  update() {
    const n = this.count,
      p = this.position.values,
      [row, part] = place(this.times, this.timeline.time),
      next = Math.min(row + 1, this.times.length - 1);
    const m = this.drones.instanceMatrix.array,
      near = this.view === "follow" || this.view === "first",
      size = near ? 1 : this.count > 300 ? 1.4 : 2;
    for (let k = 0; k < n; k++) {
      const a = 3 * (row * n + k),
        b = 3 * (next * n + k);
      const vx = p[b] - p[a],
        vy = p[b + 1] - p[a + 1],
        x = p[a] + vx * part,
        y = p[a + 1] + vy * part,
        z = p[a + 2] + (p[b + 2] - p[a + 2]) * part;
      const l = Math.hypot(vx, vy) || 1,
        c = vx / l,
        s = vy / l,
        scale = this._visible(k) ? size : 0;
      m.set([c * scale, 0, -s * scale, 0, 0, scale, 0, 0, s * scale, 0, c * scale, 0, x, z, -y, 1], 16 * k);
      if (k === this.chosen) this.at = [x, y, z];
      this.dronesAt.set([x, y, z], 3 * k);
    }
    if (this.view === "first")
      for (let k = 0; k < n; k++) {
        const [x, y, z] = this.at,
          i = 16 * k;
        if (k !== this.chosen && this._sameGroup(k)) continue;
        if (Math.hypot(m[i + 12] - x, m[i + 14] + y, m[i + 13] - z) < NEAR_M) m.fill(0, i, i + 11);
      }
    this.drones.instanceMatrix.needsUpdate = true;
    if (this.movers) this._moveObstacles(row, next, part);
    const span = Math.max(1, this.trail / (this.times[1] - this.times[0] || 1)),
      first = this.trail ? Math.max(0, Math.floor(row - span)) : 0;
    this.trails.visible = !this.live;
    this.trails.geometry.setDrawRange(first * n * 2, Math.max(0, row - first) * n * 2);
    Object.assign(this.trailMaterial.uniforms.now, { value: row + part });
    this.trailMaterial.uniforms.span.value = this.trail ? span : 1e9;
    this.trailMaterial.uniforms.alpha.value = n > 300 ? 0.5 : 0.85;
    this.markMaterial.uniforms.now.value = this.live ? -0.5 : row + part; // live: goals alone
    this.markMaterial.uniforms.scale.value = this.stage.ratio;
    this._camera();
    this.scanned = this.scan(...this.at, row);
    this._chosenLines(row);
    const now = performance.now();
    if (!this.live && (!this.timeline.playing || now - (this._told ?? 0) > 120)) {
      this._told = now;
      this._describe(row);
    }
  }

  _moveObstacles(row, next, part) {
    const k = this.movers.shape[1],
      v = this.movers.values,
      size = this.recording.arrays["mover.size"].values,
      m = this.moverMesh.instanceMatrix.array;
    this.moverAt ??= new Float32Array(3 * k);
    for (let i = 0; i < k; i++) {
      const a = 3 * (row * k + i),
        b = 3 * (next * k + i),
        w = size[2 * i],
        h = size[2 * i + 1];
      const x = v[a] + (v[b] - v[a]) * part,
        y = v[a + 1] + (v[b + 1] - v[a + 1]) * part,
        z = v[a + 2] + (v[b + 2] - v[a + 2]) * part;
      m.set([w, 0, 0, 0, 0, h, 0, 0, 0, 0, w, 0, x, z, -y, 1], 16 * i);
      this.moverAt.set([x, y, z], 3 * i);
    }
    this.moverMesh.instanceMatrix.needsUpdate = true;
  }

  _camera() {
    const s = this.stage,
      [x, y, z] = this.at;
    if (this.view === "follow") {
      const ease = this.timeline.playing ? 0.35 : 1;
      if (this.live)
        s.azimuth += 0.1 * Math.atan2(Math.sin(this._ahead() - s.azimuth), Math.cos(this._ahead() - s.azimuth));
      s.target.x += (x - s.target.x) * ease;
      s.target.y += (z - s.target.y) * ease;
      s.target.z += (-y - s.target.z) * ease;
      if (this.timeline.playing)
        s.azimuth += 0.06 * Math.atan2(Math.sin(this._heading() - s.azimuth), Math.cos(this._heading() - s.azimuth));
    }
    if (this.view === "first") {
      const v = this._velocity(this.chosen),
        yaw =
          !this.live && Math.hypot(v[0], v[1]) > 0.05
            ? Math.atan2(v[1], v[0])
            : this.recording.arrays["drone.yaw"].values[this.chosen];
      this.yaw =
        this.yaw === undefined ? yaw : this.yaw + 0.2 * Math.atan2(Math.sin(yaw - this.yaw), Math.cos(yaw - this.yaw));
      s.camera.up.set(0, 1, 0);
      s.camera.position.set(x, z + 0.08, -y);
      s.camera.lookAt(x + Math.cos(this.yaw), z + 0.02, -(y + Math.sin(this.yaw)));
    }
  }

  _chosenLines(row) {
    const c = theme.colors,
      n = this.count,
      p = this.position.values,
      k = this.chosen,
      lines = this.lines,
      [x, y, z] = this.at,
      near = this.view === "follow";
    lines.clear();
    const color = [c.timeout, c.success, c.collision][this.outcome[k]],
      from = Math.max(0, row - 500);
    for (let t = from; t < row; t++) {
      const a = 3 * (t * n + k),
        b = a + 3 * n;
      lines.add(p[a], p[a + 2], -p[a + 1], p[b], p[b + 2], -p[b + 1], color, 0.95, 2.2);
    }
    if (row < this.position.ends[k]) {
      const a = 3 * (row * n + k);
      lines.add(p[a], p[a + 2], -p[a + 1], x, z, -y, color, 0.95, 2.2);
    }
    (this.traces ?? []).forEach((points, i) => {
      for (let q = Math.max(0, points.length - 1200); q + 5 < points.length; q += 3)
        lines.add(
          points[q],
          points[q + 2],
          -points[q + 1],
          points[q + 3],
          points[q + 5],
          -points[q + 4],
          i ? c.threat : c.own,
          0.9,
          2,
        );
    });
    const goal = this.recording.arrays["drone.goal"].values.subarray(3 * k, 3 * k + 3);
    lines.add(x, z, -y, goal[0], goal[2], -goal[1], c.ink, 0.3, 1, 8);
    if (this.live)
      for (let i = 0; i < 24; i++) {
        const r = this.recording.meta.goal_radius_m ?? 0.5,
          a = (i * Math.PI) / 12,
          b = a + Math.PI / 12;
        lines.add(
          goal[0] + r * Math.cos(a),
          goal[2] + r * Math.sin(a),
          -goal[1],
          goal[0] + r * Math.cos(b),
          goal[2] + r * Math.sin(b),
          -goal[1],
          c.success,
          1,
          3,
        );
      }
    if (this.beams) {
      const far = this.range;
      for (const [dx, dy, dz, d] of this.scanned)
        lines.add(
          x,
          z,
          -y,
          x + dx * d,
          z + dz * d,
          -(y + dy * d),
          d < 1 ? c.collision : c.beam,
          d < far ? 0.65 : 0.1,
          d < far ? 1.3 : 0.8,
        );
    }
    if (this.view !== "first") {
      const r = near ? 0.36 : 0.6;
      for (let i = 0; i < 24; i++) {
        const a = (i * Math.PI) / 12,
          b = a + Math.PI / 12;
        lines.add(
          x + r * Math.cos(a),
          z,
          -y + r * Math.sin(a),
          x + r * Math.cos(b),
          z,
          -y + r * Math.sin(b),
          c.ink,
          0.9,
          1.6,
        );
      }
    }
    lines.finish();
  }

  // The LiDAR of the chosen drone, cast against the recorded world: [direction x, y, z, distance] of each beam.
  scan(x, y, z, row) {
    const { meta, arrays } = this.recording,
      lidar = meta.lidar ?? {},
      far = (this.range = lidar.range_m ?? 4);
    const yaw = arrays["drone.yaw"].values[this.chosen],
      box = arrays["box"],
      near = [];
    for (let i = 0; i < box.shape[0]; i++) {
      const b = boxAt(box, i);
      if (Math.abs(b[0] - x) < far + b[2] && Math.abs(b[1] - y) < far + b[3]) near.push(b);
    }
    const seen = [],
      at = lidar.sees_moving ? (this.moverAt ?? []) : [],
      size = arrays["mover.size"]?.values,
      wide = 2 * (meta.body_radius_m ?? 0.3),
      found = [],
      count = lidar.azimuths ?? 36,
      fov = (Math.PI / 180) * (lidar.fov_deg ?? 360),
      first = fov < 6.283 ? fov * (0.5 / count - 0.5) : 0;
    const see = (place, width, height) => {
      if (Math.hypot(place[0] - x, place[1] - y) < far + 1) seen.push([...place, width, height]);
    };
    for (let i = 0; i < at.length; i += 3) see(at.subarray(i, i + 3), size[(2 * i) / 3], size[(2 * i) / 3 + 1]);
    if (lidar.sees_moving && this.group)
      for (let k = 0; k < this.count; k++)
        if (k !== this.chosen && this._sameGroup(k) && row < this.position.ends[k])
          see(this.dronesAt.subarray(3 * k, 3 * k + 3), wide, wide);
    for (let h = 0; h < count; h++)
      for (const tilt of lidar.elevations_deg ?? [-10, 0, 10, 20]) {
        const a = yaw + first + (fov * h) / count,
          e = (tilt * Math.PI) / 180,
          dx = Math.cos(a) * Math.cos(e),
          dy = Math.sin(a) * Math.cos(e),
          dz = Math.sin(e);
        let d = dz < 0 ? Math.min(far, -z / dz) : far;
        for (const [bx, by, hx, hy, top, low] of near) {
          const t = slab(x - bx, dx, hx, slab(y - by, dy, hy, slab(z - (top + low) / 2, dz, (top - low) / 2, [0, d])));
          if (t && t[0] < d) d = t[0];
        }
        for (const [mx, my, mz, width, height] of seen) {
          // round, as they are drawn
          const across = dx * dx + dy * dy,
            rx = mx - x,
            ry = my - y;
          const along = (rx * dx + ry * dy) / across,
            chord = ((width / 2) ** 2 - rx * rx - ry * ry) / across + along * along;
          if (chord < 0) continue;
          const from = Math.max(along - Math.sqrt(chord), 0),
            to = Math.min(along + Math.sqrt(chord), d);
          const t = from < to && slab(z - mz, dz, height / 2, [from, to]);
          if (t && t[0] < d) d = t[0];
        }
        found.push([dx, dy, dz, d]);
      }
    return found;
  }

  // What a drone that collided has hit: the obstacle whose surface is nearest at its last place, or a limit of height.
  _cause(k) {
    if (this.outcome[k] !== 2) return null;
    const { arrays, meta } = this.recording,
      row = this.position.ends[k],
      [x, y, z] = this.position.values.subarray(3 * (row * this.count + k), 3 * (row * this.count + k) + 3);
    const box = arrays["box"],
      size = arrays["mover.size"]?.values,
      place = (a, b) => `${a.toFixed(1)}, ${b.toFixed(1)}`;
    let best = { distance: Infinity };
    for (let i = 0; i < box.shape[0]; i++) {
      const [bx, by, hx, hy, top, low] = boxAt(box, i);
      const distance = Math.hypot(
        Math.max(Math.abs(x - bx) - hx, 0),
        Math.max(Math.abs(y - by) - hy, 0),
        Math.max(z - top, low - z, 0),
      );
      if (distance < best.distance) best = { distance, box: i, text: `obstacle ${i + 1} at ${place(bx, by)}` };
    }
    for (let i = 0; i < (this.movers?.shape[1] ?? 0); i++) {
      const [mx, my, mz] = this.movers.values.subarray(
        3 * (row * this.movers.shape[1] + i),
        3 * (row * this.movers.shape[1] + i) + 3,
      );
      const distance = Math.hypot(
        Math.max(Math.hypot(x - mx, y - my) - size[2 * i] / 2, 0),
        Math.max(Math.abs(z - mz) - size[2 * i + 1] / 2, 0),
      );
      if (distance < best.distance) best = { distance, text: `moving obstacle ${i + 1} at ${place(mx, my)}` };
    }
    const body = meta.body_radius_m ?? 0.3;
    for (let j = 0; this.group && j < this.count; j++) {
      if (j === k || this.group[j] !== this.group[k] || this.position.ends[j] < row - 1) continue;
      const at = 3 * (row * this.count + j),
        [mx, my, mz] = this.position.values.subarray(at, at + 3),
        distance = Math.hypot(Math.max(Math.hypot(x - mx, y - my) - body, 0), Math.max(Math.abs(z - mz) - body, 0));
      if (distance < best.distance) best = { distance, text: `drone ${j + 1} of its group` };
    }
    const near = body + 0.5; // a row may be a few tenths of a second before the collision
    if (best.distance > near && (z < 0.7 || z > 3.5))
      return { hit: true, text: z < 0.7 ? "the ground" : "the upper limit of height", where: `${z.toFixed(2)} m high` };
    if (best.distance > near && Math.max(Math.abs(x), Math.abs(y)) > this.half)
      return { hit: true, text: "the boundary", where: `at ${place(x, y)}` };
    return best.text ? { ...best, hit: best.distance <= near, where: `${best.distance.toFixed(2)} m away` } : null;
  }

  _panel() {
    const { meta } = this.recording,
      c = theme.colors;
    const counts = [0, 1, 2].map((o) => this.outcome.reduce((s, x) => s + (x === o), 0));
    const filters = [1, 2, 0].map((o) => {
      const [key, name, sign] = OUTCOMES[o];
      const box = toggle("", true, (on) => {
        this.shown[o] = on;
        const s = this.shown.map(Number);
        this.trailMaterial.uniforms.shown.value.set(...s);
        this.markMaterial.uniforms.shown.value.set(...s);
        this.moved = true;
      });
      box.classList.add("filter");
      box.dataset.kind = key;
      box.lastChild.replaceChildren(
        el("b", { text: sign, "aria-hidden": "true" }),
        ` ${name} `,
        el("em", { text: `${counts[o]} (${percent(counts[o], this.count)} %)` }),
      );
      return box;
    });
    this.picker = el("input", {
      type: "number",
      min: 1,
      max: this.count,
      value: this.chosen + 1,
      "aria-label": "chosen drone",
      onchange: () => this.choose(Math.min(Math.max(Math.round(+this.picker.value) || 1, 1), this.count) - 1),
    });
    this.facts = el("dl", { class: "facts" });
    this.radar = el("canvas", { class: "radar", role: "img", "aria-label": "LiDAR of the chosen drone" });
    this.plotHost = el("div", { class: "plots" });
    const trail = el("input", {
      type: "range",
      min: 0,
      max: 31,
      value: 6,
      "aria-label": "length of trails",
      oninput: () => {
        const s = +trail.value;
        this.trail = s > 30 ? 0 : s + 0.001;
        text.textContent = s > 30 ? "all" : `${s} s`;
        this.moved = true;
      },
    });
    const text = el("output", { text: "6 s" });
    this.panel.append(
      el("section", {}, el("h2", { text: `${this.count} ${this.count === 1 ? "drone" : "drones"}` }), ...filters),
      el(
        "section",
        {},
        el(
          "div",
          { class: "row" },
          el("h2", { text: "Drone" }),
          this.picker,
          button("‹", () => this.step(-1), { title: "Previous drone (P)" }),
          button("›", () => this.step(1), { title: "Next drone (N)" }),
        ),
        this.facts,
        this.radar,
        this.plotHost,
      ),
      el(
        "section",
        {},
        el("h2", { text: "Show" }),
        toggle("LiDAR beams", true, (on) => {
          this.beams = on;
          this.moved = true;
        }),
        ...(this.group
          ? [
              toggle("only the group of the drone", true, (on) => {
                this.oneGroup = on;
                this._regroup();
                this.moved = true;
              }),
            ]
          : []),
        el("label", { class: "row" }, el("span", { text: "Trails" }), trail, text),
      ),
      el(
        "details",
        {},
        el("summary", { text: "About this recording" }),
        el("pre", { text: JSON.stringify(meta, null, 1) }),
      ),
    );
    this._describe();
  }

  _describe(row = place(this.times, this.timeline.time)[0]) {
    const k = this.chosen,
      n = this.count,
      { arrays } = this.recording,
      ended = row >= this.position.ends[k];
    if (this._described !== k) {
      this._described = k;
      this.plotHost.replaceChildren();
      const ends = Math.min(this.position.ends[k] + 1, this.times.length),
        times = Array.from(this.times.subarray(0, ends)),
        p = this.position.values;
      const at = (name, width, c) => times.map((_, t) => arrays[name].values[(t * n + k) * width + c]);
      const speed = times.map((_, t) => {
        const a = Math.max(t - 1, 0),
          b = Math.min(t + 1, ends - 1),
          i = 3 * (a * n + k),
          j = 3 * (b * n + k);
        return Math.hypot(p[j] - p[i], p[j + 1] - p[i + 1], p[j + 2] - p[i + 2]) / (this.times[b] - this.times[a] || 1);
      });
      this.cursors = [];
      const plot = (title, series) =>
        this.cursors.push(smallPlot(this.plotHost, title, times, series, (t) => this.timeline.seek(t)));
      plot("speed, m/s", [["speed", speed]]);
      if (arrays["drone.action"])
        plot(
          "action, m/s (goal frame)",
          ["forward", "left", "up"].map((name, c) => [name, at("drone.action", 3, c)]),
        );
      if (arrays["drone.value"]) plot("value", [["value", at("drone.value", 1, 0)]]);
      const terms = this.recording.meta.reward_terms ?? [];
      if (arrays["drone.reward"])
        plot(
          "reward",
          terms.map((name, c) => [name.replaceAll("_", " "), at("drone.reward", terms.length, c)]),
        );
    }
    for (const cursor of this.cursors ?? []) cursor(this.timeline.time);
    if (!this.at) return;
    const [x, y, z] = this.at,
      goal = arrays["drone.goal"].values.subarray(3 * k, 3 * k + 3),
      v = ended ? [0, 0, 0] : this._velocity(k);
    const far = Math.hypot(goal[0] - x, goal[1] - y, goal[2] - z),
      scan = this.scanned ?? this.scan(x, y, z, row),
      nearest = Math.min(...scan.map((b) => b[3]));
    let mover = Infinity;
    if (this.moverAt)
      for (let i = 0; i < this.moverAt.length; i += 3)
        mover = Math.min(mover, Math.hypot(this.moverAt[i] - x, this.moverAt[i + 1] - y));
    const rows = [
      ["outcome", ended || this.outcome[k] === 0 ? OUTCOMES[this.outcome[k]][1] : "flying"],
      ...(ended && this.cause
        ? [
            [this.cause.hit ? "hit" : "nearest", this.cause.text],
            ["", this.cause.where],
          ]
        : []),
      ["position", `${x.toFixed(1)}, ${y.toFixed(1)}, ${z.toFixed(1)} m`],
      ["to goal", `${far.toFixed(1)} m`],
      ["speed", `${Math.hypot(...v).toFixed(2)} m/s`],
      ["nearest beam", `${nearest.toFixed(2)} m`],
      ...(this.group ? [["group", `${this.group[k] + 1} of ${this.group[n - 1] + 1}`]] : []),
      ...(mover < Infinity ? [["nearest mover", `${mover.toFixed(2)} m`]] : []),
    ];
    this.facts.replaceChildren(...rows.flatMap(([a, b]) => [el("dt", { text: a }), el("dd", { text: b })]));
    this._radar(scan);
  }

  _radar(scan) {
    const size = 150,
      ratio = devicePixelRatio || 1,
      c = theme.colors,
      canvas = this.radar;
    // a new canvas is 300 × 150
    if (canvas.width !== size * ratio || canvas.height !== size * ratio) canvas.width = canvas.height = size * ratio;
    const pen = canvas.getContext("2d"),
      mid = size / 2,
      scale = (mid - 6) / this.range,
      yaw = this.recording.arrays["drone.yaw"].values[this.chosen];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, size, size);
    pen.strokeStyle = c.grid;
    for (const r of [0.25, 0.5, 0.75, 1]) {
      pen.beginPath();
      pen.arc(mid, mid, (mid - 6) * r, 0, 7);
      pen.stroke();
    }
    for (const level of [...new Set(scan.map((b) => b[2].toFixed(3)))]) {
      pen.beginPath();
      scan
        .filter((b) => b[2].toFixed(3) === level)
        .forEach(([dx, dy, , d], i) => {
          const a = Math.atan2(dy, dx) - yaw,
            l = Math.hypot(dx, dy) * d * scale;
          pen[i ? "lineTo" : "moveTo"](mid - Math.sin(a) * l, mid - Math.cos(a) * l);
        });
      pen.closePath();
      pen.fillStyle = c.beam + "14";
      pen.fill();
      pen.strokeStyle = c.beam;
      pen.lineWidth = 1;
      pen.stroke();
    }
    pen.fillStyle = c.ink;
    pen.beginPath();
    pen.moveTo(mid, mid - 6);
    pen.lineTo(mid - 4, mid + 4);
    pen.lineTo(mid + 4, mid + 4);
    pen.fill();
  }

  _pick(x, y) {
    const p = this.position.values,
      n = this.count,
      [row] = place(this.times, this.timeline.time);
    let best = 24,
      found = -1;
    for (let k = 0; k < n; k++) {
      if (!this._visible(k)) continue;
      const a = 3 * (row * n + k),
        at = this.stage.project(p[a], p[a + 2], -p[a + 1]);
      const d = at ? Math.hypot(at[0] - x, at[1] - y) : Infinity;
      if (d < best) {
        best = d;
        found = k;
      }
    }
    if (found >= 0) this.choose(found);
  }

  key(e) {
    if (typing(e)) return false;
    if (this.timeline.key(e)) return true;
    const view = VIEWS[+e.key - 1];
    if (view) {
      this.setView(view[0]);
      return true;
    }
    if (e.key === "n" || e.key === "p") {
      this.step(e.key === "n" ? 1 : -1);
      return true;
    }
    if (e.key === "l") {
      this.beams = !this.beams;
      this.moved = true;
      return true;
    }
    if (e.key === "?") {
      this.help();
      return true;
    }
    return false;
  }
  help() {
    keyboardHelp([
      ["space", "play or pause"],
      ["← →", "half a second; with shift 5 s"],
      ["[ ]", "slower, faster"],
      ["C", "next collision; with shift the one before"],
      ["N P", "next, previous drone"],
      ["1 2 3 4", "orbit, follow, top, first person"],
      ["L", "LiDAR beams"],
      ["drag", "turn; with shift move; scroll or pinch to zoom"],
      ["W A S D + −", "turn and zoom with the picture focused"],
      ["click", "choose a drone"],
    ]);
  }

  frame(dt) {
    this.timeline.advance(dt);
    if (this.live) this.timeline.time = 0; // its one row
    if (this.view === "follow" && this.timeline.playing) this.moved = true;
    if (this.moved) {
      this.moved = false;
      this.update();
      this.stage.dirty = true;
    }
    if (this.stage.dirty) {
      this.stage.draw();
      this.stage.clearLabels();
      return true;
    }
    return false;
  }
  dispose() {
    this._unsubscribe();
    this.timeline.dispose();
    this.stage.dispose();
    this.element.remove();
  }
}

// Fills the time after a flight's end with its last place; `ends` are the last rows.
function filled(column) {
  const [rows, n] = column.shape,
    v = column.values,
    ends = new Int32Array(n).fill(rows - 1);
  for (let k = 0; k < n; k++)
    for (let t = 0; t < rows; t++) {
      const a = 3 * (t * n + k);
      if (Number.isNaN(v[a])) {
        if (ends[k] === rows - 1 && t > 0) ends[k] = t - 1;
        const b = a - 3 * n;
        v[a] = t ? v[b] : 0;
        v[a + 1] = t ? v[b + 1] : 0;
        v[a + 2] = t ? v[b + 2] : 0;
      }
    }
  return { values: v, count: n, ends };
}

// Box i of a field: x, y, half width, half length, top, bottom. Those that stand on the ground have no bottom.
function boxAt(box, i) {
  const n = box.shape[1],
    values = box.values.subarray(n * i, n * i + n);
  return n > 5 ? values : [...values, 0];
}

function slab(o, d, half, span) {
  if (!span) return null;
  if (Math.abs(d) < 1e-9) return Math.abs(o) <= half ? span : null;
  let a = (-half - o) / d,
    b = (half - o) / d;
  if (a > b) [a, b] = [b, a];
  const low = Math.max(a, span[0]),
    high = Math.min(b, span[1]);
  return low <= high ? [low, high] : null;
}

function gridGeometry(half, step) {
  const v = [];
  for (let a = -half; a <= half + 1e-6; a += step) v.push(a, 0, -half, a, 0, half, -half, 0, a, half, 0, a);
  const g = new BufferGeometry();
  g.setAttribute("position", new BufferAttribute(new Float32Array(v), 3));
  return g;
}
function lineMaterial() {
  return new ShaderMaterial({
    uniforms: { color: { value: new Color() } },
    vertexShader: "void main() { gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.); }",
    fragmentShader:
      "uniform vec3 color; void main() { gl_FragColor = vec4(color, 1.);\n#include <colorspace_fragment>\n}",
  });
}

// A quadrotor of 0.3 m: a body, two arms and four rotors.
function droneGeometry() {
  const v = [];
  const tri = (a, b, c) => v.push(...a, ...b, ...c);
  const box = (x, y, z, hx, hy, hz, turn = 0) => {
    const c = Math.cos(turn),
      s = Math.sin(turn),
      p = (i, j, k) => {
        const u = i * hx,
          w = k * hz;
        return [x + c * u + s * w, y + j * hy, z - s * u + c * w];
      };
    const q = (a, b, d, e) => {
      tri(a, b, d);
      tri(a, d, e);
    };
    q(p(-1, 1, 1), p(1, 1, 1), p(1, 1, -1), p(-1, 1, -1));
    q(p(-1, -1, -1), p(1, -1, -1), p(1, -1, 1), p(-1, -1, 1));
    q(p(-1, -1, 1), p(1, -1, 1), p(1, 1, 1), p(-1, 1, 1));
    q(p(1, -1, -1), p(-1, -1, -1), p(-1, 1, -1), p(1, 1, -1));
    q(p(1, -1, 1), p(1, -1, -1), p(1, 1, -1), p(1, 1, 1));
    q(p(-1, -1, -1), p(-1, -1, 1), p(-1, 1, 1), p(-1, 1, -1));
  };
  box(0.02, 0.01, 0, 0.09, 0.035, 0.06);
  box(0, 0.01, 0, 0.2, 0.012, 0.014, Math.PI / 4);
  box(0, 0.01, 0, 0.2, 0.012, 0.014, -Math.PI / 4);
  for (const [x, z] of [
    [1, 1],
    [1, -1],
    [-1, 1],
    [-1, -1],
  ])
    for (let i = 0; i < 8; i++) {
      const a = (i * Math.PI) / 4,
        b = a + Math.PI / 4,
        cx = x * 0.145,
        cz = z * 0.145,
        r = 0.1;
      tri(
        [cx, 0.045, cz],
        [cx + r * Math.cos(b), 0.045, cz + r * Math.sin(b)],
        [cx + r * Math.cos(a), 0.045, cz + r * Math.sin(a)],
      );
      tri(
        [cx, 0.043, cz],
        [cx + r * Math.cos(a), 0.043, cz + r * Math.sin(a)],
        [cx + r * Math.cos(b), 0.043, cz + r * Math.sin(b)],
      );
    }
  return geometryOf(v);
}
