// A duel in two pictures: the plane with aircraft, missiles and ranges, and the spacetime diagram of one side.
// `update(state, diagram)` draws a moment, recorded or live. Lengths come in m and are drawn in km.
import {
  BufferAttribute,
  BufferGeometry,
  Color,
  DoubleSide,
  DynamicDrawUsage,
  InstancedMesh,
  Mesh,
  MeshBasicMaterial,
  MeshLambertMaterial,
  PlaneGeometry,
} from "three";
import { Lines, Stage, geometryOf } from "./stage.js";
import { Puffs, explode } from "./puffs.js";
import { theme } from "./ui.js";

export const SLOTS = 12,
  CARRIED = 6,
  AZIMUTHS = 96,
  POINTS = 21,
  BOX = 50,
  CELL = 5,
  FUTURE = 20,
  PLANE = 5;
const SECOND = 1.25; // km that a second is high
const CORNERS = 97; // of a reachable set
const SHADES = [0.26, 0.2, 0.15, 0.11];

export class DuelScene {
  constructor(planeHost, spaceHost) {
    this.side = 1;
    this.shakes = false;
    this.hints = true;
    this.trails = [[], []];
    this.smoke = Array.from({ length: SLOTS }, () => []);
    this.camera = "orbit";
    this.plane = new Stage(planeHost, { label: "the duel in 3-D; drag to turn, scroll to zoom", far: 1500 });
    this.space = new Stage(spaceHost, {
      label: "the spacetime diagram; drag to turn, scroll to zoom",
      far: 1500,
      fov: 38,
    });
    Object.assign(this.plane, { distance: 52, azimuth: 0, polar: 0.72 });
    Object.assign(this.space, { distance: 98, azimuth: 0.42, polar: 1.12 });
    this.plane.target.set(25, 0, -25);
    this.space.target.set(25, FUTURE * SECOND * 0.36, -25);
    this.planeLines = new Lines(this.plane, 14000);
    this.spaceLines = new Lines(this.space, 9000);
    this.puffs = new Puffs(this.plane, 1400);
    this.seen = new Array(SLOTS).fill(-Infinity); // when a missile flew last, ms of the page
    this._bodies();
    this._volume();
    this._unsubscribe = theme.onChange(() => this._paint());
    this._paint();
    this.corner = [0, 0];
  }

  _bodies() {
    const jet = geometryOf(JET),
      dart = geometryOf(DART);
    this.jets = [0, 1].map(() => new Mesh(jet, new MeshLambertMaterial({ side: DoubleSide })));
    this.darts = new InstancedMesh(dart, new MeshLambertMaterial(), SLOTS);
    this.darts.frustumCulled = false;
    this.floor = new Mesh(
      new PlaneGeometry(1, 1).rotateX(-Math.PI / 2),
      new MeshBasicMaterial({ transparent: true, opacity: 0.85 }),
    );
    this.plane.scene.add(...this.jets, this.darts);
    this.space.scene.add(this.floor);
    this.spaceJets = [0, 1].map(() => new Mesh(jet, new MeshBasicMaterial({ side: DoubleSide })));
    this.space.scene.add(...this.spaceJets);
  }

