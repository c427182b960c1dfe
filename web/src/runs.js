// Runs: a list, curves of any metric with several runs overlaid, and what a run consists of.
import uPlot from "uplot";
import { ends } from "./plots.js";
import { ask, when } from "./site.js";
import { choice, el, message, number, theme, toggle } from "./ui.js";

const FIRST = [
  "eval/success",
  "eval/score",
  "eval/return",
  "episode/success",
  "episode/return",
  "fps",
  "loss/policy",
  "loss/value",
];

export class RunsView {
  constructor(host, site, name) {
    this.site = site;
    this.data = new Map();
    this.chosen = new Set(name ? [name] : []);
    this.metrics = null;
    this.smooth = 0.6;
    this.log = false;
    this.axis = "frames";
    this.plots = [];
    this.wanted = name;
    this.list = el("aside", { class: "list", "aria-label": "runs" });
    this.panels = el("div", { class: "curves" });
    this.below = el("div", { class: "below" });
    this.filter = el("input", {
      type: "text",
      placeholder: "find metrics, such as perf/",
      "aria-label": "find metrics",
      oninput: () => this._chips(),
    });
    this.chips = el("div", { class: "chips", role: "group", "aria-label": "metrics" });
    const smooth = el("input", {
      type: "range",
      min: 0,
      max: 0.98,
      step: 0.02,
      value: this.smooth,
      "aria-label": "smoothing",
      oninput: () => {
        this.smooth = +smooth.value;
        this.draw();
      },
    });
    this.bar = el(
      "div",
      { class: "stagebar" },
      choice(
        "x axis",
        [
          ["frames", "frames"],
          ["time_s", "time"],
          ["iteration", "iterations"],
        ],
        "frames",
        (a) => {
          this.axis = a;
          this.draw();
        },
      ),
      el("label", { class: "group" }, el("span", { class: "hint", text: "smoothing" }), smooth),
      toggle("log scale", false, (on) => {
        this.log = on;
        this.draw();
      }),
      this.filter,
    );
    this.legend = el("ul", { class: "key", "aria-label": "runs in the curves" });
    this.content = el("div", { class: "open scrolling" }, this.bar, this.chips, this.legend, this.panels, this.below);
    this.element = el("div", { class: "gallery" }, this.list, this.content);
    host.append(this.element);
    this._unsubscribe = theme.onChange(() => this.draw());
    this._observer = new ResizeObserver(() => {
      const w = this.panels.clientWidth;
      if (w !== this._width) {
        this._width = w;
        this.draw();
      }
    });
    this._observer.observe(this.panels);
    if (site.index) queueMicrotask(() => this.onIndex(site.index));
  }

  async onIndex(index) {
    if (!index.runs.length) {
      this.content.replaceChildren(
        message(
          "No runs here yet",
          `There is no run below ${index.root || "this folder"}. A training makes one, and it shows up here while it runs.`,
          el("p", {}, el("code", { text: "slipstream train preset=demo" })),
        ),
      );
      this.list.replaceChildren();
      return;
    }
    if (!this.bar.isConnected) this.content.replaceChildren(this.bar, this.chips, this.legend, this.panels, this.below);
    for (const name of this.chosen) if (!index.runs.some((run) => run.name === name)) this.chosen.delete(name);
    if (!this.chosen.size) this.chosen.add((index.runs.find((r) => r.running) ?? index.runs[0]).name);
    this._list(index.runs);
    await this._load();
  }

  _list(runs) {
    this.list.replaceChildren(
      ...runs.map((r) => {
        const box = el("input", {
          type: "checkbox",
          "aria-label": `show ${r.name}`,
          onchange: () => {
            box.checked ? this.chosen.add(r.name) : this.chosen.delete(r.name);
            this._load();
          },
        });
        box.checked = this.chosen.has(r.name);
        const k = [...this.chosen].indexOf(r.name),
          last = r.last ?? {},
          score = last["eval/success"] ?? last["episode/success"];
        return el(
          "label",
          { class: "run" },
          box,
          el("span", { class: "swatch", style: k >= 0 ? `background:${theme.series[k % 6]}` : "" }),
          el(
            "span",
            {},
            el("b", { text: r.name }),
            r.running ? el("span", { class: "running", text: "● running" }) : "",
            el("small", {
              text: `${r.task} · ${number(last.frames ?? 0)} frames${score == null ? "" : ` · success ${number(score)}`}`,
            }),
            el("small", { text: r.error ? `cannot be read: ${r.error}` : when(r.modified) }),
          ),
        );
      }),
    );
  }

