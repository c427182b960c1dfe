// A recorded duel: both pictures, one timeline, readouts, and the results of the evaluation it is from.
import { place } from "./data.js";
import { AZIMUTHS, CARRIED, DuelScene, POINTS, SLOTS } from "./duelscene.js";
import { explain, moment } from "./lessons.js";
import { Timeline } from "./timeline.js";
import { button, choice, el, keyboardHelp, percent, theme, titled, toggle, typing } from "./ui.js";

const SOUND = 340,
  GRAVITY = 9.8,
  RADIUS = 1000;
export const CAMERAS = [
  ["orbit", "Orbit", "Both aircraft (1)"],
  ["chase", "Chase", "Behind the own aircraft (2)"],
  ["top", "Top", "From above (3)"],
];

export class DuelView {
  constructor(host, recording, { controls = [], run = "" } = {}) {
    this.recording = recording;
    const { meta, times } = recording;
    this.names = meta.names ?? ["side 1", "side 2"];
    this.times = times;
    this.reach = reachOf(recording.arrays);
    const alive = recording.arrays["fighter.alive"].values;
    this.downs = [0, 1].map((k) => times.find((_, row) => !alive[2 * row + k]) ?? Infinity); // when each was hit
    const { debrief } = meta;
    if (debrief && debrief.time !== null && !recording.events.some((e) => e.kind === "decided")) {
      recording.events.push({ time: debrief.time, kind: "decided", text: "decided: see the debrief", body: "" });
      recording.events.sort((p, q) => p.time - q.time);
    }
    const planeHost = el("div", { class: "stage" }),
      spaceHost = el("div", { class: "stage" });
    this.panel = el("aside", { class: "panel", "aria-label": "details" });
    this.timeline = new Timeline(times, recording.events, {
      onTime: () => {
        this.moved = true;
      },
      kinds: {
        jump: "event",
        jumpTo: ["launch", "decided", "hit", "lost", "end"],
        colors: { launch: "own", decided: "escape", hit: "threat", lost: "muted" },
      },
    });
    this.sides = choice(
      "whose view",
      [
        ["1", this.names[0]],
        ["2", this.names[1]],
      ],
      "1",
      (s) => this.setSide(+s),
    );
    this.cameras = choice("camera", CAMERAS, "orbit", (c) => {
      this.scene.setCamera(c);
      this.moved = true;
    });
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
      el("span", { class: "group" }, el("span", { class: "hint", text: "seen by" }), this.sides),
      this.cameras,
      button("", () => this.help(), { iconName: "help", title: "Keys (?)" }),
    );
    this.element = el(
      "div",
      { class: "viewer" },
      el(
        "div",
        { class: "main" },
        bar,
        el(
          "div",
          { class: "split" },
          el("figure", {}, planeHost),
          el(
            "figure",
            {},
            spaceHost,
            el("figcaption", { text: "Spacetime: the plane now, and the next 20 s above it" }),
          ),
        ),
        this.timeline.element,
      ),
      this.panel,
    );
    host.append(this.element);
    this.scene = new DuelScene(planeHost, spaceHost);
    this.scene.fitCamera = this.scene.jumpCamera = true;
    this._panel();
    this._unsubscribe = theme.onChange(() => {
      this.moved = true;
    });
    this.moved = true;
    if (meta.shown_side) this.setSide(meta.shown_side);
  }

  setSide(side) {
    this.scene.setSide(side);
    this.sides.set(side);
    this.moved = true;
  }

  state(t) {
    const { arrays } = this.recording,
      [row, part] = place(this.times, t),
      next = Math.min(row + 1, this.times.length - 1),
      v = (name) => arrays[name].values;
    const mix = (name, i, width, c) => {
      const a = v(name)[(row * width[0] + i) * width[1] + c],
        b = v(name)[(next * width[0] + i) * width[1] + c];
      return Number.isNaN(b) ? a : a + (b - a) * part;
    };
    const fighters = [0, 1].map((k) => ({
      x: mix("fighter.position", k, [2, 2], 0),
      y: mix("fighter.position", k, [2, 2], 1),
      vx: mix("fighter.velocity", k, [2, 2], 0),
      vy: mix("fighter.velocity", k, [2, 2], 1),
      alive: v("fighter.alive")[2 * row + k] > 0,
      missiles: v("fighter.missiles")[2 * row + k],
      rudder: v("fighter.rudder")[2 * row + k],
    }));
    const missiles = [];
    for (let slot = 0; slot < SLOTS; slot++) {
      const age = v("missile.age")[row * SLOTS + slot];
      if (age >= 0)
        missiles.push({
          slot,
          age,
          x: mix("missile.position", slot, [SLOTS, 2], 0),
          y: mix("missile.position", slot, [SLOTS, 2], 1),
          vx: mix("missile.velocity", slot, [SLOTS, 2], 0),
          vy: mix("missile.velocity", slot, [SLOTS, 2], 1),
        });
    }
    const history = (name, width, k, from = 0) => {
      const out = [];
      for (let r = from; r <= row; r++) {
        const i = 2 * (r * width + k),
          x = v(name)[i];
        if (!Number.isNaN(x)) out.push(x, v(name)[i + 1]);
      }
      return out;
    };
    const trails = [0, 1].map((k) => [...history("fighter.position", 2, k), fighters[k].x, fighters[k].y]);
    const smoke = Array.from({ length: SLOTS }, (_, slot) => history("missile.position", SLOTS, slot));
    for (const m of missiles) smoke[m.slot].push(m.x, m.y);
    const blasts = this.downs.map((time, k) => ({ x: fighters[k].x, y: fighters[k].y, age: t - time }));
    return { fighters, missiles, trails, smoke, blasts };
  }

  diagram(t) {
    const { arrays } = this.recording,
      clock = arrays["clock:diagram"]?.values;
    if (!clock?.length) return null;
    const [row, part] = place(clock, t),
      next = Math.min(row + 1, clock.length - 1);
    const mix = (name) => {
      const { values, row: width } = arrays[`diagram/${name}`],
        out = new Float32Array(width);
      for (let i = 0; i < width; i++) {
        const a = values[row * width + i],
          b = values[next * width + i];
        out[i] = Number.isNaN(b) ? a : a + (b - a) * part;
      }
      return out;
    };
    return {
      path: mix("path"),
      escape: mix("escape"),
      missile: mix("missile"),
      range: mix("range"),
      contour: mix("contour"),
      reach: this.reach,
    };
  }

  update() {
    this.now = this.state(this.timeline.time);
    this.shown = this.diagram(this.timeline.time);
    if (!this.timeline.playing) this.scene.jumpCamera = true;
    this.scene.update(this.now, this.shown);
    const t = performance.now();
    if (!this.timeline.playing || t - (this._told ?? 0) > 100) {
      this._told = t;
      this._describe();
    }
  }

  _panel() {
    const { meta } = this.recording;
    this.readouts = [0, 1].map(() => el("div", { class: "readout" }));
    this.shots = [0, 1].map(() => el("div", { class: "shot" }));
    this.log = el(
      "ol",
      { class: "log" },
      this.recording.events.map((e) =>
        el(
          "li",
          {},
          el(
            "button",
            { type: "button", onclick: () => this.timeline.seek(e.time) },
            el("span", { text: `${e.time.toFixed(1)} s` }),
            ` ${e.text}`,
          ),
        ),
      ),
    );
    this.panel.append(
      el(
        "section",
        {},
        el("div", { class: "pair" }, ...this.readouts),
        (this.range = el("p", { class: "range" })),
        ...this.shots,
      ),
      el(
        "section",
        {},
        toggle("ranges and escapes", true, (on) => {
          this.scene.hints = on;
          this.moved = true;
        }),
        legend(),
        ranges(),
      ),
      el("section", {}, el("h2", { text: "Events" }), this.log),
    );
    if (meta.debrief)
      this.panel.prepend(
        el(
          "section",
          {},
          el("h2", { text: "Debrief" }),
          el("p", { text: explain(meta.debrief, this.names.map(you)) }),
          meta.debrief.time === null
            ? ""
            : button(`Go to ${moment(meta.debrief.time)}`, () => this.timeline.seek(meta.debrief.time)),
        ),
      );
    if (meta.pairs?.length) this.panel.append(results(meta.pairs));
    this.panel.append(
      el(
        "details",
        {},
        el("summary", { text: "About this recording" }),
        el("pre", { text: JSON.stringify({ ...meta, pairs: undefined }, null, 1) }),
      ),
    );
  }

  _describe() {
    describeDuel(this, this.now, this.shown, this.scene.side, this.names);
    const at = this.recording.events.filter((e) => e.time <= this.timeline.time + 1e-6).length;
    [...this.log.children].forEach((li, i) => li.classList.toggle("past", i < at));
  }

  key(e) {
    if (typing(e)) return false;
    if (this.timeline.key(e)) return true;
    const camera = CAMERAS[+e.key - 1];
    if (camera) {
      this.cameras.set(camera[0]);
      this.scene.setCamera(camera[0]);
      this.moved = true;
      return true;
    }
    if (e.key === "v") {
      this.setSide(3 - this.scene.side);
      return true;
    }
    const turn = { q: 0.12, e: -0.12, 9: 0.12, 0: -0.12 }[e.key];
    if (turn) {
      this.scene.space.turn(turn, 0);
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
      ["C", "next event; with shift the one before"],
      ["V", "the other side's view"],
      ["1 2 3", "orbit, chase, top"],
      ["Q E", "turn the spacetime diagram"],
      ["drag", "turn either picture; scroll or pinch to zoom"],
    ]);
  }
  frame(dt) {
    this.timeline.advance(dt);
    if (this.scene.moved) {
      this.scene.moved = false;
      this.moved = true;
    }
    if (this.moved) {
      this.moved = false;
      this.update();
    }
    return this.scene.frame(this.names);
  }
  dispose() {
    this._unsubscribe();
    this.timeline.dispose();
    this.scene.dispose();
    this.element.remove();
  }
}

