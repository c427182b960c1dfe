// A canvas with a scene, a camera that can be turned, wide lines, and labels.
import {
  BufferGeometry,
  Color,
  Float32BufferAttribute,
  HemisphereLight,
  DirectionalLight,
  InstancedBufferAttribute,
  InstancedBufferGeometry,
  Mesh,
  PerspectiveCamera,
  Scene,
  ShaderMaterial,
  Vector2,
  Vector3,
  WebGLRenderer,
  DynamicDrawUsage,
} from "three";
import { el, theme } from "./ui.js";

let software = null;
function isSoftware() {
  // without a graphics card smooth edges cost half of the frames
  if (software === null) {
    const gl = document.createElement("canvas").getContext("webgl2"),
      info = gl?.getExtension("WEBGL_debug_renderer_info");
    software = /swiftshader|llvmpipe|software/i.test(
      gl ? gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER) : "",
    );
    gl?.getExtension("WEBGL_lose_context")?.loseContext();
  }
  return software;
}

export class Stage {
  constructor(host, { label, far = 2000, near = 0.05, fov = 50 }) {
    this.host = host;
    this.canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": label });
    this.overlay = el("canvas", { class: "labels", "aria-hidden": "true" });
    host.append(this.canvas, this.overlay);
    this.software = isSoftware();
    this.renderer = new WebGLRenderer({ canvas: this.canvas, antialias: !this.software });
    this.renderer.info.autoReset = true;
    this.scene = new Scene();
    this.camera = new PerspectiveCamera(fov, 1, near, far);
    this.sun = new DirectionalLight(0xffffff, 2.0);
    this.sun.position.set(-0.6, 1.2, -0.5);
    this.sky = new HemisphereLight(0xffffff, 0x223044, 1.4);
    this.scene.add(this.sun, this.sky);
    this.target = new Vector3();
    this.distance = 60;
    this.azimuth = 0;
    this.polar = 1; // around the target; polar 0 is from above
    this.limits = { near: 0.5, far: far / 2 };
    this.free = true; // whether the camera belongs to the mouse
    this.ratio = Math.min(devicePixelRatio || 1, 2);
    this.dirty = true;
    this.frames = 0;
    this._pointers = new Map();
    this._listen();
    this._observer = new ResizeObserver(() => this.resize());
    this._observer.observe(host);
    this._unsubscribe = theme.onChange(() => this.paint());
    this.onTurn = null;
    this.resize();
    this.paint();
  }

  paint() {
    this.renderer.setClearColor(new Color(theme.colors.ground));
    this.sky.intensity = theme.name === "dark" ? 1.4 : 2.2;
    this.dirty = true;
  }

  resize() {
    const { clientWidth: w, clientHeight: h } = this.host;
    if (!w || !h) return;
    this.renderer.setPixelRatio(this.ratio);
    this.renderer.setSize(w, h, false);
    if (w !== this.width || h !== this.height) {
      const ratio = Math.min(devicePixelRatio || 1, 2);
      this.width = w;
      this.height = h;
      this.overlay.width = w * ratio;
      this.overlay.height = h * ratio;
      this.pen = this.overlay.getContext("2d");
      this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.camera.aspect = w / h;
      this.camera.updateProjectionMatrix();
    }
    // a new size empties the canvas: without this an empty one would be shown until the next picture
    if (this.frames) this.draw();
    this.dirty = true;
  }

  // Fewer pixels while the pictures come slowly, all of them when nothing moves.
  pace(dt, moving) {
    const most = Math.min(devicePixelRatio || 1, 2);
    if (!moving) {
      if (this.ratio < most) this.setRatio(most);
      this.slow = 0;
      return;
    }
    // Without a graphics card time goes with the pixels: 30 smooth pictures a second are worth coarser ones.
    const [late, least] = this.software ? [0.034, 0.4 * most] : [0.07, 0.6 * most];
    this.slow = dt > late ? (this.slow ?? 0) + 1 : Math.max((this.slow ?? 0) - 0.25, 0);
    if (this.slow >= 3 && this.ratio > 1.01 * least) {
      this.setRatio(Math.max(this.ratio * 0.8, least));
      this.slow = 0;
    }
  }
  setRatio(ratio) {
    if (Math.abs(ratio - this.ratio) > 0.01) {
      this.ratio = ratio;
      this.resize();
    }
  }

  look() {
    if (!this.free) return;
    const { target: t, distance: d, azimuth: a, polar: p, camera } = this;
    camera.position.set(
      t.x + d * Math.sin(p) * Math.sin(a),
      t.y + d * Math.cos(p),
      t.z + d * Math.sin(p) * Math.cos(a),
    );
    camera.up.set(0, 1, 0);
    if (p < 0.02) camera.up.set(-Math.sin(a), 0, -Math.cos(a));
    camera.lookAt(t);
    camera.position.x += this.jolt?.[0] ?? 0; // a camera that shakes
    camera.position.y += this.jolt?.[1] ?? 0;
  }

