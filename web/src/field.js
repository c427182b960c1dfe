// The navigation task in the browser: maps, drones, moving obstacles, sensors, by the rules of docs/navigation.md.
// Distances in m, times in s; x east, y north, z up. The settings are those of `env.*` in the policy's file.

const CELL = 0.1,
  SIDES = [4, 8],
  BANDS = [
    [0.1, 1, 1.5],
    [0.25, 1.5, 2],
    [0.45, 2, 4],
    [1, 4, 6],
  ],
  WIDTHS = [0.25, 0.5, 0.75, 1],
  TOP = 4.5,
  BODY = 0.3,
  GOAL = 0.5,
  HEIGHTS = [0.2, 4],
  NEAREST = 5,
  GRAVITY = 9.81,
  GAIN = 2.2,
  FRAME = {
    mass: 0.716,
    inertia: [0.007, 0.007, 0.012],
    arm: 0.17,
    force: 8.54858e-6,
    moment: 1.36777e-7,
    fastest: 838,
    closing: 0.43,
    attitude: [0.7, 0.7, 0.035],
    rate: [0.1, 0.1, 0.025],
    lift: 0.3,
    tilt: (60 * Math.PI) / 180,
  };
export const FLYING = 0,
  AT_GOAL = 1,
  COLLIDED = 2,
  TIMED_OUT = 3;

