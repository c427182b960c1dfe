// Soft discs of any size and colour in one draw call: the smoke of missiles, and explosions.
import { BufferGeometry, Color, DynamicDrawUsage, Float32BufferAttribute, Points, ShaderMaterial } from "three";

export class Puffs {
  constructor(stage, capacity) {
    this.stage = stage;
    this.capacity = capacity;
    const g = (this.geometry = new BufferGeometry());
    const make = (name, size) => {
      const a = new Float32BufferAttribute(new Float32Array(capacity * size), size);
      a.setUsage(DynamicDrawUsage);
      g.setAttribute(name, a);
      return a.array;
    };
    this.at = make("position", 3);
    this.tint = make("tint", 4);
    this.size = make("size", 1);
    this.material = new ShaderMaterial({
      transparent: true,
      depthWrite: false,
      uniforms: { pixels: { value: 1 } }, // of a length of 1 at distance 1
      vertexShader: `attribute vec4 tint; attribute float size; uniform float pixels; varying vec4 c;
        void main() {
          c = tint; gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.);
          gl_PointSize = 2. * size * pixels / gl_Position.w;
        }`,
      fragmentShader: `varying vec4 c; void main() {
          float r = length(2. * gl_PointCoord - 1.);
          gl_FragColor = vec4(c.rgb, c.a * (1. - smoothstep(.2, 1., r)));
#include <colorspace_fragment>
}`,
    });
    this.mesh = new Points(g, this.material);
    this.mesh.frustumCulled = false;
    this.mesh.renderOrder = 6;
    stage.scene.add(this.mesh);
    this._color = new Color();
    this.count = 0;
  }
  clear() {
    this.count = 0;
  }
  add(x, y, z, size, color, alpha) {
    if (this.count >= this.capacity || !(x + y + z < Infinity)) return;
    const i = this.count++,
      { r, g, b } = this._color.set(color);
    this.at.set([x, y, z], 3 * i);
    this.tint.set([r, g, b, alpha], 4 * i);
    this.size[i] = size;
  }
  finish() {
    const { camera, height, ratio } = this.stage;
    this.material.uniforms.pixels.value = (height * ratio * camera.projectionMatrix.elements[5]) / 2;
    this.geometry.setDrawRange(0, this.count);
    for (const name of ["position", "tint", "size"]) this.geometry.attributes[name].needsUpdate = true;
    this.mesh.visible = this.count > 0;
  }
}

export const BLAST_S = 2.6; // an explosion lasts so long
const FIRE = ["#fff6d5", "#ffc94d", "#ff8a3c", "#d9482b"];

// An explosion `age` s old: fire that spreads and turns to smoke.
export function explode(puffs, x, y, size, age, smoke) {
  if (age < 0 || age > BLAST_S) return;
  const part = age / BLAST_S,
    spread = 1 - Math.exp(-3.5 * age);
  for (let i = 0; i < 44; i++) {
    const turn = i * 2.399963,
      far = Math.sqrt((i + 0.5) / 44) * spread * size,
      burns = part < 0.25 + 0.3 * ((i * 7) % 5) * 0.2,
      color = burns ? FIRE[Math.min(Math.floor(part * 8 + (i % 3) * 0.4), 3)] : smoke,
      rise = (0.2 + ((i * 13) % 7) / 7) * spread * size * 0.7;
    puffs.add(
      x + far * Math.cos(turn),
      rise,
      -(y + far * Math.sin(turn)),
      size * (0.26 + 0.35 * part),
      color,
      (burns ? 0.8 : 0.35) * (1 - part),
    );
  }
  if (age < 0.25) puffs.add(x, 0.2, -y, size * (0.6 + 5 * age), "#ffffff", 0.9 * (1 - age / 0.25));
}
