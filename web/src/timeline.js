// Play, pause, scrub, speed, and jumps to events. `onTime(t)` is called whenever the time changes.
import { button, clock, el, icon, theme } from "./ui.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8];

export class Timeline {
  constructor(times, events, { onTime, speed = 1, kinds = {} }) {
    this.first = times[0] ?? 0;
    this.last = times[times.length - 1] ?? 0;
    this.events = events;
    this.kinds = kinds;
    this.onTime = onTime;
    this.time = this.first;
    this.playing = false;
    this.speed = speed;
    this.playButton = button("", () => this.setPlaying(!this.playing), {
      iconName: "play",
      title: "Play (space)",
      className: "primary",
    });
    this.range = el("input", {
      type: "range",
      min: 0,
      max: 1000,
      value: 0,
      step: 0.1,
      class: "scrub",
      "aria-label": "time",
      oninput: () => {
        this.setPlaying(false);
        this.seek(this.first + ((this.last - this.first) * this.range.value) / 1000);
      },
    });
    this.marks = el("canvas", { class: "marks", "aria-hidden": "true" });
    this.label = el("output", { class: "clock" });
    this.speedBox = el(
      "select",
      {
        "aria-label": "speed",
        title: "Speed ([ and ])",
        onchange: () => {
          this.speed = +this.speedBox.value;
        },
      },
      SPEEDS.map((s) => el("option", { value: s, text: `${s}×` })),
    );
    this.speedBox.value = speed;
    const jump = kinds.jump
      ? [
          button("", () => this.jump(-1), { iconName: "back", title: `Previous ${kinds.jump}` }),
          button("", () => this.jump(1), { iconName: "next", title: `Next ${kinds.jump} (C)` }),
        ]
      : [];
    this.element = el(
      "div",
      { class: "timeline" },
      this.playButton,
      ...jump,
      el("div", { class: "track" }, this.marks, this.range),
      this.label,
      this.speedBox,
    );
    this._observer = new ResizeObserver(() => this._drawMarks());
    this._observer.observe(this.element);
    this._unsubscribe = theme.onChange(() => this._drawMarks());
    this.show();
  }
  setPlaying(on) {
    if (on && this.time >= this.last) this.time = this.first;
    this.playing = on;
    this.playButton.replaceChildren(icon(on ? "pause" : "play"));
    this.playButton.title = on ? "Pause (space)" : "Play (space)";
    this.playButton.setAttribute("aria-label", this.playButton.title);
  }
  seek(t) {
    this.time = Math.min(Math.max(t, this.first), this.last);
    this.show();
    this.onTime(this.time);
  }
  advance(dt) {
    if (!this.playing) return false;
    const t = this.time + dt * this.speed;
    if (t >= this.last) this.setPlaying(false);
    this.seek(t);
    return true;
  }
  jump(direction) {
    const wanted = this.events.filter((e) => this.kinds.jumpTo.includes(e.kind));
    const found =
      direction > 0
        ? (wanted.find((e) => e.time > this.time + 0.02) ?? wanted[0])
        : (wanted.findLast((e) => e.time < this.time - 0.02) ?? wanted.at(-1));
    if (found) {
      this.setPlaying(false);
      this.seek(found.time);
      this.onJump?.(found);
    }
  }
  faster(step) {
    const i = Math.min(Math.max(SPEEDS.indexOf(this.speed) + step, 0), SPEEDS.length - 1);
    this.speed = SPEEDS[i];
    this.speedBox.value = this.speed;
  }
  key(e) {
    if (e.key === " ") {
      this.setPlaying(!this.playing);
      return true;
    }
    if (e.key === "ArrowRight" || e.key === "ArrowLeft") {
      this.setPlaying(false);
      this.seek(this.time + (e.key === "ArrowRight" ? 1 : -1) * (e.shiftKey ? 5 : 0.5));
      return true;
    }
    if (e.key === "Home") {
      this.seek(this.first);
      return true;
    }
    if (e.key === "End") {
      this.seek(this.last);
      return true;
    }
    if (e.key === "[") {
      this.faster(-1);
      return true;
    }
    if (e.key === "]") {
      this.faster(1);
      return true;
    }
    if ((e.key === "c" || e.key === "C") && this.kinds.jump) {
      this.jump(e.shiftKey ? -1 : 1);
      return true;
    }
    return false;
  }
  show() {
    const part = (this.time - this.first) / (this.last - this.first || 1);
    this.range.value = part * 1000;
    this.range.style.setProperty("--part", part);
    this.range.setAttribute("aria-valuetext", `${this.time.toFixed(1)} seconds`);
    this.label.textContent = `${clock(this.time)} / ${clock(this.last)}`;
  }
  _drawMarks() {
    const { clientWidth: w, clientHeight: h } = this.marks,
      ratio = devicePixelRatio || 1;
    if (!w) return;
    this.marks.width = w * ratio;
    this.marks.height = h * ratio;
    const pen = this.marks.getContext("2d");
    pen.scale(ratio, ratio);
    for (const e of this.events) {
      const color = this.kinds.colors?.[e.kind];
      if (!color) continue;
      const x = 8 + ((w - 16) * (e.time - this.first)) / (this.last - this.first || 1);
      pen.fillStyle = theme.colors[color];
      pen.fillRect(x - 1, 1, 2, 6);
    }
  }
  dispose() {
    this._observer.disconnect();
    this._unsubscribe();
  }
}