// Random numbers in [0, 1) from a seed (mulberry32).
export function random(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

// Blocks of NavRL's rule, each a box [x, y, half width, half length, height]: a block of w cells is w - 1 cells wide.
export function placeBoxes(draw, count, half) {
  const cells = Math.round((2 * half) / CELL),
    blocks = [];
  for (let i = 0; i < count; i++) {
    let block;
    for (let tries = 0; tries < 1000; tries++) {
      const w = SIDES[Math.floor(2 * draw())],
        l = SIDES[Math.floor(2 * draw())],
        corner = (side) => Math.min(4 * Math.floor((draw() * cells) / 4), cells - side);
      block = [corner(w), corner(l), w, l];
      const near = blocks.some(([x, y]) => {
        const dx = Math.abs(x - block[0]) - w,
          dy = Math.abs(y - block[1]) - l,
          square = dx * dx + dy * dy;
        return (dx >= 0 || dy >= 0) && square >= 4 && square <= 100;
      });
      if (!near) break;
    }
    const u = draw(),
      [, low, high] = BANDS.find(([share]) => u < share);
    blocks.push([...block, Math.round(10 * (low + (high - low) * draw())) / 10]);
  }
  return blocks.map(([x, y, w, l, height]) => {
    const hx = ((w - 1) * CELL) / 2,
      hy = ((l - 1) * CELL) / 2;
    return [x * CELL - half + hx, y * CELL - half + hy, hx, hy, height];
  });
}

export class Field {
  constructor(settings, seed, drones) {
    this.settings = settings;
    this.draw = random(seed);
    const half = settings.map_half_m;
    this.boxes = placeBoxes(this.draw, settings.num_obstacles, half);
    this.movers = this._placeMovers(Math.floor(settings.dyn.num_obstacles / 8) * 8, half);
    this.steps = 0;
    this.drones = Array.from({ length: drones }, () => new Drone(settings));
    for (const drone of this.drones) this.restart(drone);
  }

  _placeMovers(count, half) {
    const movers = [];
    for (let i = 0; i < count; i++) {
      let place,
        apart = (2 * half) / Math.sqrt(count);
      do {
        place = [(2 * this.draw() - 1) * half, (2 * this.draw() - 1) * half];
        apart *= 0.999;
      } while (movers.some((m) => Math.hypot(m.origin[0] - place[0], m.origin[1] - place[1]) < apart));
      const pillar = i % 2 === 1,
        origin = [...place, pillar ? 2.5 : this.draw() * TOP],
        kind = (i >> 1) % 4;
      const shape = { pillar, kind, width: WIDTHS[kind], height: pillar ? 5 : 1 };
      movers.push({ ...shape, origin, position: [...origin], goal: [...origin], velocity: [0, 0, 0] });
    }
    return movers;
  }

  // A start on the north side and a goal on the south side, as in the evaluation.
  restart(drone) {
    const half = this.settings.map_half_m,
      x = () => (2 * this.draw() - 1) * 0.8 * half;
    drone.begin([x(), half + 4, 2], [x(), -half - 4, 2]);
  }

  // One decision of every drone: an action [forward, left, up] in m/s each, in the goal frame.
  step(actions) {
    const { decision_interval: steps, dt_s: dt, max_episode_steps: most } = this.settings;
    const commands = this.drones.map(({ heading: [c, s] }, i) => {
      const [forward, left, up] = actions[i];
      return [c * forward - s * left, s * forward + c * left, up];
    });
    for (let k = 0; k < steps; k++) {
      this.drones.forEach((drone, i) => drone.status === FLYING && drone.advance(commands[i], dt));
      this._roam(dt);
    }
    for (const drone of this.drones) {
      if (drone.status !== FLYING) continue;
      drone.clock += steps;
      drone.scan = null;
      const [x, y, z] = drone.position,
        far = Math.hypot(drone.goal[0] - x, drone.goal[1] - y, drone.goal[2] - z);
      if (this._touches(drone)) drone.status = COLLIDED;
      else if (far < GOAL) drone.status = AT_GOAL;
      else if (drone.clock >= most) drone.status = TIMED_OUT;
    }
  }

  _roam(dt) {
    const { speed_mps: speeds, roam_m: roam, redraw_s: redraw } = this.settings.dyn,
      half = this.settings.map_half_m,
      turn = this.steps % Math.max(1, Math.round(redraw / dt)) === 0;
    for (const m of this.movers) {
      const way = [0, 1, 2].map((c) => m.goal[c] - m.position[c]);
      if (Math.hypot(...way) < 0.5) {
        const offset = [roam[0], roam[1]].map((r) => (2 * this.draw() - 1) * r);
        m.goal = [
          clamp(m.origin[0] + offset[0], -half, half),
          clamp(m.origin[1] + offset[1], -half, half),
          m.pillar ? 2.5 : clamp(m.origin[2] - roam[2] + (roam[2] + roam[3]) * this.draw(), 0, TOP),
        ];
        m.goal.forEach((g, c) => (way[c] = g - m.position[c]));
      }
      if (turn) {
        const length = Math.max(Math.hypot(...way), 1e-6),
          speed = speeds[0] + (speeds[1] - speeds[0]) * this.draw();
        m.velocity = way.map((w) => (speed * w) / length);
      }
      m.velocity.forEach((v, c) => (m.position[c] += v * dt));
    }
    this.steps++;
  }

  _touches(drone) {
    const [x, y, z] = drone.position;
    if (z < HEIGHTS[0] || z > HEIGHTS[1]) return true;
    if (Math.min(...this.scan(drone, false)) < BODY) return true;
    return this._nearest(drone).some(
      ({ m, across, up }) =>
        across <= this.settings.lidar.range_m && across <= m.width / 2 + BODY && Math.abs(up) <= m.height / 2 + BODY,
    );
  }

  // The moving obstacles nearest by horizontal distance; a pillar is as high as the drone.
  _nearest(drone) {
    const [x, y, z] = drone.position;
    return this.movers
      .map((m) => {
        const dx = m.position[0] - x,
          dy = m.position[1] - y;
        return { m, dx, dy, across: Math.hypot(dx, dy), up: m.pillar ? 0 : m.position[2] - z };
      })
      .sort((a, b) => a.across - b.across)
      .slice(0, NEAREST);
  }

  // Distances of all beams: by direction, then by elevation.
  scan(drone, moving = this.settings.lidar_sees_moving) {
    const { range_m: range, azimuths, elevations_deg: elevations } = this.settings.lidar,
      [x, y, z] = drone.position,
      yaw = drone.yaw,
      boxes = this.boxes.filter(
        (b) => Math.abs(b[0] - x) < range + b[2] + 0.01 && Math.abs(b[1] - y) < range + b[3] + 0.01,
      ),
      movers = moving ? this._nearby(x, y, range) : [],
      out = new Float32Array(azimuths * elevations.length);
    for (let h = 0; h < azimuths; h++) {
      const a = yaw + (2 * Math.PI * h) / azimuths,
        steep = (v) => (Math.abs(v) < 1e-6 ? 1e-6 : v),
        dx = steep(Math.cos(a)),
        dy = steep(Math.sin(a)),
        spans = boxes.map((b) => [...crossing(b[0] - x, b[2], dx, b[1] - y, b[3], dy), 0, b[4]]);
      for (const m of movers) {
        const [mx, my, mz] = m.position,
          [enter, leave] = m.pillar
            ? chord(mx - x, my - y, m.width / 2, dx, dy)
            : crossing(mx - x, m.width / 2, dx, my - y, m.width / 2, dy);
        spans.push([enter, leave, mz - m.height / 2, mz + m.height / 2]);
      }
      elevations.forEach((elevation, v) => {
        const tan = Math.tan((elevation * Math.PI) / 180),
          cos = Math.cos((elevation * Math.PI) / 180);
        let nearest = tan < 0 ? Math.max(z / -tan, 0) : Infinity;
        for (const [enter, leave, low, high] of spans) {
          let first = Math.max(enter, 0),
            last = leave;
          if (tan === 0) {
            if (z < low || z > high) continue;
          } else {
            first = Math.max(first, Math.min((low - z) / tan, (high - z) / tan));
            last = Math.min(last, Math.max((low - z) / tan, (high - z) / tan));
          }
          if (first < last && first < nearest) nearest = first;
        }
        out[h * elevations.length + v] = Math.min(nearest / cos, range);
      });
    }
    return out;
  }
  _nearby(x, y, range) {
    return this.movers.filter((m) => Math.hypot(m.position[0] - x, m.position[1] - y) < range + m.width);
  }

  // What every drone observes, a batch by name as the policy takes it.
  observe() {
    const n = this.drones.length,
      { range_m: range, azimuths, elevations_deg: elevations } = this.settings.lidar,
      beams = azimuths * elevations.length,
      batch = {
        state: { dims: [n, 8], data: new Float32Array(8 * n) },
        lidar: { dims: [n, 1, azimuths, elevations.length], data: new Float32Array(beams * n) },
        direction: { dims: [n, 1, 3], data: new Float32Array(3 * n) },
        dynamic_obstacle: { dims: [n, 1, NEAREST, 10], data: new Float32Array(NEAREST * 10 * n) },
      };
    this.drones.forEach((drone, i) => {
      const { position: p, goal, velocity: v, heading, direction } = drone,
        turn = ([x, y, z]) => [heading[0] * x + heading[1] * y, heading[0] * y - heading[1] * x, z],
        way = goal.map((g, c) => g - p[c]),
        far = Math.max(Math.hypot(...way), 1e-6);
      batch.state.data.set([...turn(way.map((w) => w / far)), Math.hypot(way[0], way[1]), way[2], ...turn(v)], 8 * i);
      this.scan(drone).forEach((d, k) => (batch.lidar.data[beams * i + k] = range - d));
      batch.direction.data.set(direction, 3 * i);
      this._nearest(drone).forEach(({ m, dx, dy, across, up }, k) => {
        if (across > range) return;
        const away = Math.max(Math.hypot(across, up), 1e-6);
        batch.dynamic_obstacle.data.set(
          [...turn([dx / away, dy / away, up / away]), across, up, ...turn(m.velocity), m.kind, +!m.pillar],
          10 * (NEAREST * i + k),
        );
      });
    });
    return batch;
  }
}

// Where a beam [dx, dy] enters and leaves a rectangle at [x, y], in horizontal meters.
function crossing(x, hx, dx, y, hy, dy) {
  const a = (x - hx) / dx,
    b = (x + hx) / dx,
    c = (y - hy) / dy,
    d = (y + hy) / dy;
  return [Math.max(Math.min(a, b), Math.min(c, d)), Math.min(Math.max(a, b), Math.max(c, d))];
}
function chord(x, y, radius, dx, dy) {
  const along = x * dx + y * dy,
    off = x * dy - y * dx,
    half = Math.sqrt(Math.max(radius * radius - off * off, 0));
  return [along - half, along + half];
}

const MOST = FRAME.force * FRAME.fastest ** 2, // N, of one rotor
  HOVER = Math.sqrt((FRAME.mass * GRAVITY) / 4 / MOST),
  YAW_PER_N = FRAME.moment / FRAME.force;

class Drone {
  constructor(settings) {
    this.rigid = settings.dynamics === "quadrotor";
  }

  begin(start, goal) {
    this.position = [...start];
    this.goal = [...goal];
    this.velocity = [0, 0, 0];
    this.direction = [goal[0] - start[0], goal[1] - start[1], 0];
    const length = Math.hypot(...this.direction) || 1;
    this.heading = [this.direction[0] / length, this.direction[1] / length];
    this.yawHeld = Math.atan2(this.heading[1], this.heading[0]);
    this.quaternion = [Math.cos(this.yawHeld / 2), 0, 0, Math.sin(this.yawHeld / 2)];
    this.rates = [0, 0, 0];
    this.throttle = [HOVER, HOVER, HOVER, HOVER];
    this.clock = 0;
    this.status = FLYING;
    this.memory = null;
  }

  get yaw() {
    if (!this.rigid) return this.yawHeld;
    const [w, x, y, z] = this.quaternion;
    return Math.atan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z));
  }

  // One physics step towards a velocity in world axes.
  advance(command, dt) {
    if (this.rigid) this._advanceBody(command, dt);
    else this.velocity.forEach((v, c) => (this.velocity[c] += GAIN * (command[c] - v) * dt));
    this.velocity.forEach((v, c) => (this.position[c] += v * dt));
  }

  // A rigid body under a geometric controller: + layout, rotors ahead, left, behind, right.
  _advanceBody(command, dt) {
    const [w, x, y, z] = this.quaternion,
      axes = [
        [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
        [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
        [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
      ]; // of the body, in the world
    const wanted = command.map((c, i) => GAIN * (c - this.velocity[i])),
      up = Math.max(wanted[2] + GRAVITY, FRAME.lift * GRAVITY),
      flat = Math.min((Math.tan(FRAME.tilt) * up) / Math.max(Math.hypot(wanted[0], wanted[1]), 1e-6), 1),
      force = [wanted[0] * flat, wanted[1] * flat, up],
      length = Math.hypot(...force),
      targetZ = force.map((f) => f / length);
    let targetY = cross(targetZ, [Math.cos(this.yawHeld), Math.sin(this.yawHeld), 0]);
    const across = Math.max(Math.hypot(...targetY), 1e-6);
    targetY = targetY.map((v) => v / across);
    const target = [cross(targetY, targetZ), targetY, targetZ],
      twist = (i, j) => 0.5 * (dot(target[i], axes[j]) - dot(target[j], axes[i])),
      error = [twist(2, 1), twist(0, 2), twist(1, 0)],
      torque = error.map((e, i) => -FRAME.attitude[i] * e - FRAME.rate[i] * this.rates[i]),
      lift = FRAME.mass * dot(force, axes[2]);
    // torques [x, y, z] of rotors at 0°, 90°, 180°, 270° that spin -, +, -, +
    const yaw = torque[2] / (4 * YAW_PER_N),
      thrust = [
        lift / 4 - torque[1] / (2 * FRAME.arm) + yaw,
        lift / 4 + torque[0] / (2 * FRAME.arm) - yaw,
        lift / 4 + torque[1] / (2 * FRAME.arm) + yaw,
        lift / 4 - torque[0] / (2 * FRAME.arm) - yaw,
      ];
    this.throttle = this.throttle.map(
      (now, i) => now + FRAME.closing * (Math.sqrt(clamp(thrust[i] / MOST, 0, 1)) - now),
    );
    const [a, b, c, d] = this.throttle.map((t) => t * t * MOST),
      made = [FRAME.arm * (b - d), FRAME.arm * (c - a), YAW_PER_N * (a - b + c - d)],
      spin = cross(
        this.rates,
        FRAME.inertia.map((m, i) => m * this.rates[i]),
      );
    this.rates = this.rates.map((r, i) => r + ((made[i] - spin[i]) / FRAME.inertia[i]) * dt);
    this.quaternion = rotated(
      this.quaternion,
      this.rates.map((r) => r * dt),
    );
    const acceleration = (a + b + c + d) / FRAME.mass;
    axes[2].forEach((up, i) => (this.velocity[i] += (up * acceleration - (i === 2 ? GRAVITY : 0)) * dt));
  }
}

function rotated([aw, ax, ay, az], turn) {
  const angle = Math.hypot(...turn),
    scale = angle > 1e-4 ? Math.sin(angle / 2) / angle : 0.5 - (angle * angle) / 48,
    bw = Math.cos(angle / 2),
    [bx, by, bz] = turn.map((t) => t * scale);
  const out = [
    aw * bw - ax * bx - ay * by - az * bz,
    aw * bx + ax * bw + ay * bz - az * by,
    aw * by - ax * bz + ay * bw + az * bx,
    aw * bz + ax * by - ay * bx + az * bw,
  ];
  const length = Math.hypot(...out);
  return out.map((q) => q / length);
}