  // The reach of a missile launched now: sheets at 5, 10, 15 and 20 s, and a skin between them.
  _volume() {
    const g = (this.volume = new BufferGeometry()),
      sheets = 5,
      n = CORNERS;
    this.vertices = new BufferAttribute(new Float32Array(sheets * n * 3), 3);
    this.vertices.setUsage(DynamicDrawUsage);
    this.alpha = new BufferAttribute(new Float32Array(sheets * n * 4), 4);
    this.alpha.setUsage(DynamicDrawUsage);
    g.setAttribute("position", this.vertices);
    g.setAttribute("color", this.alpha);
    const skin = [];
    for (let s = 0; s + 1 < sheets; s++)
      for (let i = 0; i < n; i++) {
        const j = (i + 1) % n,
          a = s * n + i,
          b = s * n + j;
        skin.push(a, b, a + n, b, b + n, a + n);
      }
    g.setIndex(skin);
    this.skin = new Mesh(
      g,
      new MeshBasicMaterial({ vertexColors: true, transparent: true, depthWrite: false, side: DoubleSide }),
    );
    this.skin.frustumCulled = false;
    this.skin.renderOrder = 2;
    this.space.scene.add(this.skin);
    const f = (this.sheetGeometry = new BufferGeometry());
    this.sheetVertices = new BufferAttribute(new Float32Array(4 * (n - 1) * 3 * 3 * 2), 3);
    this.sheetVertices.setUsage(DynamicDrawUsage);
    this.sheetColors = new BufferAttribute(new Float32Array(4 * (n - 1) * 3 * 4 * 2), 4);
    this.sheetColors.setUsage(DynamicDrawUsage);
    f.setAttribute("position", this.sheetVertices);
    f.setAttribute("color", this.sheetColors);
    this.sheets = new Mesh(
      f,
      new MeshBasicMaterial({ vertexColors: true, transparent: true, depthWrite: false, side: DoubleSide }),
    );
    this.sheets.frustumCulled = false;
    this.sheets.renderOrder = 3;
    this.space.scene.add(this.sheets);
  }

  _paint() {
    const c = theme.colors;
    this.floor.material.color.set(c.field);
    this.colorOf = (side) => (side === this.side ? c.own : c.threat);
    this.jets.forEach((jet, k) => jet.material.color.set(this.colorOf(k + 1)));
    this.spaceJets.forEach((jet, k) => jet.material.color.set(this.colorOf(k + 1)));
    this.moved = true;
  }
  setSide(side) {
    this.side = side;
    this._paint();
  }

  // state: {fighters: [{x, y, vx, vy, alive, missiles, rudder}], missiles: [{slot, x, y, vx, vy, age}], trails, smoke}
  // diagram: {path, escape, missile, range, contour, reach(speed) -> {polygon, mach}} of this moment, or null
  update(state, diagram) {
    this.state = state;
    this.diagram = diagram;
    this._drawPlane();
    this._drawSpace();
    this.plane.dirty = this.space.dirty = true;
  }