// The table of reachable sets as a function of the carrier's speed.
export function reachOf(arrays) {
  const speeds = arrays["reach.speed"]?.values,
    polygon = arrays["reach.polygon"],
    mach = arrays["reach.mach"];
  if (!speeds) return () => ({});
  return (speed) => {
    const k = Math.min(
      Math.max(Math.round((speed - speeds[0]) / ((speeds[1] ?? speeds[0] + 10) - speeds[0])), 0),
      speeds.length - 1,
    );
    return {
      polygon: polygon.values.subarray(k * polygon.row, (k + 1) * polygon.row),
      mach: mach.values.subarray(k * mach.row, (k + 1) * mach.row),
    };
  };
}

export function verdict([range, rMax, rMin, rNe], missiles) {
  if (!missiles) return ["no missiles left", ""];
  if (range < rMin) return ["too near", ""];
  if (range <= rNe) return ["NO ESCAPE", "urgent"];
  if (range <= rMax) return ["in reach", "near"];
  return ["out of reach", ""];
}

// Readouts of both sides, and how a shot of either would end.
export function describeDuel(view, now, diagram, side, names) {
  const own = side - 1;
  now.fighters.forEach((f, k) => {
    const speed = Math.hypot(f.vx, f.vy),
      g = (speed * speed * f.rudder) / RADIUS / GRAVITY,
      mine = k === own;
    view.readouts[k].className = `readout ${mine ? "own" : "threat"}`;
    view.readouts[k].replaceChildren(
      el("h2", { text: names[k] }),
      el("b", { text: f.alive ? `M ${(speed / SOUND).toFixed(2)}` : "down" }),
      el("span", { text: `${g >= 0 ? "+" : "−"}${Math.abs(g).toFixed(1)} g` }),
      el("span", {
        class: "pips",
        "aria-label": `${f.missiles} missiles`,
        text: "▮".repeat(f.missiles) + "▯".repeat(Math.max(CARRIED - f.missiles, 0)),
      }),
    );
  });
  const both = now.fighters[0].alive && now.fighters[1].alive;
  if (!diagram) return;
  view.range.textContent = `range ${(diagram.range[0] / 1000).toFixed(1)} km`;
  for (const k of [0, 1]) {
    const shooter = k === 0 ? 1 - own : own,
      r = Array.from(diagram.range.subarray(4 * shooter, 4 * shooter + 4)),
      [text, mood] = verdict(r, now.fighters[shooter].missiles);
    view.shots[k].className = `shot ${shooter === own ? "own" : "threat"} ${mood}`;
    view.shots[k].hidden = !both;
    const km = (x) => (x / 1000).toFixed(1),
      part = (x) => Math.min(x / 600, 100),
      scale = (x) => `${part(x)}%`,
      span = (a, b) => `left:${scale(a)};width:${Math.max(part(b) - part(a), 0)}%`;
    view.shots[k].replaceChildren(
      el(
        "div",
        { class: "row" },
        el("span", { text: shooter === own ? "own shot" : "enemy's shot" }),
        el("b", { text }),
      ),
      el(
        "div",
        { class: "bar" },
        el("i", { class: "rmax", style: span(r[2], r[1]) }),
        el("i", { class: "rne", style: span(r[2], r[3]) }),
        el("i", { class: "here", style: `left:${scale(r[0])}` }),
      ),
      el("small", { text: `r_min ${km(r[2])}   R_ne ${r[3] ? km(r[3]) : "–"}   R_max ${km(r[1])} km` }),
    );
  }
}

