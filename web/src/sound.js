// Sounds of the game, made by Web Audio: engine, launch, warnings, explosion. Off by default on phones.
import { kept } from "./ui.js";

export class Sound {
  constructor() {
    this.on = kept("sound", !matchMedia("(pointer: coarse)").matches);
  }
  set(on) {
    this.on = on;
    kept.set("sound", on);
    if (on) this.start();
    this.main?.gain.setTargetAtTime(on ? 0.5 : 0, this.context.currentTime, 0.05);
  }
  // Browsers allow sound after a key or a click: called from those.
  start() {
    if (!this.on || !window.AudioContext) return;
    if (!this.context) this._build();
    if (this.context.state === "suspended") this.context.resume();
  }
  _build() {
    const c = (this.context = new AudioContext());
    this.main = new GainNode(c, { gain: 0.5 });
    this.main.connect(c.destination);
    this.noise = new AudioBuffer({ length: 2 * c.sampleRate, sampleRate: c.sampleRate });
    const samples = this.noise.getChannelData(0);
    for (let i = 0; i < samples.length; i++) samples[i] = 2 * Math.random() - 1;
    const hum = new AudioBufferSourceNode(c, { buffer: this.noise, loop: true });
    this.tone = new BiquadFilterNode(c, { type: "lowpass", frequency: 200 });
    this.engine = new GainNode(c, { gain: 0 });
    hum.connect(this.tone).connect(this.engine).connect(this.main);
    hum.start();
  }
  // The engine, from 0 (silent) to 1.
  fly(throttle) {
    if (!this.context) return;
    const now = this.context.currentTime;
    this.engine.gain.setTargetAtTime(throttle ? 0.05 + 0.1 * throttle : 0, now, 0.1);
    this.tone.frequency.setTargetAtTime(120 + 260 * throttle, now, 0.15);
  }
  _burst(seconds, volume, from, to, type) {
    if (!this.on || !this.context) return;
    const c = this.context,
      now = c.currentTime,
      source = new AudioBufferSourceNode(c, { buffer: this.noise }),
      filter = new BiquadFilterNode(c, { type, frequency: from, Q: 0.8 }),
      gain = new GainNode(c, { gain: volume });
    filter.frequency.exponentialRampToValueAtTime(to, now + seconds);
    gain.gain.exponentialRampToValueAtTime(0.001, now + seconds);
    source.connect(filter).connect(gain).connect(this.main);
    source.start(now);
    source.stop(now + seconds);
  }
  launch(own) {
    this._burst(1.1, own ? 0.5 : 0.15, 2400, 300, "bandpass");
  }
  explode() {
    this._burst(2, 1.2, 900, 40, "lowpass");
  }
  beep(frequency, seconds = 0.07) {
    if (!this.on || !this.context) return;
    const c = this.context,
      now = c.currentTime,
      source = new OscillatorNode(c, { type: "square", frequency }),
      gain = new GainNode(c, { gain: 0.06 });
    gain.gain.setTargetAtTime(0, now + seconds, 0.01);
    source.connect(gain).connect(this.main);
    source.start(now);
    source.stop(now + seconds + 0.1);
  }
  // A warning that repeats: called several times a second with the mood of the line that says what matters most.
  warn(mood) {
    const pause = { danger: 150, warn: 700 }[mood],
      now = performance.now();
    if (!pause || now - (this.beeped ?? 0) < pause) return;
    this.beeped = now;
    this.beep(mood === "danger" ? 1250 : 880);
  }
  dispose() {
    this.context?.close();
  }
}