  _drawPlane() {
    const c = theme.colors,
      lines = this.planeLines,
      { fighters, missiles, trails, smoke } = this.state,
      d = this.diagram;
    lines.clear();
    this._camera();
    const mid = this.plane.target,
      x0 = Math.round(mid.x / CELL) * CELL,
      y0 = Math.round(-mid.z / CELL) * CELL,
      reach = 60;
    for (let k = -reach; k <= reach; k += CELL) {
      const fade = (k % 25 ? 0.5 : 1) * (1 - (Math.abs(k) / reach) * 0.75);
      lines.add(x0 + k, 0, -(y0 - reach), x0 + k, 0, -(y0 + reach), c.grid, fade, k % 25 ? 0.7 : 1.1);
      lines.add(x0 - reach, 0, -(y0 + k), x0 + reach, 0, -(y0 + k), c.grid, fade, k % 25 ? 0.7 : 1.1);
    }
    fighters.forEach((f, k) => {
      const jet = this.jets[k],
        x = f.x / 1000,
        y = f.y / 1000,
        angle = Math.atan2(f.vy, f.vx),
        size = Math.max(this.plane.distance / 46, 0.25);
      jet.position.set(x, 0.25 * size, -y);
      jet.rotation.set(0, 0, 0);
      jet.rotateY(angle);
      jet.rotateX(-1.1 * (f.rudder || 0));
      jet.scale.setScalar(size);
      jet.material.opacity = 1;
      jet.visible = f.alive;
      const color = this.colorOf(k + 1);
      if (!f.alive)
        for (const [sx, sy] of [
          [1, 1],
          [1, -1],
        ])
          lines.add(x - sx * size, 0.1, -(y - sy * size), x + sx * size, 0.1, -(y + sy * size), color, 1, 3);
      track(lines, trails[k], color, 2.2, 0.9);
    });
    smoke.forEach((points, slot) => track(lines, points, this._missileColor(slot), 1.2, 0.5));
    this._drawSmoke();
    const m = this.darts.instanceMatrix.array;
    m.fill(0);
    const tint = new Color();
    for (const q of missiles) {
      const a = Math.atan2(q.vy, q.vx),
        co = Math.cos(a),
        si = Math.sin(a),
        size = Math.max(this.plane.distance / 70, 0.2);
      m.set(
        [co * size, 0, -si * size, 0, 0, size, 0, 0, si * size, 0, co * size, 0, q.x / 1000, 0.3, -q.y / 1000, 1],
        16 * q.slot,
      );
      this.darts.setColorAt(q.slot, tint.set(this._missileColor(q.slot)));
    }
    this.darts.instanceMatrix.needsUpdate = true;
    if (this.darts.instanceColor) this.darts.instanceColor.needsUpdate = true;
    if (d && this.hints) {
      const own = this.side - 1,
        enemy = 1 - own;
      if (fighters[0].alive && fighters[1].alive)
        for (const shooter of [enemy, own]) {
          if (!fighters[shooter].missiles) continue;
          const f = fighters[shooter],
            color = this.colorOf(shooter + 1),
            strong = shooter === enemy;
          ring(lines, f, d.contour, (shooter * 3 + 0) * AZIMUTHS, color, strong ? 0.8 : 0.35, 1.3, 9);
          ring(lines, f, d.contour, (shooter * 3 + 2) * AZIMUTHS, color, strong ? 1 : 0.45, 2, 0);
        }
      if (fighters[own].alive) {
        for (const turn of [0, 1]) path(lines, d.escape, (own * 2 + turn) * POINTS * 2, () => 0.05, c.escape, 1.6, 8);
        path(lines, d.path, own * POINTS * 2, () => 0.05, c.own, 2);
      }
      for (const q of missiles)
        path(lines, d.missile, q.slot * POINTS * 2, () => 0.05, this._missileColor(q.slot), 1.2, 4);
    }
    lines.finish();
  }

  // Smoke behind the missiles that fly, wider and thinner with its age, and the explosions of this moment.
  _drawSmoke() {
    const { missiles, smoke, blasts = [] } = this.state,
      { puffs } = this,
      now = performance.now(),
      size = this.plane.distance / 260;
    puffs.clear();
    for (const { slot } of missiles) this.seen[slot] = now;
    smoke.forEach((points, slot) => {
      const left = 1 - (now - this.seen[slot]) / 2500; // it stays for a while
      if (left <= 0) return;
      const n = points.length / 2,
        step = Math.max(1, Math.round(n / 90));
      for (let i = n - 1; i >= 0; i -= step) {
        const old = (n - 1 - i) / Math.max(n, 40),
          wide = size * (0.5 + 2 * old);
        puffs.add(
          points[2 * i] / 1000 + wide * 0.5 * Math.sin(12.9 * i),
          0.2 + 0.5 * old,
          -points[2 * i + 1] / 1000 + wide * 0.5 * Math.sin(7.3 * i),
          wide,
          theme.colors.muted,
          0.4 * (1 - old) * left,
        );
      }
    });
    this.plane.jolt = null;
    for (const { x, y, age } of blasts) {
      explode(puffs, x / 1000, y / 1000, this.plane.distance / 13, age, theme.colors.muted);
      if (this.shakes && age < 0.7) {
        const far = 0.02 * this.plane.distance * (1 - age / 0.7) ** 2;
        this.plane.jolt = [far * Math.sin(61 * age), far * Math.sin(47 * age + 1)];
      }
    }
    puffs.finish();
  }
  _missileColor(slot) {
    const c = theme.colors;
    return Math.floor(slot / CARRIED) + 1 === this.side ? c.own : c.missile;
  }