  draw() {
    if (!this.width) return;
    this.look();
    this.camera.updateMatrixWorld();
    this.renderer.render(this.scene, this.camera);
    this.frames++;
    this.dirty = false;
  }

  get calls() {
    return this.renderer.info.render.calls;
  }

  // Where a point of the scene is on the canvas, in CSS pixels; null behind the camera.
  project(x, y, z) {
    const v = Stage._v.set(x, y, z).project(this.camera);
    return v.z > 1 || v.z < -1 ? null : [((v.x + 1) / 2) * this.width, ((1 - v.y) / 2) * this.height];
  }

  clearLabels() {
    this.pen?.clearRect(0, 0, this.width, this.height);
  }
  label(
    text,
    x,
    y,
    z,
    { align = "center", color = theme.colors.muted, size = 11, dy = 0, dx = 0, bold = false, plate = false } = {},
  ) {
    const at = this.project(x, y, z);
    if (!at) return;
    const pen = this.pen;
    pen.font = `${bold ? "600 " : ""}${size}px system-ui, sans-serif`;
    pen.textAlign = align;
    pen.textBaseline = "middle";
    if (plate) {
      const w = pen.measureText(text).width + 8,
        left = align === "left" ? -4 : align === "right" ? 4 - w : -w / 2;
      pen.fillStyle = theme.colors.ground + "cc";
      pen.fillRect(at[0] + dx + left, at[1] + dy - size * 0.75, w, size * 1.5);
    }
    pen.fillStyle = color;
    pen.fillText(text, at[0] + dx, at[1] + dy);
  }

  turn(da, dp) {
    this.azimuth += da;
    this.polar = Math.min(Math.max(this.polar + dp, 0.01), Math.PI / 2 - 0.02);
    this.dirty = true;
    this.onTurn?.();
  }
  zoom(factor) {
    this.distance = Math.min(Math.max(this.distance * factor, this.limits.near), this.limits.far);
    this.dirty = true;
    this.onTurn?.();
  }
  pan(dx, dy) {
    const k = (this.distance / this.height) * 0.9,
      a = this.azimuth;
    this.target.x += (-dx * Math.cos(a) - dy * Math.sin(a)) * k;
    this.target.z += (dx * Math.sin(a) - dy * Math.cos(a)) * k;
    this.dirty = true;
  }

  _listen() {
    const c = this.canvas,
      pointers = this._pointers;
    c.addEventListener("contextmenu", (e) => e.preventDefault());
    c.addEventListener("pointerdown", (e) => {
      c.setPointerCapture(e.pointerId);
      pointers.set(e.pointerId, [e.clientX, e.clientY]);
      this._moved = 0;
      this._pinch = 0;
    });
    c.addEventListener("pointermove", (e) => {
      const before = pointers.get(e.pointerId);
      if (!before) return;
      const dx = e.clientX - before[0],
        dy = e.clientY - before[1];
      pointers.set(e.pointerId, [e.clientX, e.clientY]);
      this._moved += Math.abs(dx) + Math.abs(dy);
      if (pointers.size === 2) {
        const [a, b] = [...pointers.values()],
          span = Math.hypot(a[0] - b[0], a[1] - b[1]);
        if (this._pinch) this.zoom(this._pinch / span);
        this._pinch = span;
        this.pan(dx / 2, dy / 2);
      } else if (e.shiftKey || e.buttons & 6) this.pan(dx, dy);
      else this.turn(-dx * 0.006, -dy * 0.006);
    });
    const up = (e) => {
      const known = pointers.delete(e.pointerId);
      this._pinch = 0;
      if (known && e.type === "pointerup" && this._moved < 5) {
        const r = c.getBoundingClientRect();
        this.onClick?.(e.clientX - r.left, e.clientY - r.top);
      }
    };
    c.addEventListener("pointerup", up);
    c.addEventListener("pointercancel", up);
    c.addEventListener(
      "wheel",
      (e) => {
        e.preventDefault();
        this.zoom(Math.exp(e.deltaY * (e.deltaMode ? 0.05 : 0.0012)));
      },
      { passive: false },
    );
    c.addEventListener("keydown", (e) => {
      const step = { a: [0.08, 0], d: [-0.08, 0], w: [0, -0.05], s: [0, 0.05] }[e.key];
      if (step && !e.ctrlKey && !this.keysTaken) {
        this.turn(...step);
        e.preventDefault();
      }
      if (e.key === "+" || e.key === "=") this.zoom(0.9);
      if (e.key === "-") this.zoom(1.1);
    });
    c.addEventListener("webglcontextlost", (e) => {
      e.preventDefault();
      this.lost = true;
    });
    c.addEventListener("webglcontextrestored", () => {
      this.lost = false;
      this.dirty = true;
    });
  }