  async _load() {
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    for (const name of this.chosen) {
      let more = true;
      while (more) {
        const known = this.data.get(name) ?? { rows: [], offset: 0 };
        try {
          const answer = await ask("/api/run", { name, from: known.offset }),
            found = await answer.json();
          if (!answer.ok) {
            known.error = found.error;
            more = false;
          } else {
            if (found.restarted) known.rows = [];
            known.rows.push(...found.rows);
            more = found.more;
            Object.assign(known, found, { rows: known.rows, error: null });
          }
        } catch (error) {
          known.error = String(error);
          more = false;
        }
        this.data.set(name, known);
      }
    }
    this.loading = false;
    if (this.site.index) this._list(this.site.index.runs);
    this._chips();
    this.draw();
    this._describe();
    if (this.again) {
      this.again = false;
      this._load();
    }
  }

  names() {
    const found = new Set();
    for (const name of this.chosen)
      for (const row of this.data.get(name)?.rows.slice(-50) ?? [])
        for (const key in row) if (!["iteration", "frames", "time_s"].includes(key)) found.add(key);
    return [...found].sort();
  }

  _chips() {
    const names = this.names(),
      text = this.filter.value.trim().toLowerCase();
    if (!this.metrics && names.length) {
      const first = FIRST.filter((n) => names.includes(n)).slice(0, 4);
      this.metrics = new Set(first.length ? first : names.slice(0, 4));
    }
    const shown = names
      .filter((n) => (text ? n.toLowerCase().includes(text) : this.metrics.has(n) || !n.startsWith("perf/")))
      .slice(0, 60);
    this.chips.replaceChildren(
      ...shown.map((n) =>
        el("button", {
          type: "button",
          class: "chip",
          "aria-pressed": String(this.metrics.has(n)),
          text: n,
          onclick: () => {
            this.metrics.has(n) ? this.metrics.delete(n) : this.metrics.add(n);
            this._chips();
            this.draw();
          },
        }),
      ),
    );
  }

  draw() {
    for (const p of this.plots) p.destroy();
    this.plots = [];
    this.panels.replaceChildren();
    const c = theme.colors,
      runs = [...this.chosen],
      width = this.panels.clientWidth;
    if (!runs.length) {
      this.panels.append(message("Choose a run", "Tick one or more runs in the list."));
      return;
    }
    this.legend.replaceChildren(
      ...(runs.length > 1 ? runs : []).map((name, k) =>
        el(
          "li",
          {},
          el("i", { class: k >= 6 ? "dash" : "", style: `color:${theme.series[k % 6]}`, "aria-hidden": "true" }),
          name,
        ),
      ),
    );
    const columns = width > 1100 ? 3 : width > 640 ? 2 : 1;
    for (const metric of this.metrics ?? []) {
      const box = el("figure", { class: "curve" }, el("figcaption", { text: metric }));
      this.panels.append(box);
      const tables = [],
        series = [{}],
        missing = [];
      runs.forEach((name, k) => {
        const rows = (this.data.get(name)?.rows ?? []).filter((r) => r[metric] != null && (!this.log || r[metric] > 0)),
          x = rows.map((r) => r[this.axis]),
          y = rows.map((r) => r[metric]);
        if (!x.length) {
          missing.push(name);
          return;
        }
        const color = theme.series[k % 6],
          few = rows.length < 60,
          dash = k >= 6 ? [5, 3] : undefined;
        if (this.smooth && !few) {
          tables.push([x, y], [x, smoothed(y, this.smooth)]);
          series.push(
            { stroke: color + "40", width: 1, label: `${name} raw` },
            { stroke: color, width: 2, label: name, dash },
          );
        } else {
          tables.push([x, y]);
          series.push({ stroke: color, width: 1.8, label: name, dash, points: { show: few, size: 6, fill: color } });
        }
      });
      if (!tables.length) {
        box.append(el("p", { class: "hint none", text: "no values yet" }));
        continue;
      }
      if (missing.length) box.append(el("p", { class: "hint", text: `no values: ${missing.join(", ")}` }));
      const unit =
        this.axis === "time_s"
          ? (v) => (v >= 5400 ? `${+(v / 3600).toFixed(1)} h` : v >= 120 ? `${Math.round(v / 60)} min` : `${v} s`)
          : (v) => number(v);
      const axis = {
        stroke: c.muted,
        grid: { stroke: c.grid, width: 1 },
        ticks: { show: false },
        font: "11px system-ui",
      };
      const value = el("output", { class: "value" });
      box.firstChild.append(value);
      this.plots.push(
        new uPlot(
          {
            width: Math.max(width / columns - 24, 240),
            height: 210,
            legend: { show: false },
            cursor: { y: false, drag: { x: true, y: false }, sync: { key: "runs" } },
            scales: {
              x: { time: false, range: (_, low, high) => ends(low, high) },
              y: {
                distr: this.log ? 3 : 1,
                ...(this.log
                  ? {}
                  : {
                      range: (_, low, high) => (low === high ? ends(low, high) : uPlot.rangeNum(low, high, 0.1, true)),
                    }),
              },
            },
            axes: [
              { ...axis, values: (_, v) => v.map(unit), space: 70 },
              { ...axis, size: 52, values: (_, v) => v.map((x) => (x === null ? "" : number(x))) },
            ],
            series,
            hooks: {
              setCursor: [
                (u) => {
                  const i = u.cursor.idx;
                  value.textContent =
                    i == null
                      ? ""
                      : u.series
                          .slice(1)
                          .map((s, k) => (s.label.endsWith(" raw") ? null : u.data[k + 1][i]))
                          .filter((v) => v != null)
                          .map((v) => number(v))
                          .join("   ");
                },
              ],
            },
          },
          tables.length > 1 ? uPlot.join(tables) : tables[0],
          box,
        ),
      );
    }
  }