  _camera() {
    const s = this.plane,
      f = this.state.fighters,
      own = f[this.side - 1];
    s.free = true;
    const ease = this.jumpCamera ? 1 : 0.15;
    const follow = (x, y) => {
      s.target.x += (x / 1000 - s.target.x) * ease;
      s.target.z += (-y / 1000 - s.target.z) * ease;
    };
    if (this.camera === "orbit" || this.camera === "top") {
      follow((f[0].x + f[1].x) / 2, (f[0].y + f[1].y) / 2);
      if (this.fitCamera || this.autoZoom) {
        const span = Math.hypot(f[0].x - f[1].x, f[0].y - f[1].y) / 1000,
          aspect = Math.min(this.plane.width / this.plane.height || 1, 1.6),
          d = Math.max(14, ((span * 0.72 + 6) * 1.6) / aspect);
        s.distance += (d - s.distance) * (this.fitCamera ? 1 : 0.06);
        this.fitCamera = false;
      }
    } else if (this.camera === "chase") {
      follow(own.x, own.y);
      const a = Math.atan2(-own.vx, own.vy); // behind the aircraft
      const turn = Math.atan2(Math.sin(a - s.azimuth), Math.cos(a - s.azimuth));
      s.azimuth += turn * (this.jumpCamera ? 1 : 0.12);
    }
    this.jumpCamera = false;
  }
  setCamera(name) {
    this.camera = name;
    this.jumpCamera = this.fitCamera = true;
    Object.assign(
      this.plane,
      { orbit: { azimuth: 0, polar: 0.72 }, top: { azimuth: 0, polar: 0.01 }, chase: { polar: 1.25, distance: 16 } }[
        name
      ],
    );
    this.moved = true;
  }

  _boxCorner() {
    const f = this.state.fighters,
      own = f[this.side - 1],
      places = [
        [own.x / 1000, own.y / 1000],
        [f[2 - this.side].x / 1000, f[2 - this.side].y / 1000],
      ];
    if (places.flat().every((v) => v >= 0 && v <= BOX)) return [0, 0];
    return [0, 1].map((k) => {
      const middle = Math.round(((places[0][k] + places[1][k]) / 2 - BOX / 2) / CELL) * CELL,
        behind = Math.floor(places[0][k] / CELL) * CELL;
      return Math.min(Math.max(middle, behind + CELL - BOX), behind);
    });
  }

