// A race of drones through the field, live: a flight of one row that changes with every state.
import { FlightView } from "./flight.js";
import { el, theme } from "./ui.js";

const FLYING = 0;

export class LiveFlight {
  constructor(host, setup) {
    const count = setup.arrays["drone.goal"].shape[0],
      movers = setup.arrays["mover.size"].shape[0],
      a = setup.arrays,
      rows = (n) => ({ values: new Float32Array(2 * n * 3), shape: [2, n, 3], row: n * 3 });
    const recording = {
      ...setup,
      title: "",
      events: [],
      times: new Float64Array([0, 1]),
      arrays: {
        ...a,
        "drone.position": rows(count),
        "drone.outcome": { values: new Uint8Array(count).fill(1), shape: [count] },
      },
    };
    if (movers) recording.arrays["mover.position"] = rows(movers);
    const goal = a["drone.goal"].values;
    for (let t = 0; t < 2; t++)
      for (let k = 0; k < count; k++)
        recording.arrays["drone.position"].values.set(
          [k * 1.5 - 0.75, -goal[3 * k + 1], goal[3 * k + 2]],
          3 * (t * count + k),
        );
    this.hidden = el("div", { hidden: true });
    host.append(this.hidden);
    this.view = new FlightView(this.hidden, recording, { live: true });
    this.stage = this.view.stage;
    this.view.stageHost.style.cssText = "position:absolute;inset:0";
    host.append(this.view.stageHost);
    this.view.chosen = 0;
    this.view.trail = 0;
    this.stage.resize();
    this.setCamera("follow");
  }
  setCamera(name) {
    this.view.setView(name);
    if (name === "follow") Object.assign(this.stage, { distance: 6, polar: 1.18, azimuth: this.view._ahead() });
    this.view.moved = true;
  }
  setBeams(on) {
    this.view.beams = on;
    this.view.moved = true;
  }

  read(v, at) {
    const f = () => {
      const x = v.getFloat32(at, true);
      at += 4;
      return x;
    };
    const time = f(),
      winner = v.getInt8(at++),
      drones = v.getUint8(at++),
      count = v.getUint8(at++);
    const list = Array.from({ length: drones }, () => ({
      x: f(),
      y: f(),
      z: f(),
      vx: f(),
      vy: f(),
      vz: f(),
      status: v.getUint8(at++),
    }));
    return { time, winner, drones: list, movers: new Float32Array(v.buffer.slice(at, at + 12 * count)) };
  }

  update({ a, b, part }) {
    const view = this.view,
      p = view.position.values,
      n = view.count,
      mix = (q, r) => q + (r - q) * part;
    if (b.time < (this.traced ?? 0)) {
      view.traces = null;
      this.traced = 0;
    }
    view.traces ??= b.drones.map(() => []);
    b.drones.forEach((d, k) => {
      const e = a.drones[k],
        x = mix(e.x, d.x),
        y = mix(e.y, d.y),
        z = mix(e.z, d.z);
      p.set([x, y, z], 3 * k);
      p.set([x + d.vx, y + d.vy, z + d.vz], 3 * (n + k));
      if (b.time - (this.traced ?? 0) > 0.08) view.traces[k].push(x, y, z);
    });
    if (b.time - (this.traced ?? 0) > 0.08) this.traced = b.time;
    if (view.movers) {
      const m = view.movers.values;
      for (let i = 0; i < b.movers.length; i++)
        m[i] = m[b.movers.length + i] = mix(a.movers[i] ?? b.movers[i], b.movers[i]);
    }
    view.moved = true;
  }
  facts({ b }, names) {
    const goal = this.view.recording.arrays["drone.goal"].values;
    return b.drones
      .flatMap((d, k) => [
        [
          names[k],
          d.status === FLYING
            ? `${Math.hypot(goal[0] - d.x, goal[1] - d.y).toFixed(1)} m to go`
            : d.status === 1
              ? "at the goal"
              : "collided",
        ],
        ["speed", `${Math.hypot(d.vx, d.vy, d.vz).toFixed(1)} m/s`],
      ])
      .concat([["time", `${b.time.toFixed(1)} s`]]);
  }
  frame(names) {
    if (!this.view.frame(0)) return false;
    const { view, stage } = this,
      goal = view.recording.arrays["drone.goal"].values,
      p = view.position.values,
      c = theme.colors;
    stage.label(`goal ${Math.hypot(goal[0] - p[0], goal[1] - p[1]).toFixed(0)} m`, goal[0], goal[2], -goal[1], {
      color: c.ink,
      size: 13,
      bold: true,
      dy: -20,
      plate: true,
    });
    if (view.count > 1)
      stage.label(names[1], p[3], p[5], -p[4], { color: c.threat, size: 13, bold: true, dy: -20, plate: true });
    return true;
  }
  dispose() {
    this.view.dispose();
    this.hidden.remove();
  }
}