  _describe() {
    const names = [...this.chosen],
      first = this.data.get(names[0]);
    this.below.replaceChildren();
    for (const name of names)
      if (this.data.get(name)?.error)
        this.below.append(el("p", { class: "error", text: `${name}: ${this.data.get(name).error}` }));
    if (!first || first.error) return;
    const last = first.rows.at(-1) ?? {},
      perf = Object.entries(last).filter(([k]) => k.startsWith("perf/")),
      table = (title, rows) =>
        rows.length
          ? el(
              "section",
              {},
              el("h2", { text: title }),
              el(
                "div",
                { class: "scroll" },
                el(
                  "table",
                  {},
                  el(
                    "tbody",
                    {},
                    rows.map((r) =>
                      el(
                        "tr",
                        {},
                        r.map((t, i) => (i ? el("td", { text: t }) : el("th", { scope: "row", text: t }))),
                      ),
                    ),
                  ),
                ),
              ),
            )
          : "";
    this.below.append(
      table(
        "Evaluation",
        Object.entries(lastOf(first.rows, "eval/")).map(([k, v]) => [k, number(v)]),
      ),
      table("Throughput, waits, memory", [["fps", number(last.fps)], ...perf.map(([k, v]) => [k, number(v)])]),
      table(
        "Checkpoints",
        first.checkpoints
          .slice(-12)
          .reverse()
          .map((f) => [f.name, `${(f.bytes / 1e6).toFixed(2)} MB`, when(f.modified)]),
      ),
      table(
        "Recordings",
        first.recordings.map((r) => [r]),
      ),
      names.length > 1
        ? difference(
            names,
            names.map((name) => this.data.get(name)?.config ?? {}),
          )
        : "",
    );
    if (first.figures.length)
      this.below.append(
        el(
          "section",
          { class: "wide" },
          el("h2", { text: "Figures" }),
          el(
            "div",
            { class: "figures" },
            first.figures.map((f) =>
              el(
                "a",
                { href: `/api/figure?${new URLSearchParams({ name: first.name, file: f.name })}`, target: "_blank" },
                el("img", {
                  loading: "lazy",
                  alt: f.name,
                  src: `/api/figure?${new URLSearchParams({ name: first.name, file: f.name, at: f.modified })}`,
                }),
              ),
            ),
          ),
        ),
      );
    this.below.append(
      el(
        "details",
        {},
        el("summary", { text: `Configuration of ${names[0]}` }),
        el("pre", {
          text: flat(first.config)
            .map(([k, v]) => `${k}=${v}`)
            .join("\n"),
        }),
      ),
    );
  }
  dispose() {
    this._unsubscribe();
    this._observer.disconnect();
    for (const p of this.plots) p.destroy();
    this.element.remove();
  }
}

function smoothed(y, weight) {
  let s = 0,
    w = 0;
  return y.map((v) => {
    s = s * weight + v * (1 - weight);
    w = w * weight + 1 - weight;
    return s / w;
  });
}
function lastOf(rows, prefix) {
  const found = {};
  for (const row of rows) for (const key in row) if (key.startsWith(prefix) && row[key] != null) found[key] = row[key];
  return found;
}
function flat(config, prefix = "") {
  return Object.entries(config ?? {}).flatMap(([k, v]) =>
    v && typeof v === "object" && !Array.isArray(v) ? flat(v, `${prefix}${k}.`) : [[prefix + k, JSON.stringify(v)]],
  );
}
function difference(names, configs) {
  const flats = configs.map((config) => new Map(flat(config))),
    keys = [...new Set(flats.flatMap((values) => [...values.keys()]))].filter(
      (key) => key !== "name" && new Set(flats.map((values) => values.get(key))).size > 1,
    );
  return el(
    "section",
    { class: "wide" },
    el("h2", { text: "Settings that differ" }),
    keys.length
      ? el(
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
                ["", ...names].map((t) => el("th", { text: t })),
              ),
            ),
            el(
              "tbody",
              {},
              keys.map((key) =>
                el(
                  "tr",
                  {},
                  el("th", { scope: "row", text: key }),
                  flats.map((values) => el("td", { text: values.get(key) ?? "–" })),
                ),
              ),
            ),
          ),
        )
      : el("p", { class: "hint", text: "none" }),
  );
}