  _drawSpace() {
    const c = theme.colors,
      lines = this.spaceLines,
      { fighters, missiles, trails } = this.state,
      d = this.diagram,
      own = this.side - 1,
      enemy = 1 - own;
    const [x0, y0] = (this.corner = this._boxCorner()),
      s = this.space,
      top = FUTURE * SECOND;
    s.target.set(x0 + BOX / 2, top * 0.33, -(y0 + BOX / 2));
    this._fit(s, x0, y0, top);
    this.floor.position.set(x0 + BOX / 2, -0.03, -(y0 + BOX / 2));
    this.floor.scale.set(BOX, 1, BOX);
    lines.clear();
    for (let k = 0; k <= BOX; k += CELL) {
      const edge = k === 0 || k === BOX;
      lines.add(x0 + k, 0, -y0, x0 + k, 0, -(y0 + BOX), edge ? c.edge : c.grid, 1, edge ? 1.4 : 0.9);
      lines.add(x0, 0, -(y0 + k), x0 + BOX, 0, -(y0 + k), edge ? c.edge : c.grid, 1, edge ? 1.4 : 0.9);
    }
    for (let t = PLANE; t <= FUTURE; t += PLANE) {
      const y = t * SECOND,
        p = [
          [0, 0],
          [BOX, 0],
          [BOX, BOX],
          [0, BOX],
        ];
      p.forEach(([a, b], i) => {
        const [e, f] = p[(i + 1) % 4];
        lines.add(x0 + a, y, -(y0 + b), x0 + e, y, -(y0 + f), c.edge, 0.55, 0.9);
      });
    }
    for (const [a, b] of [
      [0, 0],
      [BOX, 0],
      [BOX, BOX],
      [0, BOX],
    ])
      lines.add(x0 + a, 0, -(y0 + b), x0 + a, top, -(y0 + b), c.edge, 0.45, 0.9);
    const inside = (x, y) => x >= x0 - 0.01 && x <= x0 + BOX + 0.01 && y >= y0 - 0.01 && y <= y0 + BOX + 0.01;
    this._inside = inside;
    fighters.forEach((f, k) => {
      const color = this.colorOf(k + 1),
        x = f.x / 1000,
        y = f.y / 1000,
        jet = this.spaceJets[k];
      jet.visible = f.alive && inside(x, y);
      jet.position.set(x, 0.15, -y);
      jet.rotation.set(0, Math.atan2(f.vy, f.vx), 0);
      jet.scale.setScalar(1.7);
      if (!f.alive && inside(x, y))
        for (const q of [1, -1]) lines.add(x - 1.2, 0.1, -(y - 1.2 * q), x + 1.2, 0.1, -(y + 1.2 * q), color, 1, 3);
      track(lines, trails[k], color, 1.4, 0.5, inside);
    });
    const up = (i) => i * SECOND;
    this.skin.visible = this.sheets.visible = false;
    if (d) {
      const both = fighters[0].alive && fighters[1].alive;
      if (both && fighters[enemy].missiles) {
        if (this.hints) {
          ring(lines, fighters[enemy], d.contour, (enemy * 3 + 0) * AZIMUTHS, c.threat, 0.8, 1.2, 9, inside);
          ring(lines, fighters[enemy], d.contour, (enemy * 3 + 2) * AZIMUTHS, c.threat, 1, 1.9, 0, inside);
        }
        this._drawReach(fighters[enemy], d);
      }
      if (fighters[enemy].alive) path(lines, d.path, enemy * POINTS * 2, up, c.threat, 1.6, 0, inside, 0.8);
      if (fighters[own].alive) {
        for (const turn of [0, 1]) {
          path(lines, d.escape, (own * 2 + turn) * POINTS * 2, up, c.escape, 1.9, 8, inside);
          this._dots(d.escape, (own * 2 + turn) * POINTS * 2, fighters[enemy], d, both, 0.55);
        }
        path(lines, d.path, own * POINTS * 2, up, c.own, 2.8, 0, inside);
        path(lines, d.path, own * POINTS * 2, () => 0.02, c.own, 1, 0, inside, 0.4);
        this._dots(d.path, own * POINTS * 2, fighters[enemy], d, both, 0.9);
      }
      for (const q of missiles)
        path(
          lines,
          d.missile,
          q.slot * POINTS * 2,
          up,
          this._missileColor(q.slot),
          2.2,
          Math.floor(q.slot / CARRIED) === own ? 4 : 0,
          inside,
        );
    }
    for (const q of missiles)
      if (inside(q.x / 1000, q.y / 1000)) diamond(lines, q.x / 1000, 0.05, q.y / 1000, 0.7, this._missileColor(q.slot));
    lines.finish();
  }

