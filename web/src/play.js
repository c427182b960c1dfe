// A game against agents or another person: the server flies, this page sends controls and draws what comes back.
import { openRecording } from "./data.js";
import { CAMERAS, describeDuel, legend, ranges, reachOf, you } from "./duel.js";
import { AZIMUTHS, CARRIED, DuelScene, POINTS, SLOTS } from "./duelscene.js";
import { LiveFlight } from "./liveflight.js";
import { LESSONS, explain, moment, pass, passed, tip } from "./lessons.js";
import { BLAST_S } from "./puffs.js";
import { LOST, ask, isRefused } from "./site.js";
import { Sound } from "./sound.js";
import { button, choice, el, icon, kept, keyboardHelp, message, toggle, typing } from "./ui.js";

const PREFIX = 22,
  STATE = 1,
  EXTRAS = 2; // bytes before a state, and the kinds of binary messages
const DELAY = 0.03; // s that the picture is behind, so that there are two states to draw between
const INBOUND_S = 60,
  FRESH_S = 5; // to a missile at its present closing speed: it is shown; it hits, whatever the diagram says
const LEAD_S = 3, // a replay begins so long before the moment that decided
  MOST_KEPT = 1200; // diagrams of a game that are kept for the debrief: 5 minutes
const RAMP = 0.06; // s in which a key moves the rudder to its end
const KEYS = {
  // one set for each hand
  left: { left: "KeyA", right: "KeyD", more: "KeyW", less: "KeyS", fire: "KeyT" },
  right: { left: "ArrowLeft", right: "ArrowRight", more: "ArrowUp", less: "ArrowDown", fire: "Equal" },
};

export class PlayView {
  constructor(host, site) {
    this.host = host;
    this.site = site;
    this.held = new Set();
    this.states = [];
    this.pads = [neutral(), neutral()];
    this.number = 0;
    this.seat = null;
    this.twoHands = false;
    this.sound = new Sound();
    this.film = []; // moments with their diagrams
    this.delays = [];
    this.status = { paused: true, scores: [], ratings: {}, seats: [] };
    host.append((this.waiting = message("Connecting", "The game starts in a moment.")));
    this._start();
  }

  async _start() {
    try {
      const answer = await ask("/api/play/setup");
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      this.setup = await openRecording(await answer.arrayBuffer());
    } catch (error) {
      this.waiting.replaceWith(
        (this.waiting = message("No game here", `${error.message ?? error}. slipstream play hosts one.`)),
      );
      return;
    }
    if (this.gone) return;
    this.waiting.remove();
    try {
      this._build();
    } catch (error) {
      this.host.append(message("Nothing can be drawn", String(error)));
      return;
    }
    this._connect();
  }

  _rebuild() {
    const socket = this.socket;
    socket.onclose = null;
    socket.close();
    clearInterval(this.timer);
    this.listeners.abort();
    this.scene.dispose();
    this.element.remove();
    this.scene = null;
    this.states = [];
    this.host.append((this.waiting = message("Opening the field", "")));
    this._start();
  }

  get duel() {
    return this.setup.scene === "duel";
  }