  dispose() {
    this._observer.disconnect();
    this._unsubscribe();
    this.renderer.dispose();
    this.renderer.forceContextLoss();
    this.canvas.remove();
    this.overlay.remove();
  }
}
Stage._v = new Vector3();

// Segments of any width in pixels, all in one draw call. Rows: begin, end, colour with alpha, width, dash in pixels.
export class Lines {
  constructor(stage, capacity) {
    this.stage = stage;
    this.capacity = capacity;
    this.count = 0;
    const g = (this.geometry = new InstancedBufferGeometry());
    g.setAttribute("position", new Float32BufferAttribute([0, -1, 0, 1, -1, 0, 1, 1, 0, 0, 1, 0], 3));
    g.setIndex([0, 1, 2, 0, 2, 3]);
    const make = (name, size) => {
      const a = new InstancedBufferAttribute(new Float32Array(capacity * size), size);
      a.setUsage(DynamicDrawUsage);
      g.setAttribute(name, a);
      return a.array;
    };
    this.begin = make("begin", 3);
    this.end = make("end", 3);
    this.tint = make("tint", 4);
    this.shape = make("shape", 3);
    this.material = new ShaderMaterial({
      transparent: true,
      depthWrite: false,
      uniforms: { size: { value: new Vector2(1, 1) }, least: { value: 1 } },
      vertexShader: `attribute vec3 begin, end, shape; attribute vec4 tint; uniform vec2 size; uniform float least; varying vec4 c; varying vec2 d;
        void main() {
          vec4 a = projectionMatrix * modelViewMatrix * vec4(begin, 1.), b = projectionMatrix * modelViewMatrix * vec4(end, 1.);
          float n = 1e-3;
          if (a.w < n && b.w < n) { gl_Position = vec4(2., 2., 2., 1.); return; }
          if (a.w < n) a = mix(a, b, (n - a.w) / (b.w - a.w)); else if (b.w < n) b = mix(b, a, (n - b.w) / (a.w - b.w));
          vec2 p = a.xy / a.w * size, q = b.xy / b.w * size, way = q - p; float l = max(length(way), 1e-4); way /= l;
          vec4 at = position.x < .5 ? a : b;
          float wide = max(shape.x, least);
          vec2 off = vec2(-way.y, way.x) * position.y * wide + way * (position.x < .5 ? -1. : 1.) * (shape.y > 0. ? 0. : wide * .5);
          gl_Position = vec4(at.xy + off / size * at.w, at.z, at.w);
          c = tint; d = vec2(shape.z + position.x * l * .5, shape.y);
        }`,
      fragmentShader: `varying vec4 c; varying vec2 d; void main() { if (d.y > 0. && fract(d.x / d.y) > .55) discard; gl_FragColor = c;
#include <colorspace_fragment>
}`,
    });
    this.mesh = new Mesh(g, this.material);
    this.mesh.frustumCulled = false;
    this.mesh.renderOrder = 5;
    stage.scene.add(this.mesh);
    this._color = new Color();
  }
  clear() {
    this.count = 0;
  }
  add(ax, ay, az, bx, by, bz, color, alpha = 1, width = 1.5, dash = 0, phase = 0) {
    if (this.count >= this.capacity || !(ax + ay + az + bx + by + bz < Infinity)) return;
    const i = this.count++;
    this.begin.set([ax, ay, az], 3 * i);
    this.end.set([bx, by, bz], 3 * i);
    if (color !== this._last) {
      this._color.set(color);
      this._last = color;
    }
    this.tint.set([this._color.r, this._color.g, this._color.b, alpha], 4 * i);
    this.shape.set([width, dash, phase], 3 * i);
  }
  finish() {
    const g = this.geometry;
    g.instanceCount = this.count;
    for (const name of ["begin", "end", "tint", "shape"]) {
      const a = g.attributes[name];
      a.clearUpdateRanges();
      a.addUpdateRange(0, this.count * a.itemSize);
      a.needsUpdate = true;
    }
    this.mesh.visible = this.count > 0;
    this.material.uniforms.size.value.set(this.stage.width || 1, this.stage.height || 1);
    this.material.uniforms.least.value = 1.1 / this.stage.ratio; // thinner ones would break up
  }
}

export function geometryOf(positions, normals = null, index = null) {
  const g = new BufferGeometry();
  g.setAttribute("position", new Float32BufferAttribute(positions, 3));
  if (index) g.setIndex(index);
  if (normals) g.setAttribute("normal", new Float32BufferAttribute(normals, 3));
  else g.computeVertexNormals();
  return g;
}