  // Where a missile launched now by `f` can be: red volumes, fading where it is slower than sound.
  _drawReach(f, d) {
    const speed = Math.hypot(f.vx, f.vy),
      { polygon, mach } = d.reach(speed);
    if (!polygon) return;
    const a = Math.atan2(f.vy, f.vx),
      co = Math.cos(a),
      si = Math.sin(a),
      n = CORNERS,
      color = new Color(theme.colors.threat),
      { x: X, y: Y } = { x: f.x / 1000, y: f.y / 1000 };
    const v = this.vertices.array,
      q = this.alpha.array,
      [x0, y0] = this.corner;
    const clip = (x, low) => Math.min(Math.max(x, low), low + BOX);
    for (let i = 0; i < n; i++) {
      v.set([X, 0, -Y], 3 * i);
      q.set([color.r, color.g, color.b, 0.02], 4 * i);
    }
    const lines = this.spaceLines;
    let at = 0,
      shown = false;
    const sv = this.sheetVertices.array,
      sc = this.sheetColors.array;
    for (let s = 0; s < 4; s++) {
      const y = (s + 1) * PLANE * SECOND;
      const places = [];
      for (let i = 0; i < n; i++) {
        const px = polygon[2 * (s * n + i)] / 1000,
          py = polygon[2 * (s * n + i) + 1] / 1000,
          x = X + co * px - si * py,
          w = Y + si * px + co * py;
        const m = Math.min(Math.max((mach[s * n + i] - 0.55) / 0.45, 0.1), 1);
        places.push([clip(x, x0), clip(w, y0), m, this._inside(x, w)]);
        shown ||= places[i][3];
        v.set([clip(x, x0), y, -clip(w, y0)], 3 * ((s + 1) * n + i));
        q.set([color.r, color.g, color.b, 0.11 * m], 4 * ((s + 1) * n + i));
      }
      // The outline is an outer side followed by the inner one backwards: a strip between both fills the set.
      const half = (n - 1) / 2;
      for (let i = 0; i < half; i++) {
        const j = n - 1 - i,
          corners = [places[i], places[i + 1], places[j], places[i + 1], places[j - 1], places[j]];
        for (const [px, py] of corners) {
          sv.set([px, y, -py], 3 * at);
          sc.set([color.r, color.g, color.b, SHADES[s]], 4 * at);
          at++;
        }
      }
      for (let i = 0; i < n; i++) {
        const [ax, ay, m, ain] = places[i],
          [bx, by, k, bin] = places[(i + 1) % n];
        if (ain && bin) lines.add(ax, y, -ay, bx, y, -by, theme.colors.threat, 0.95 * Math.min(m, k), 1.5);
      }
    }
    this._polygon = { polygon, X, Y, co, si };
    if (!shown) return;
    this.vertices.needsUpdate =
      this.alpha.needsUpdate =
      this.sheetVertices.needsUpdate =
      this.sheetColors.needsUpdate =
        true;
    this.sheetGeometry.setDrawRange(0, at);
    this.skin.visible = this.sheets.visible = true;
  }

  // A mark where a path crosses each plane: a red diamond if the missile could be there then, a green ring if not.
  _dots(column, offset, shooter, d, both, size) {
    const c = theme.colors;
    for (let s = 0; s < 4; s++) {
      const i = offset + 2 * (s + 1) * PLANE,
        x = column[i] / 1000,
        y = column[i + 1] / 1000,
        h = (s + 1) * PLANE * SECOND;
      if (!(x < Infinity) || !this._inside(x, y)) continue;
      const reached = both && shooter.missiles > 0 && this._polygon && contains(this._polygon, s, x, y);
      if (reached) diamond(this.spaceLines, x, h, y, size, c.threat, 2.6);
      else circle(this.spaceLines, x, h, y, size * 0.75, c.escape, 2.2);
    }
  }

