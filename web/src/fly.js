// A page that flies by itself: the policy and the world are inside the file, nothing is fetched.
import { AT_GOAL, COLLIDED, FLYING, Field } from "./field.js";
import { LiveFlight } from "./liveflight.js";
import { Policy } from "./onnx.js";
import { button, choice, el, keyboardHelp, percent, toggle, typing } from "./ui.js";

const PAUSE_S = 1.5, // at the end of a flight
  VIEWS = [
    ["follow", "Follow", "Fly behind the drone (1)"],
    ["orbit", "Orbit", "Turn around the field (2)"],
    ["top", "Top", "From above (3)"],
    ["first", "First person", "From the drone (4)"],
  ];

export class FlyView {
  constructor(host, bytes, { controls = [], title = "" } = {}) {
    this.policy = new Policy(bytes);
    this.settings = JSON.parse(this.policy.about.env ?? "{}");
    if (this.policy.about.task !== "navigation") throw new Error("This page flies navigation policies only.");
    this.speeds = this.settings.actions === "discrete" ? this.settings.discrete_speeds_mps : null;
    this.decision = this.settings.dt_s * this.settings.decision_interval;
    this.map = 1;
    this.ended = { flights: 0, reached: 0, collided: 0 };
    this.stageHost = el("div", { class: "stage" });
    this.facts = el("dl", { class: "facts" });
    this.views = choice("camera", VIEWS, "follow", (name) => this.setCamera(name));
    this.playButton = button("Pause", () => this.setPlaying(!this.playing), { title: "Pause or continue (space)" });
    const bar = el(
      "div",
      { class: "stagebar" },
      el(
        "div",
        { class: "title" },
        el("h1", { text: title || "A policy flies" }),
        el("p", { text: "computed in this page: no server, nothing is fetched" }),
      ),
      ...controls,
      this.views,
      this.playButton,
      button("New map", () => this.newMap(), { title: "Another map (N)" }),
      button("", () => this.help(), { iconName: "help", title: "Keys (?)" }),
    );
    const panel = el(
      "aside",
      { class: "panel", "aria-label": "details" },
      el("section", {}, el("h2", { text: "Flight" }), this.facts),
      el(
        "section",
        {},
        el("h2", { text: "Show" }),
        toggle("LiDAR beams", true, (on) => this.live.setBeams(on)),
      ),
      el(
        "details",
        {},
        el("summary", { text: "About this policy" }),
        el("pre", { text: JSON.stringify({ ...this.policy.about, env: this.settings }, null, 1) }),
      ),
    );
    this.element = el("div", { class: "viewer" }, el("div", { class: "main" }, bar, this.stageHost), panel);
    host.append(this.element);
    this.playing = true;
    this.start();
  }

  // A map of its own seed; the policy has not seen it.
  start() {
    this.field = new Field(this.settings, this.map, 1);
    this.live?.dispose();
    this.live = new LiveFlight(this.stageHost, this._setup());
    this.setCamera("follow");
    this.behind = 0;
    this.rest = 0;
    this.time = 0;
    this.before = this.after = this._state();
  }
  setCamera(name) {
    this.views.set(name);
    this.live.setCamera(name);
    if (name === "follow") Object.assign(this.live.stage, { distance: 8, polar: 0.6 }); // above the obstacles
  }
  newMap() {
    this.map++;
    this.start();
  }
  setPlaying(on) {
    this.playing = on;
    this.playButton.textContent = on ? "Pause" : "Continue";
  }

  _setup() {
    const { boxes, movers, drones } = this.field,
      { map_half_m, lidar, lidar_sees_moving: sees_moving } = this.settings;
    const array = (values, ...shape) => ({ values: Float32Array.from(values.flat()), shape });
    return {
      scene: "flight",
      meta: { map_half_m, lidar: { ...lidar, sees_moving }, goal_radius_m: 0.5, summary: "" },
      groups: [],
      arrays: {
        box: array(boxes, boxes.length, 5),
        "mover.size": array(
          movers.map((m) => [m.width, m.height]),
          movers.length,
          2,
        ),
        "drone.goal": array([drones[0].goal], 1, 3),
        "drone.yaw": array([drones[0].yaw], 1),
      },
    };
  }