export function legend() {
  const rows = [
    ["own", "line", "own path, rudder held"],
    ["escape", "dash", "turn and run"],
    ["missile", "line", "incoming missile"],
    ["own", "dots", "own missile"],
    ["threat", "line", "enemy's path"],
    ["threat", "area", "reach of a missile launched now"],
    ["threat", "dash", "R_max"],
    ["threat", "line", "R_ne"],
    ["threat", "diamond", "in its reach then"],
    ["escape", "ring", "outside"],
  ];
  const list = el(
    "ul",
    { class: "legend" },
    rows.map(([color, shape, text]) =>
      el("li", {}, el("i", { class: `${shape} ${color}`, "aria-hidden": "true" }), text),
    ),
  );
  return el("details", {}, el("summary", { text: "What the lines mean" }), list);
}

export function ranges() {
  const text = (...parts) => el("p", {}, ...parts),
    name = (x) => el("b", { text: x });
  return el(
    "details",
    {},
    el("summary", { text: "What R_max and R_ne mean" }),
    text(name("R_max"), ": a missile fired from here hits an enemy that flies straight on."),
    text(name("R_ne"), " (no escape): it hits even if the enemy turns its tail at the launch and runs."),
    text("Between both, the shot works only if the enemy reacts too late. Nearer than ", name("r_min"), ", it cannot."),
    text("They change with speed and direction: nose to nose they are long, behind somebody who runs they are short."),
  );
}

export const you = (name) => (name === "player" ? "you" : name);

function results(pairs) {
  const parts = Object.keys(pairs[0].parts ?? {}),
    share = (counts) => {
      const n = counts.reduce((a, b) => a + b, 0);
      return n ? counts.map((c) => percent(c, n)).join("/") : "–";
    };
  return el(
    "section",
    {},
    el("h2", { text: "Results" }),
    el("p", { class: "hint", text: "won/drawn/lost, % of games, for the first of each pair" }),
    el(
      "div",
      { class: "scroll" },
      el(
        "table",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ["", "all", ...parts].map((t) => el("th", { text: t })),
          ),
        ),
        el(
          "tbody",
          {},
          pairs.map((p) =>
            el(
              "tr",
              {},
              el("th", { scope: "row", text: `${p.red} – ${p.blue}` }),
              el("td", { text: share(p.all) }),
              ...parts.map((q) => el("td", { text: share(p.parts[q]) })),
            ),
          ),
        ),
      ),
    ),
  );
}