  labels(names) {
    const p = this.plane,
      s = this.space,
      f = this.state?.fighters,
      c = theme.colors;
    if (!f) return;
    p.clearLabels();
    s.clearLabels();
    f.forEach((q, k) =>
      p.label(`${names[k]}${q.alive ? "" : " ✕"}`, q.x / 1000, 0, -q.y / 1000, {
        color: this.colorOf(k + 1),
        size: 13,
        bold: true,
        dy: 26,
        plate: true,
      }),
    );
    if (f[0].alive && f[1].alive && this.camera !== "chase")
      p.label(
        `${(Math.hypot(f[0].x - f[1].x, f[0].y - f[1].y) / 1000).toFixed(1)} km`,
        (f[0].x + f[1].x) / 2000,
        0,
        -(f[0].y + f[1].y) / 2000,
        { size: 12, plate: true },
      );
    const [x0, y0] = this.corner,
      near = this._nearestEdge();
    for (let t = 0; t <= FUTURE; t += PLANE)
      s.label(t ? `+${t} s` : "now", near[0], t * SECOND, -near[1], {
        color: c.ink,
        size: 11,
        align: "right",
        dx: -8,
        plate: true,
      });
    for (let k = 10; k < BOX; k += 10) {
      const unit = k === 30 ? " km" : "";
      s.label(`${x0 + k}${unit}`, x0 + k, 0, -(y0 + (this._front.y ? BOX : 0)), { dy: 12, size: 10 });
      s.label(`${y0 + k}${unit}`, x0 + (this._front.x ? BOX : 0), 0, -(y0 + k), { dy: 12, size: 10 });
    }
  }
  // Show the complete box with its labels, whenever the picture changes its size.
  _fit(s, x0, y0, top) {
    const { width: w, height: h } = s,
      size = `${w} ${h}`;
    if (!w || this._fitted === size) return;
    this._fitted = size;
    const left = 58,
      right = 14,
      above = 34,
      below = this.thumbs ? 0.3 * h : 26;
    s.camera.clearViewOffset();
    for (s.distance = 60; s.distance < 400; s.distance *= 1.04) {
      s.look();
      s.camera.updateMatrixWorld();
      const at = [0, BOX]
        .flatMap((a) => [0, BOX].flatMap((b) => [0, top].map((y) => s.project(x0 + a, y, -(y0 + b)))))
        .filter(Boolean);
      const [x, y] = [0, 1].map((k) => {
        const all = at.map((p) => p[k]);
        return [Math.min(...all), Math.max(...all)];
      });
      if (at.length === 8 && x[1] - x[0] <= w - left - right && y[1] - y[0] <= h - above - below) {
        s.camera.setViewOffset(w, h, (x[0] + x[1] - w - left + right) / 2, (y[0] + y[1] - h - above + below) / 2, w, h);
        break;
      }
    }
  }
  _nearestEdge() {
    // the corner of the box farthest to the left on the screen
    const [x0, y0] = this.corner,
      s = this.space,
      cx = Math.sin(s.azimuth),
      cz = Math.cos(s.azimuth);
    this._front = { x: cx > 0, y: cz < 0 };
    let best = null;
    for (const [a, b] of [
      [0, 0],
      [BOX, 0],
      [BOX, BOX],
      [0, BOX],
    ]) {
      const at = s.project(x0 + a, 0, -(y0 + b));
      if (at && (!best || at[0] < best[2])) best = [x0 + a, y0 + b, at[0]];
    }
    return best ?? [x0, y0];
  }

  frame(names) {
    const drawn = this.plane.dirty || this.space.dirty;
    if (this.plane.dirty && this.plane.host.offsetParent) this.plane.draw();
    if (this.space.dirty && this.space.host.offsetParent) this.space.draw();
    this.plane.dirty = this.space.dirty = false;
    if (drawn) this.labels(names);
    return drawn;
  }
  dispose() {
    this._unsubscribe();
    this.plane.dispose();
    this.space.dispose();
  }
}