  _build() {
    const meta = this.setup.meta;
    this.reach = reachOf(this.setup.arrays);
    const main = el("div", { class: "stage" }),
      space = el("div", { class: "stage" });
    this.banner = el("div", { class: "banner", role: "status", "aria-live": "polite" });
    this.alert = el("div", { class: "alert", role: "status", "aria-live": "assertive" });
    this.hud = el("div", { class: "hud" });
    this.readouts = [0, 1].map(() => el("div", { class: "readout" }));
    this.shots = [0, 1].map(() => el("div", { class: "shot" }));
    this.range = el("p", { class: "range" });
    const two = "two people";
    this.opponent = el(
      "select",
      { "aria-label": "opponent" },
      Object.entries(meta.opponents).map(([value, text]) => el("option", { value, text })),
      meta.people > 1
        ? [
            el("option", { value: "", text: `${two}, two browsers` }),
            el("option", { value: "2", text: `${two}, two sets of keys` }),
          ]
        : [],
    );
    this.opponent.value = meta.opponent ?? "";
    this.starts = el(
      "select",
      { "aria-label": "start" },
      meta.starts.map((value) =>
        el("option", {
          value,
          text: LESSONS[value] ? `lesson: ${LESSONS[value].name.toLowerCase()}` : value.replace("_", " "),
        }),
      ),
    );
    this.starts.value = meta.start;
    this.scales = el(
      "select",
      {
        "aria-label": "time scale",
        title: "Time scale",
        onchange: () => this.say({ kind: "scale", scale: +this.scales.value }),
      },
      (this.site.index?.play?.scales ?? [0.25, 0.5, 1, 2]).map((s) => el("option", { value: s, text: `${s}×` })),
    );
    this.scales.value = 1;
    this.pauseButton = button("Pause", () => this.pause(), { title: "Pause (P)" });
    this.cameras = choice("camera", this.cameraNames, this.cameraNames[0][0], (c) => this.scene.setCamera(c));
    const bar = el(
      "div",
      { class: "stagebar play" },
      el("label", { class: "group" }, el("span", { class: "hint", text: "against" }), this.opponent),
      this.starts,
      button("New game", () => this.begin(), { title: "New game (Enter)", className: "primary" }),
      this.pauseButton,
      this.scales,
      el("span", { class: "spring" }),
      this.cameras,
      (this.soundButton = this.duel ? button("", () => this.setSound(!this.sound.on)) : ""),
      button("", () => this.help(), { iconName: "help", title: "Keys (?)" }),
    );
    this.sheet = el("div", {});
    this.panel = el(
      "aside",
      { class: "panel", "aria-label": "details" },
      this.duel
        ? el("section", {}, el("div", { class: "pair" }, ...this.readouts), this.range, ...this.shots)
        : el("section", {}, (this.race = el("dl", { class: "facts" }))),
      el(
        "section",
        {},
        toggle(this.duel ? "hints" : "LiDAR beams", true, (on) => this.setHints(on)),
        this.duel
          ? toggle(
              "camera shake",
              (this.shakes = kept("shake", !matchMedia("(prefers-reduced-motion)").matches)),
              (on) => kept.set("shake", (this.scene.shakes = on)),
            )
          : "",
        this.duel ? legend() : "",
        this.duel ? ranges() : "",
      ),
      this.duel ? el("section", {}, el("h2", { text: "Lessons" }), (this.course = el("div", {}))) : "",
      el("section", {}, el("h2", { text: "Score" }), this.sheet),
      el("section", {}, el("h2", { text: "Connection" }), (this.link = el("p", { class: "hint", text: "–" }))),
    );
    this.hints = true;
    this.touch = this._touch();
    const pictures = this.duel
      ? el(
          "div",
          { class: "split" },
          el("figure", {}, main, this.hud, this.alert),
          el("figure", { class: "space" }, space, (this.caption = el("figcaption", { text: NOW }))),
        )
      : el("div", { class: "split one" }, el("figure", {}, main, this.hud, this.alert));
    this.element = el(
      "div",
      { class: "viewer" },
      el("div", { class: "main" }, bar, el("div", { class: "arena" }, pictures, this.banner, this.touch)),
      this.panel,
    );
    this.host.append(this.element);
    this.scene = this.duel ? new DuelScene(main, space) : new LiveFlight(main, this.setup);
    this.scene.autoZoom = true;
    this.scene.thumbs = matchMedia("(pointer: coarse)").matches; // they cover the lower edge
    this.scene.jumpCamera = this.scene.fitCamera = true;
    if (this.duel) {
      this.scene.plane.keysTaken = true;
      this.scene.shakes = this.shakes;
      this._showSound();
    }
    this.listeners = new AbortController();
    const on = (name, f, target = window) => target.addEventListener(name, f, { signal: this.listeners.signal });
    on("keyup", (e) => {
      this.held.delete(e.code);
    });
    on("blur", () => this.held.clear());
    on(
      "visibilitychange",
      () => {
        if (document.hidden && this.playing) this.pause();
      },
      document,
    );
    // A control that was used with the mouse gives the keys back to the game.
    on("pointerdown", () => {
      this.pointed = true;
      this.sound.start();
    });
    on("keydown", () => {
      this.pointed = false;
      this.sound.start();
    });
    for (const name of ["click", "change"])
      on(
        name,
        (e) => {
          if (this.pointed && (name === "change" || e.target.closest("button"))) document.activeElement?.blur?.();
        },
        this.element,
      );
    let before = performance.now();
    this.timer = setInterval(() => {
      const now = performance.now(),
        dt = Math.min((now - before) / 1000, 0.1);
      before = now;
      if (this.playing) {
        this._controls(dt);
        if (!this.states.length && now - this.begun > 1000)
          this._banner(
            "Preparing the game",
            "The first game on a machine compiles the flight model. This takes up to half a minute.",
          );
      }
    }, 16); // not with the pictures: they may be slow
    this._show();
  }

  // Throttle and rudder for two thumbs.
  _touch() {
    const stick = el("div", { class: "stick", role: "application", "aria-label": "rudder and throttle" }, el("i")),
      fire = el("button", { type: "button", class: "fire", text: this.duel ? "Fire" : "Up" });
    const pads = el(
      "div",
      { class: "touch" },
      stick,
      this.duel ? "" : el("button", { type: "button", class: "fire down", text: "Down" }),
      fire,
    );
    const move = (e) => {
      const r = stick.getBoundingClientRect(),
        clip = (x) => Math.min(Math.max(x, -1), 1),
        x = clip(((e.clientX - r.left) / r.width) * 2 - 1),
        y = clip(((e.clientY - r.top) / r.height) * 2 - 1);
      this.stick = [x, y];
      stick.firstChild.style.transform = `translate(${x * 36}px, ${y * 36}px)`;
    };
    stick.addEventListener("pointerdown", (e) => {
      stick.setPointerCapture(e.pointerId);
      move(e);
    });
    stick.addEventListener("pointermove", (e) => {
      if (e.buttons || e.pointerType === "touch") move(e);
    });
    const release = () => {
      this.stick = null;
      stick.firstChild.style.transform = "";
    };
    stick.addEventListener("pointerup", release);
    stick.addEventListener("pointercancel", release);
    const hold = (b, key) => {
      b.addEventListener("pointerdown", (e) => {
        if (e.isTrusted) b.setPointerCapture(e.pointerId);
        this[key] = true;
        if (key === "pressed" && this.duel) this.shoot(this.seat);
        e.preventDefault();
      });
      for (const n of ["pointerup", "pointercancel"])
        b.addEventListener(n, () => {
          this[key] = false;
        });
      b.addEventListener("contextmenu", (e) => e.preventDefault());
    };
    hold(fire, "pressed");
    const down = pads.querySelector(".down");
    if (down) hold(down, "sinking");
    return pads;
  }