  _state() {
    const drones = this.field.drones.map(({ position: [x, y, z], velocity: [vx, vy, vz], status }) => ({
      ...{ x, y, z, vx, vy, vz, status },
    }));
    return {
      time: this.time,
      drones,
      movers: Float32Array.from(this.field.movers.flatMap((m) => m.position)),
    };
  }

  act() {
    const drone = this.field.drones[0],
      inputs = this.field.observe(),
      width = this.policy.about.memory ? JSON.parse(this.policy.about.memory).shape[0] : 0;
    if (width) inputs.memory = { dims: [1, width], data: drone.memory ?? new Float32Array(width) };
    const { action, memory_out: memory } = this.policy.run(inputs);
    drone.memory = memory?.data ?? null;
    if (!this.speeds) return Array.from(action.data);
    const n = this.speeds.length,
      index = action.data[0];
    return [Math.floor(index / (n * n)), Math.floor(index / n) % n, index % n].map((i) => this.speeds[i]);
  }

  // One decision; a flight that has ended rests a moment and begins again.
  step() {
    const drone = this.field.drones[0];
    this.before = this.after;
    if (drone.status === FLYING) {
      this.field.step([this.act()]);
      if (drone.status !== FLYING) {
        this.ended.flights++;
        this.ended.reached += drone.status === AT_GOAL;
        this.ended.collided += drone.status === COLLIDED;
        this.rest = PAUSE_S;
      }
    } else if ((this.rest -= this.decision) <= 0) {
      this.field.restart(drone);
      const { arrays } = this.live.view.recording;
      arrays["drone.goal"].values.set(drone.goal);
      arrays["drone.yaw"].values[0] = drone.yaw;
      const goal = this.live.view.marks.geometry.getAttribute("position");
      goal.array.set([drone.goal[0], drone.goal[2], -drone.goal[1]]);
      goal.needsUpdate = true;
      this.time = -this.decision;
      this.before = null;
    } else this.field.step([[0, 0, 0]]); // obstacles go on moving
    this.time += this.decision;
    this.after = this._state();
    this.before ??= this.after;
    this.live.view.recording.arrays["drone.yaw"].values[0] = drone.yaw;
  }

  frame(dt) {
    if (this.playing) {
      this.behind = Math.min(this.behind + dt, 4 * this.decision); // a slow machine flies slower, not in jumps
      while (this.behind >= this.decision) {
        this.behind -= this.decision;
        this.step();
      }
      this.live.update({ a: this.before, b: this.after, part: this.behind / this.decision });
      this._describe();
    }
    return this.live.frame(["drone"]);
  }

  _describe() {
    const now = performance.now();
    if (now - (this.described ?? 0) < 200) return;
    this.described = now;
    const { flights, reached, collided } = this.ended,
      drone = this.field.drones[0],
      names = ["flying", "goal reached", "collided", "timed out"];
    const rows = [
      ["map", String(this.map)],
      ["state", names[drone.status]],
      ...this.live.facts({ b: this.after }, ["drone"]).slice(drone.status === FLYING ? 0 : 1),
      ["flights", String(flights)],
      ["goal reached", flights ? `${reached} (${percent(reached, flights)} %)` : "–"],
      ["collided", String(collided)],
    ];
    this.facts.replaceChildren(...rows.flatMap(([a, b]) => [el("dt", { text: a }), el("dd", { text: b })]));
  }

  get stage() {
    return this.live.stage;
  }
  key(e) {
    if (typing(e)) return false;
    const view = VIEWS[+e.key - 1];
    if (view) this.setCamera(view[0]);
    else if (e.key === " ") this.setPlaying(!this.playing);
    else if (e.key === "n") this.newMap();
    else if (e.key === "?") this.help();
    else return false;
    return true;
  }
  help() {
    keyboardHelp([
      ["space", "pause or continue"],
      ["N", "another map"],
      ["1 2 3 4", "follow, orbit, top, first person"],
      ["T", "dark or light"],
      ["drag", "turn; scroll or pinch to zoom"],
    ]);
  }
  dispose() {
    this.live.dispose();
    this.element.remove();
  }
}