function track(lines, points, color, width, alpha, inside = null) {
  const n = points.length / 2,
    skip = Math.max(1, Math.floor(n / 600));
  for (let i = 0; i + skip < n; i += skip) {
    const [a, b, c, d] = [
      points[2 * i] / 1000,
      points[2 * i + 1] / 1000,
      points[2 * (i + skip)] / 1000,
      points[2 * (i + skip) + 1] / 1000,
    ];
    if (inside && !(inside(a, b) && inside(c, d))) continue;
    lines.add(a, 0.03, -b, c, 0.03, -d, color, alpha * (0.25 + (0.75 * i) / n), width);
  }
}
function path(lines, v, at, height, color, width, dash = 0, inside = null, alpha = 0.95) {
  let phase = 0;
  for (let i = 0; i + 1 < POINTS; i++) {
    const a = v[at + 2 * i] / 1000,
      b = v[at + 2 * i + 1] / 1000,
      c = v[at + 2 * i + 2] / 1000,
      d = v[at + 2 * i + 3] / 1000;
    if (inside && !(inside(a, b) && inside(c, d))) continue;
    lines.add(a, height(i), -b, c, height(i + 1), -d, color, alpha, width, dash, phase);
    phase += dash ? 3 : 0;
  }
}
function ring(lines, f, v, at, color, alpha, width, dash, inside = null) {
  for (let i = 0; i < AZIMUTHS; i++) {
    const a = (2 * Math.PI * i) / AZIMUTHS,
      b = (2 * Math.PI * (i + 1)) / AZIMUTHS,
      r = v[at + i] / 1000,
      s = v[at + ((i + 1) % AZIMUTHS)] / 1000;
    if (!r || !s) continue;
    const [ax, ay, bx, by] = [
      f.x / 1000 + r * Math.cos(a),
      f.y / 1000 + r * Math.sin(a),
      f.x / 1000 + s * Math.cos(b),
      f.y / 1000 + s * Math.sin(b),
    ];
    if (inside && !(inside(ax, ay) && inside(bx, by))) continue;
    lines.add(ax, 0.02, -ay, bx, 0.02, -by, color, alpha, width, dash);
  }
}
function diamond(lines, x, h, y, r, color, width = 2.4) {
  const p = [
    [r, 0],
    [0, r],
    [-r, 0],
    [0, -r],
  ];
  p.forEach(([a, b], i) => {
    const [c, d] = p[(i + 1) % 4];
    lines.add(x + a, h, -(y + b), x + c, h, -(y + d), color, 1, width);
  });
}
function circle(lines, x, h, y, r, color, width) {
  for (let i = 0; i < 10; i++) {
    const a = (i * Math.PI) / 5,
      b = a + Math.PI / 5;
    lines.add(
      x + r * Math.cos(a),
      h,
      -(y + r * Math.sin(a)),
      x + r * Math.cos(b),
      h,
      -(y + r * Math.sin(b)),
      color,
      1,
      width,
    );
  }
}
function contains({ polygon, X, Y, co, si }, sheet, x, y) {
  const dx = (x - X) * 1000,
    dy = (y - Y) * 1000,
    px = co * dx + si * dy,
    py = -si * dx + co * dy,
    at = 2 * sheet * CORNERS;
  let inside = false;
  for (let i = 0, j = CORNERS - 1; i < CORNERS; j = i++) {
    const [ax, ay, bx, by] = [
      polygon[at + 2 * i],
      polygon[at + 2 * i + 1],
      polygon[at + 2 * j],
      polygon[at + 2 * j + 1],
    ];
    if (ay > py !== by > py && px < ((bx - ax) * (py - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

// A delta-winged fighter and a missile, noses along x, about 2 units long.
const JET = [
  1.2, 0, 0, -0.6, 0.02, 0.75, -0.45, 0.12, 0, 1.2, 0, 0, -0.45, 0.12, 0, -0.6, 0.02, -0.75, 1.2, 0, 0, -0.45, -0.1, 0,
  -0.6, 0.02, 0.75, 1.2, 0, 0, -0.6, 0.02, -0.75, -0.45, -0.1, 0, -0.6, 0.02, 0.75, -0.45, -0.1, 0, -0.45, 0.12, 0,
  -0.6, 0.02, -0.75, -0.45, 0.12, 0, -0.45, -0.1, 0, -0.15, 0.06, 0, -0.75, 0.42, 0, -0.7, 0.05, 0, 0.55, 0.03, 0.1,
  0.1, 0.16, 0, 0.55, 0.03, -0.1,
];
const DART = [
  1, 0, 0, -0.7, 0, 0.16, -0.7, 0.14, 0, 1, 0, 0, -0.7, 0.14, 0, -0.7, 0, -0.16, 1, 0, 0, -0.7, -0.14, 0, -0.7, 0, 0.16,
  1, 0, 0, -0.7, 0, -0.16, -0.7, -0.14, 0, -0.5, 0, 0.36, -0.9, 0, 0.36, -0.3, 0, 0, -0.5, 0, -0.36, -0.3, 0, 0, -0.9,
  0, -0.36,
];