  _connect() {
    if (this.gone) return;
    const socket = (this.socket = new WebSocket(
      `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/play`,
    ));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.retry = 300;
      this.link.textContent = "connected";
    };
    socket.onmessage = ({ data }) =>
      typeof data === "string" ? this._heard(JSON.parse(data)) : this._received(new DataView(data));
    socket.onclose = async () => {
      if (this.gone) return;
      this.link.textContent = "no connection; trying again";
      const refused = await isRefused();
      if (this.gone) return;
      if (refused) this._banner("Open the new address", LOST);
      else this._banner("No connection", "The game waits. Trying again …", el("p", { text: LOST }));
      this.retry = Math.min((this.retry ?? 300) * 1.6, 5000);
      setTimeout(() => this._connect(), this.retry);
    };
  }
  say(message) {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(message));
  }

  _heard(m) {
    if (m.kind === "error") {
      this.flash = { text: m.text, until: performance.now() + 6000 };
      this._say("");
      return;
    }
    if (m.kind === "pong") return;
    if (m.kind === "seat") this.seat = m.side < this.setup.meta.people ? m.side : null;
    if (m.game !== this.status.game) {
      this.states = [];
      this.trails = [[], []];
      this.smoke = Array.from({ length: SLOTS }, () => []);
      this.diagram = this.frozen = this.debrief = null;
      this.film = [];
      this.blasts = [];
      this.begun = performance.now();
      this.scene.jumpCamera = this.scene.fitCamera = true;
    }
    this.status = { ...this.status, ...m };
    this._emptied = false;
    if (!this.duel && m.begun && m.begun.start !== this.setup.meta.start) {
      this._rebuild();
      return;
    } // another field
    if (this.duel && this.seat !== null && !this.twoHands) this.scene.setSide(this.seat + 1);
    if (this.invited && m.seats?.length > 1) return this.begin();
    if (this.alone && this.playing && this.flies) this.pause();
    this._show();
  }
  // Whether the other person of a game for two browsers is away.
  // Whether this page flies a side of the present game; otherwise it watches, and changes nothing.
  get flies() {
    return this.seat === 0 || (this.seat === 1 && (!this.status.game || this.status.begun?.opponent === null));
  }
  get alone() {
    const s = this.status;
    return (
      this.invited ||
      (!!s.game &&
        !s.result &&
        s.begun?.opponent === null &&
        this.setup.meta.people > 1 &&
        !this.twoHands &&
        (s.seats?.length ?? 0) < 2)
    );
  }

  _received(v) {
    const kind = v.getUint8(0),
      now = performance.now();
    if (kind === EXTRAS) {
      if (!this.duel) return;
      this.diagram = this._diagram(new Float32Array(v.buffer.slice(PREFIX)));
      if (this.drawn && this.film.push({ ...this.drawn, diagram: this.diagram }) > MOST_KEPT) this.film.shift();
      return;
    }
    const heard = v.getUint32(10 + 4 * (this.seat ?? 0), true);
    if (this.sent?.has(heard)) {
      this.delays.push(now - this.sent.get(heard));
      if (this.delays.length > 200) this.delays.shift();
      this.sent.clear();
    }
    const state = this.duel ? this._duelState(v) : this.scene.read(v, PREFIX);
    state.at = now;
    state.scale = v.getFloat32(2, true);
    if (this.states.push(state) === 1 || (state.winner >= 0 && this.status.result)) this._show();
    if (this.states.length > 30) this.states.shift();
    this.received = (this.received ?? 0) + 1;
  }

  _duelState(v) {
    let at = PREFIX;
    const f = () => {
        const x = v.getFloat32(at, true);
        at += 4;
        return x;
      },
      b = () => v.getUint8(at++);
    const time = f(),
      winner = v.getInt8(at++);
    const fighters = [0, 1].map(() => ({
      x: f(),
      y: f(),
      vx: f(),
      vy: f(),
      rudder: f(),
      throttle: f(),
      alive: b() > 0,
      missiles: b(),
    }));
    const missiles = [];
    while (at + 19 <= v.byteLength) {
      const slot = b();
      const age = v.getUint16(at, true);
      at += 2;
      missiles.push({ slot, age, x: f(), y: f(), vx: f(), vy: f() });
    }
    return { time, winner, fighters, missiles };
  }
  _diagram(a) {
    let at = 0;
    const take = (n) => a.subarray(at, (at += n));
    return {
      path: take(2 * POINTS * 2),
      escape: take(4 * POINTS * 2),
      missile: take(SLOTS * POINTS * 2),
      range: take(8),
      contour: take(6 * AZIMUTHS),
      reach: this.reach,
    };
  }

  // The state a moment ago, between two that came.
  now() {
    const { states } = this,
      newest = states.at(-1);
    if (!newest) return null;
    const t = Math.min(
      newest.time + ((performance.now() - newest.at) / 1000) * newest.scale - DELAY * newest.scale,
      newest.time,
    );
    let i = states.length - 1;
    while (i > 0 && states[i - 1].time > t) i--;
    const b = states[i],
      a = states[Math.max(i - 1, 0)],
      part = b.time > a.time ? Math.min(Math.max((t - a.time) / (b.time - a.time), 0), 1) : 1;
    return { a, b, part };
  }

  begin(start = this.starts.value) {
    this.starts.value = start;
    const known = this.briefing === start || (this.status.game && this.status.begun?.start === start);
    this.briefing = LESSONS[start] && !known ? start : null;
    if (this.briefing) {
      if (this.playing) this.pause();
      return this._show();
    }
    const value = LESSONS[start] ? this.setup.meta.opponent : this.opponent.value;
    this.twoHands = value === "2";
    // it starts when the other person comes
    this.invited = value === "" && this.setup.meta.people > 1 && (this.status.seats?.length ?? 0) < 2;
    if (this.invited) return this._show();
    this.scene.setSide?.(this.twoHands ? 1 : (this.seat ?? 0) + 1);
    this.pads = [neutral(), neutral()];
    this.say({ kind: "start", opponent: value === "" || value === "2" ? null : value, start });
    document.activeElement?.blur?.();
  }
  pause() {
    if (!this.flies) return;
    if (this.status.result || !this.status.game) return this.begin();
    this.say({ kind: "pause", on: !this.status.paused });
  }

  // One press fires one missile: fire is held until a state shows the launch, but for less than the 0.5 s of game
  // time between two launches.
  shoot(side) {
    if (side === null || !this.playing) return;
    Object.assign(this.pads[side], {
      until: performance.now() + Math.min(400 / (this.status.scale || 1), 1000),
      had: this.missilesOf(side),
    });
    this._controls(0);
  }
  missilesOf(side) {
    return this.states.at(-1)?.fighters[side].missiles ?? 0;
  }
  get playing() {
    return this.status.game && !this.status.paused && !this.status.result;
  }

  _controls(dt) {
    const keys = (set) => {
      const k = KEYS[set],
        h = this.held;
      return { turn: h.has(k.left) - h.has(k.right), throttle: h.has(k.more) - h.has(k.less), fire: h.has(k.fire) };
    };
    const left = keys("left"),
      right = keys("right"),
      space = this.held.has("Space");
    const people = this.twoHands
      ? [
          [0, left],
          [1, right],
        ]
      : [
          [
            this.seat,
            {
              turn: Math.sign(left.turn + right.turn),
              throttle: Math.sign(left.throttle + right.throttle),
              fire: left.fire || right.fire || space,
              up: space,
              down: this.held.has("ShiftLeft") || this.held.has("KeyC"),
            },
          ],
        ];
    for (const [side, k] of people) {
      if (side === null || side === undefined) continue;
      const pad = this.pads[side];
      if (this.duel) {
        const wanted = this.stick ? -this.stick[0] : k.turn;
        pad.rudder += Math.min(Math.max(wanted - pad.rudder, -dt / RAMP), dt / RAMP);
        pad.throttle = Math.min(Math.max(pad.throttle + k.throttle * dt * 1.2, 0), 1);
        if (this.stick) pad.throttle = Math.abs(this.stick[1]) > 0.5 ? (this.stick[1] < 0 ? 1 : 0.3) : pad.throttle;
        this._send(side, [
          pad.rudder,
          pad.throttle,
          performance.now() < (pad.until ?? 0) && this.missilesOf(side) === pad.had ? 1 : 0,
        ]);
      } else {
        const x = this.stick ? -this.stick[1] : k.throttle,
          y = this.stick ? -this.stick[0] : k.turn,
          z = (k.up || this.pressed ? 1 : 0) - (k.down || this.sinking ? 1 : 0);
        this._send(side, [x, y, z]);
      }
    }
  }
  _send(side, values) {
    const key = values.map((x) => x.toFixed(2)).join(),
      last = (this.last ??= [])[side],
      now = performance.now();
    if (key === last?.key && now - last.at < 250) return;
    this.last[side] = { key, at: now };
    const number = ++this.number;
    if (key !== last?.key && this.socket?.readyState === 1) (this.sent ??= new Map()).set(number, now);
    this.say({ kind: "input", side, values, number });
  }

  frame(dt) {
    if (!this.scene) return false;
    const now = this.now();
    if (now) this.duel ? this._drawDuel(now) : this.scene.update(now, this.status);
    else if (this.duel && !this._emptied) {
      this._emptied = true;
      this.scene.update(resting(), null);
    }
    if (!this.duel && now) this._describeRace(now);
    return this.scene.frame(this.names());
  }
  names() {
    const pair = this.status.begun?.opponent,
      agent = pair && (LESSONS[this.status.begun.start]?.enemy ?? this.setup.meta.opponents[pair] ?? pair);
    if (!this.duel) return [this.seat === null ? "player" : "you", "policy"];
    if (this.twoHands) return ["left", "right"];
    if (this.seat === null) return ["player 1", agent || "player 2"];
    return this.seat === 1 ? ["player 1", "you"] : ["you", agent || "player 2"];
  }
  setSound(on) {
    this.sound.set(on);
    this._showSound();
  }
  _showSound() {
    const b = this.soundButton,
      title = `Sound is ${this.sound.on ? "on" : "off"} (M)`;
    b.replaceChildren(icon(this.sound.on ? "sound" : "silent"));
    b.title = title;
    b.setAttribute("aria-label", title);
    b.setAttribute("aria-pressed", String(this.sound.on));
  }
  setHints(on) {
    this.hints = on;
    if (this.duel) this.scene.hints = on;
    else this.scene.setBeams(on);
  }
  get cameraNames() {
    return this.duel
      ? CAMERAS
      : [
          ["follow", "Follow", "Behind the drone (1)"],
          ["first", "First", "First person (2)"],
          ["top", "Top", "From above (3)"],
        ];
  }

  _describeRace(now) {
    const facts = this.scene.facts(now, this.names()),
      [me, policy] = now.b.drones.map((d) => d.status);
    this.race.replaceChildren(...facts.flatMap(([a, b]) => [el("dt", { text: a }), el("dd", { text: b })]));
    this._text(
      this.hud,
      `${facts[0][1]}   ${Math.max(0, (this.status.begun?.seconds ?? 0) - now.b.time).toFixed(0)} s left`,
    );
    if (this.status.result || this.seat === null) this._say("");
    else if (me === 2) this._say("You collided: Enter starts a new race", "danger");
    else this._say(policy === 2 ? "The policy collided: reach the ring" : "", "good");
  }
  _text(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }
  _say(text, mood = "") {
    if (performance.now() < (this.flash?.until ?? 0)) {
      text = this.flash.text;
      mood = "warn";
    } // an error stays for a while
    this._text(this.alert, text);
    this.alert.className = `alert ${mood}`;
  }

  _drawDuel({ a, b, part }) {
    const mix = (p, q) => p + (q - p) * part,
      fighters = b.fighters.map((f, k) => {
        const e = a.fighters[k];
        return { ...f, x: mix(e.x, f.x), y: mix(e.y, f.y), vx: mix(e.vx, f.vx), vy: mix(e.vy, f.vy) };
      });
    const missiles = b.missiles.map((m) => {
      const e = a.missiles.find((q) => q.slot === m.slot) ?? m;
      return { ...m, x: mix(e.x, m.x), y: mix(e.y, m.y) };
    });
    this.trails ??= [[], []];
    this.smoke ??= Array.from({ length: SLOTS }, () => []);
    if (b.time - (this.traced ?? -1) > 0.15 || b.time < this.traced) {
      this.traced = b.time;
      b.fighters.forEach((f, k) => {
        this.trails[k].push(f.x, f.y);
        if (this.trails[k].length > 1600) this.trails[k].splice(0, 2);
      });
      for (const m of b.missiles) this.smoke[m.slot].push(m.x, m.y);
    }
    const t = performance.now();
    this._events(b, t);
    const state = {
      time: b.time,
      fighters,
      missiles,
      trails: this.trails.map((t, k) => [...t, fighters[k].x, fighters[k].y]),
      smoke: this.smoke,
      blasts: this.blasts.map(({ x, y, since }) => ({ x, y, age: (t - since) / 1000 })),
    };
    this.drawn = { time: b.time, fighters, missiles, trails: state.trails };
    // after the game, when its explosion is over: the moment that decided it
    if (this.debrief && !this.frozen && this.blasts.every(({ since }) => t - since > 900 * BLAST_S)) this._freeze();
    if (this.frozen) this.scene.update({ ...this.frozen, smoke: NO_SMOKE }, this.frozen.diagram);
    else this.scene.update(state, this.diagram);
    if (t - (this._told ?? 0) > 100) {
      this._told = t;
      const shown = this.frozen ?? { ...state, diagram: this.diagram };
      describeDuel(this, shown, shown.diagram, this.scene.side, this.names());
      this._advise(state);
      this.sound.fly(this.playing ? 0.2 + 0.8 * fighters[this.scene.side - 1].throttle : 0);
      if (this.playing) this.sound.warn(this.alert.classList[1]);
      this._measure();
      this._hud(b);
    }
  }

  // Launches and explosions, which are seen and heard.
  _events(b, now) {
    const before = this.before;
    this.before = b;
    if (!before || before === b || b.time < before.time) return;
    b.fighters.forEach((f, k) => {
      if (f.missiles < before.fighters[k].missiles) this.sound.launch(k === this.scene.side - 1);
      if (f.alive || !before.fighters[k].alive) return;
      this.blasts.push({ x: f.x, y: f.y, since: now });
      this.sound.explode();
    });
  }
  _freeze() {
    const { time } = this.debrief;
    this.frozen = this.film.findLast((m) => m.time <= time + 0.05) ?? this.film[0];
    if (!this.frozen) return;
    this.scene.jumpCamera = this.scene.fitCamera = true;
    this.caption.textContent = `Spacetime at ${moment(time)}, the moment that decided`;
  }

  // In reach, outside, break now.
  _advise(state) {
    const d = this.diagram,
      own = this.scene.side - 1,
      me = state.fighters[own],
      touch = matchMedia("(pointer: coarse)").matches,
      advice = d && this.playing && tip(this.status.begun?.start, state, d, touch);
    let text = "",
      mood = "";
    if (advice) [text, mood] = advice;
    else if (this.hints && d && me.alive && state.fighters[1 - own].alive && !this.status.result) {
      let hit = Infinity,
        inbound = false;
      for (const m of state.missiles) {
        if (Math.floor(m.slot / CARRIED) === own) continue;
        const x = me.x - m.x,
          y = me.y - m.y,
          away = Math.hypot(x, y),
          closing = (x * (m.vx - me.vx) + y * (m.vy - me.vy)) / (away || 1);
        if (closing > 0 && away / closing < INBOUND_S) inbound = true;
        // it may be newer than the diagram
        if (closing > 0 && away / closing < FRESH_S) hit = Math.min(hit, Math.round(away / closing));
        let k = 0;
        while (k + 1 < POINTS && d.missile[2 * (m.slot * POINTS + k + 1)] < Infinity) k++;
        const i = 2 * (m.slot * POINTS + k),
          j = 2 * (own * POINTS + k);
        if (k + 1 < POINTS && Math.hypot(d.missile[i] - d.path[j], d.missile[i + 1] - d.path[j + 1]) < 2500)
          hit = Math.min(hit, k);
      }
      const [range, rMax, rMin, rNe] = d.range.subarray(4 * own),
        shots = me.missiles > 0 && range > rMin;
      if (hit <= 12) {
        text = `Break now: missile hits in ${hit} s`;
        mood = "danger";
      } else if (inbound) {
        text = `Missile inbound: ${shots && range <= rMax ? "fire, then " : ""}turn away`;
        mood = "warn";
      } else if (shots && range <= rNe) {
        text = "No escape for the enemy: fire";
        mood = "good";
      } else if (shots && range <= rMax) {
        text = "Enemy in reach";
        mood = "good";
      } else if (d.range[4 * (1 - own)] <= d.range[4 * (1 - own) + 1] && state.fighters[1 - own].missiles) {
        text = "You are in the enemy's reach";
        mood = "warn";
      }
    }
    this._say(text, mood);
  }
  // Missiles, throttle and time, where the eyes are.
  _hud(state) {
    const left = Math.max(0, (this.status.begun?.seconds ?? 0) - state.time),
      f = state.fighters[this.scene.side - 1];
    this._text(
      this.hud,
      `${"▮".repeat(f.missiles)}${"▯".repeat(Math.max(CARRIED - f.missiles, 0))}   throttle ${Math.round(100 * f.throttle)} %   ${Math.floor(left / 60)}:${String(Math.floor(left % 60)).padStart(2, "0")} left`,
    );
  }

  _measure() {
    const d = [...this.delays].sort((p, q) => p - q),
      median = d[d.length >> 1];
    this.link.textContent = median === undefined ? "connected" : `input to state ${median.toFixed(0)} ms`;
  }

  _banner(title, text, ...more) {
    this.banner.replaceChildren(...(title ? [el("h2", { text: title }), el("p", { text }), ...more] : []));
    this.banner.hidden = !title;
  }
  // Why the game ended.
  _reason() {
    const state = this.states.at(-1),
      names = this.names();
    if (!state) return "it ended";
    if (!this.duel)
      return (
        state.drones
          .map((d, k) => (d.status === 2 ? `${names[k]} collided` : ""))
          .filter(Boolean)
          .join(", ") || (this.status.result.winner ? "first at the ring" : "the time is up")
      );
    const down = state.fighters.map((f) => !f.alive);
    if (down[0] && down[1]) return "both were hit";
    if (down[0] || down[1]) {
      const k = down[0] ? 0 : 1;
      return names[k] === "you" ? `a missile of ${names[1 - k]} hit you` : `a missile hit ${names[k]}`;
    }
    return this.status.result.seconds < (this.status.begun?.seconds ?? 0) - 0.1
      ? "no missiles are left"
      : "the time is up";
  }

  _show() {
    const s = this.status;
    this.scales.value = s.scale ?? 1;
    this.pauseButton.textContent = s.paused ? "Resume" : "Pause";
    this.pauseButton.disabled = !s.game || !!s.result || !this.flies;
    this.scales.disabled = !!s.game && !this.flies;
    const lesson = this.duel ? LESSONS[s.begun?.start] : null;
    if (!this.frozen && this.caption) this.caption.textContent = NOW;
    if (s.record?.debrief && s.record.debrief.time !== null && !lesson) this.debrief = s.record.debrief;
    const known = this.shownGame === s.game; // what is chosen for the next game stays chosen
    if (s.begun && s.game && !known && !lesson && !this.twoHands && !this.invited)
      this.opponent.value = s.begun.opponent ?? "";
    this.shownGame = s.game;
    const again = button(lesson && s.result ? "Again" : "New game", () => this.begin(), {
      className: "primary",
      title: "New game (Enter)",
    });
    const watching = this.seat === null && (s.seats?.length || !this.setup.meta.starts.length);
    const touch = matchMedia("(pointer: coarse)").matches,
      { seconds = 0 } = this.setup.meta;
    const goal = this.duel
      ? `Hit the enemy with a missile before one hits you. After ${seconds} s it is a draw.`
      : "Reach the ring before the policy does, and touch nothing.";
    const keys = this.duel
      ? touch
        ? "The stick steers; up on it is full throttle, down is slow. The button fires."
        : "Steer with A D or ← →, throttle with W S or ↑ ↓, fire with space."
      : touch
        ? "The stick flies, the buttons climb and sink."
        : "Fly with W A S D or the arrows, up with space, down with shift.";
    if (this.briefing)
      this._banner(
        `Lesson: ${LESSONS[this.briefing].name.toLowerCase()}`,
        LESSONS[this.briefing].goal,
        el("p", { text: keys }),
        button("Start", () => this.begin(), { className: "primary", title: "Start (Enter)" }),
      );
    else if (this.alone)
      this._banner(
        "Waiting for the other person",
        "The game starts when a second browser opens the address that slipstream play printed.",
      );
    else if (s.result) {
      const winner = s.result.winner ? this.names()[s.result.winner - 1] : "",
        { file, debrief } = s.record ?? {},
        watch = (text, from) =>
          el("a", {
            class: "button",
            href: `#/${this.duel ? "duels" : "flights"}/${encodeURIComponent(file)}?t=${from}`,
            text,
          });
      if (lesson) return this._lesson(s.begun.start, winner);
      this._banner(
        !winner
          ? "Draw"
          : winner === "you"
            ? "You win"
            : this.seat === null || this.twoHands
              ? `${winner} wins`
              : "You lose",
        `After ${Math.round(s.result.seconds)} s: ${this._reason()}${file ? "; the game is recorded" : ""}.`,
        debrief ? el("p", { class: "debrief", text: explain(debrief, this.names()) }) : "",
        this.duel && !file && s.result.seconds >= 3 ? el("p", { text: "Working out what decided it …" }) : "",
        el(
          "div",
          { class: "group" },
          again,
          debrief && debrief.time !== null
            ? watch(`Replay from ${moment(Math.max(debrief.time - LEAD_S, 0))}`, Math.max(debrief.time - LEAD_S, 0))
            : "",
          file ? watch("Watch it", 0) : "",
        ),
      );
    } else if (!s.game)
      this._banner(
        watching ? "Watching" : (this.setup.meta.title ?? "Play"),
        goal,
        el("p", { text: keys }),
        again,
        this.duel && !watching ? el("p", { text: "New here? Three short lessons:" }) : "",
        this.duel && !watching ? this._lessons() : "",
      );
    else if (s.failure)
      this._banner(
        "The game stopped",
        `${s.failure}.`,
        el("p", {
          text: "The server continues: fly against another opponent, or correct the agent and start the server again.",
        }),
        again,
      );
    else if (s.paused)
      this._banner(
        "Paused",
        !this.flies ? "Whoever flies continues it." : touch ? "" : "P or Esc continues.",
        this.flies ? button("Resume", () => this.pause(), { className: "primary" }) : "",
      );
    else this._banner("");
    this._sheet(s);
  }
  // The tutorial: a button for each lesson, marked when it was passed.
  _lessons() {
    const done = passed();
    return el(
      "div",
      { class: "lessons" },
      ...Object.entries(LESSONS).map(([key, { name, goal }], i) =>
        button(`${done.includes(key) ? "✓" : i + 1} ${name}`, () => this.begin(key), { title: goal }),
      ),
    );
  }
  _lesson(key, winner) {
    const ok = key === "defend" ? this.states.at(-1)?.fighters[0].alive : winner === "you",
      names = Object.keys(LESSONS),
      next = names[names.indexOf(key) + 1];
    if (ok) pass(key);
    const go = (text, start, primary) =>
      button(text, () => this.begin(start), primary ? { className: "primary", title: `${text} (Enter)` } : {});
    if (ok) this.starts.value = next ?? this.setup.meta.starts[0]; // what Enter starts
    this._banner(
      ok ? `${LESSONS[key].name}: passed` : `${LESSONS[key].name}: not yet`,
      ok ? LESSONS[key].won : LESSONS[key].failed,
      el(
        "div",
        { class: "group" },
        ok
          ? next
            ? go(`Next: ${LESSONS[next].name}`, next, true)
            : go("Play", this.setup.meta.starts[0], true)
          : go("Again", key, true),
        ok ? go("Again", key) : "",
      ),
    );
    this._sheet(this.status);
  }
  _sheet(s) {
    this.course?.replaceChildren(this._lessons());
    const rows = s.scores ?? [];
    this.sheet.replaceChildren(
      rows.length
        ? el(
            "table",
            {},
            el(
              "thead",
              {},
              el(
                "tr",
                {},
                ["", "won", "drawn", "lost"].map((t) => el("th", { text: t })),
              ),
            ),
            el(
              "tbody",
              {},
              rows.map((r) =>
                el(
                  "tr",
                  {},
                  el("th", { scope: "row", text: r.pair.map(you).join(" – ") }),
                  ...r.scores.map((n) => el("td", { text: n })),
                ),
              ),
            ),
          )
        : el("p", { class: "hint", text: "no game yet" }),
      Object.keys(s.ratings ?? {}).length
        ? el("p", {
            class: "hint",
            text: `Elo: ${Object.entries(s.ratings)
              .sort((p, q) => q[1] - p[1])
              .map(([n, r]) => `${you(n)} ${r}`)
              .join(", ")}`,
          })
        : "",
    );
  }

  key(e) {
    if (typing(e) || e.target.tagName === "SELECT" || !this.scene) return false;
    const flying = [...Object.values(KEYS.left), ...Object.values(KEYS.right), "Space", "ShiftLeft", "KeyC"];
    if (flying.includes(e.code)) {
      this.held.add(e.code);
      if (!e.repeat && this.duel) {
        if (e.code === KEYS.left.fire || e.code === "Space") this.shoot(this.twoHands ? 0 : this.seat);
        if (e.code === KEYS.right.fire) this.shoot(this.twoHands ? 1 : this.seat);
      }
      return true;
    }
    if (e.repeat) return false;
    if (e.key === "m" && this.duel) {
      this.setSound(!this.sound.on);
      return true;
    }
    if (e.key === "Enter") {
      this.begin();
      return true;
    }
    if (e.key === "p") {
      this.pause();
      return true;
    }
    if (e.key === "Escape") {
      if (this.status.game && !this.status.result) this.pause();
      return true;
    }
    if (e.key === "r" || e.key === "-") {
      this.setHints(!this.hints);
      this.panel.querySelector(".toggle input").checked = this.hints;
      return true;
    }
    if (e.key === "?") {
      this.help();
      return true;
    }
    const camera = this.cameraNames[+e.key - 1];
    if (camera) {
      this.cameras.set(camera[0]);
      this.scene.setCamera(camera[0]);
      return true;
    }
    if (!this.duel) return false;
    if (e.key === "v") {
      this.scene.setSide(3 - this.scene.side);
      return true;
    }
    const turn = { q: 0.12, e: -0.12, 9: 0.12, 0: -0.12 }[e.key];
    if (turn) {
      this.scene.space.turn(turn, 0);
      return true;
    }
    return false;
  }
  help() {
    if (this.playing) this.pause();
    keyboardHelp(
      this.duel
        ? [
            ["A D  or  ← →", "rudder"],
            ["W S  or  ↑ ↓", "throttle"],
            ["space, T or =", "fire"],
            ["P, Esc", "pause"],
            ["Enter", "new game"],
            ["V", "the other side's view"],
            ["M", "sound on and off"],
            ["R or −", "hints on and off"],
            ["Q E  or  9 0", "turn the spacetime diagram"],
            ["1 2 3", "orbit, chase, top"],
            ["two sets of keys", "left: A D W S T, right: arrows and ="],
          ]
        : [
            ["W A S D or arrows", "fly"],
            ["space", "up"],
            ["shift or C", "down"],
            ["P, Esc", "pause"],
            ["Enter", "new race"],
            ["R or −", "LiDAR beams on and off"],
            ["1 2 3", "follow, first person, top"],
          ],
    );
  }
  dispose() {
    this.gone = true;
    clearInterval(this.timer);
    this.socket?.close();
    this.listeners?.abort();
    this.sound.dispose();
    this.scene?.dispose();
    this.element?.remove();
    this.waiting?.remove();
  }
}

const NOW = "Spacetime: the plane now, and the next 20 s above it";
const NO_SMOKE = Array.from({ length: SLOTS }, () => []);
const neutral = () => ({ rudder: 0, throttle: 1 });
function resting() {
  const fighters = [
    [10, 1],
    [40, -1],
  ].map(([x, way]) => ({ x: 1000 * x, y: 25000, vx: 300 * way, vy: 0, alive: true, missiles: 6, rudder: 0 }));
  return { fighters, missiles: [], trails: [[], []], smoke: Array.from({ length: SLOTS }, () => []) };
}
