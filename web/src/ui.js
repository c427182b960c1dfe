// Small helpers: elements, the theme, formatting.
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
}

export const PALETTE = {
  dark: {
    ground: "#0d1117",
    panel: "#121821",
    field: "#131b27",
    grid: "#222c39",
    edge: "#33415a",
    muted: "#8b98a9",
    ink: "#e8edf4",
    low: "#243246",
    high: "#7f9ebd",
    success: "#3ddbd9",
    collision: "#ff5c5c",
    timeout: "#ffc857",
    mover: "#b794f6",
    beam: "#ffe066",
    own: "#4cc9f0",
    threat: "#ff5c5c",
    escape: "#5ee08a",
    missile: "#ffd166",
    drone: "#e8edf4",
  },
  light: {
    ground: "#f4f6f9",
    panel: "#ffffff",
    field: "#e9eef4",
    grid: "#cfd8e3",
    edge: "#a9b8ca",
    muted: "#556274",
    ink: "#131a23",
    low: "#d3dde8",
    high: "#8da4bf",
    success: "#00857f",
    collision: "#cf222e",
    timeout: "#9a6700",
    mover: "#7a3fd0",
    beam: "#b58900",
    own: "#0b76b8",
    threat: "#cf222e",
    escape: "#1a7f37",
    missile: "#a86400",
    drone: "#131a23",
  },
};
export const SERIES = ["#4cc9f0", "#f9a03f", "#b388ff", "#5ee08a", "#ff6b6b", "#ffe066"];
export const SERIES_LIGHT = ["#0b76b8", "#b35900", "#6f42c1", "#1a7f37", "#cf222e", "#7d6608"];

let listeners = [];
// A choice of this browser, or what it is without one.
export function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`slipstream-${name}`)) ?? otherwise;
  } catch {
    return otherwise; // a page from disk may have no storage
  }
}
kept.set = (name, value) => {
  try {
    localStorage.setItem(`slipstream-${name}`, JSON.stringify(value));
  } catch {
    /* as above */
  }
};
export const theme = {
  get name() {
    return document.documentElement.dataset.theme;
  },
  get colors() {
    return PALETTE[this.name];
  },
  get series() {
    return this.name === "dark" ? SERIES : SERIES_LIGHT;
  },
  onChange(f) {
    listeners.push(f);
    return () => {
      listeners = listeners.filter((g) => g !== f);
    };
  },
  set(name, keep = true) {
    document.documentElement.dataset.theme = name;
    if (keep)
      try {
        localStorage.setItem("slipstream-theme", name);
      } catch {
        /* a page from disk may have no storage */
      }
    for (const f of listeners) f();
  },
  start() {
    let saved = null;
    try {
      saved = localStorage.getItem("slipstream-theme");
    } catch {
      /* as above */
    }
    const query = matchMedia("(prefers-color-scheme: light)");
    this.set(saved || (query.matches ? "light" : "dark"), false);
    query.addEventListener("change", () => {
      if (!saved) this.set(query.matches ? "light" : "dark", false);
    });
  },
};

export function number(x, digits = 3) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  const a = Math.abs(x);
  if (a >= 1e9) return (x / 1e9).toPrecision(3) + "G";
  if (a >= 1e6) return (x / 1e6).toPrecision(3) + "M";
  if (a >= 1e4) return (x / 1e3).toPrecision(3) + "k";
  if (a && a < 1e-3) return x.toExponential(1);
  return String(+x.toPrecision(digits));
}
// A share of a total in percent; 0 and 100 mean none and all.
export function percent(n, total) {
  const exact = (100 * n) / (total || 1),
    rounded = Math.round(exact);
  return n > 0 && n < total ? Math.min(Math.max(rounded, 1), 99) : rounded;
}
export const clock = (s) => `${Math.floor(s / 60)}:${(s % 60).toFixed(1).padStart(4, "0")}`;

const ICONS = {
  play: "M7 4l13 8-13 8z",
  pause: "M6 4h4v16H6zM14 4h4v16h-4z",
  next: "M5 4l10 8-10 8zM17 4h3v16h-3z",
  back: "M19 4L9 12l10 8zM4 4h3v16H4z",
  sun: "M12 7a5 5 0 100 10 5 5 0 000-10zM11 1h2v3h-2zM11 20h2v3h-2zM1 11h3v2H1zM20 11h3v2h-3zM4.2 2.8l2.1 2.1-1.4 1.4-2.1-2.1zM19.1 17.7l2.1 2.1-1.4 1.4-2.1-2.1zM2.8 19.8l2.1-2.1 1.4 1.4-2.1 2.1zM17.7 4.9l2.1-2.1 1.4 1.4-2.1 2.1z",
  sound: "M3 9v6h4l5 5V4L7 9zM15 8v8a5 5 0 000-8z",
  silent:
    "M3 9v6h4l5 5V4L7 9zM14 10l1.4-1.4L17.500 10.700l2.100-2.100L21 10l-2.100 2.100L21 14.200l-1.400 1.400-2.100-2.100-2.100 2.100L14 14.200l2.100-2.100z",
  help: "M12 2a10 10 0 100 20 10 10 0 000-20zm1 16h-2v-2h2zm1.6-6.4c-.9.7-1.6 1.2-1.6 2.4h-2c0-2 1.1-2.9 2.1-3.7.8-.6 1.4-1.1 1.4-1.9a2 2 0 00-4 .1H8.400a4 4 0 018 0c0 1.600-1 2.400-1.800 3.100z",
};
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

export function button(label, action, { iconName = null, title = label, pressed = null, className = "" } = {}) {
  return el(
    "button",
    {
      type: "button",
      class: `button ${className}`,
      title,
      "aria-label": title,
      "aria-pressed": pressed === null ? null : String(pressed),
      onclick: action,
    },
    iconName ? icon(iconName) : label,
  );
}

// A row of buttons of which one is chosen.
export function choice(label, options, value, action) {
  const box = el("div", { class: "choice", role: "radiogroup", "aria-label": label });
  const set = (chosen) => {
    for (const b of box.children) b.setAttribute("aria-checked", String(b.dataset.value === String(chosen)));
  };
  for (const [key, text, title] of options)
    box.append(
      el(
        "button",
        {
          type: "button",
          role: "radio",
          "data-value": key,
          title: title || text,
          onclick: () => {
            set(key);
            action(key);
          },
        },
        text,
      ),
    );
  set(value);
  box.set = set;
  return box;
}

export function toggle(label, value, action) {
  const input = el("input", { type: "checkbox", onchange: () => action(input.checked) });
  input.checked = value;
  return el("label", { class: "toggle" }, input, el("span", { text: label }));
}

export function message(title, text, ...more) {
  return el("div", { class: "message", role: "status" }, el("h2", { text: title }), el("p", { text }), ...more);
}

export function keyboardHelp(rows) {
  const dialog = el(
    "dialog",
    { class: "help", "aria-label": "keys" },
    el("h2", { text: "Keys and mouse" }),
    el(
      "dl",
      {},
      rows.flatMap(([key, what]) => [el("dt", {}, el("kbd", { text: key })), el("dd", { text: what })]),
    ),
    el("form", { method: "dialog" }, el("button", { class: "button", text: "Close" })),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
// A recording's title with the run that it is of.
export const titled = (run, title) => (run ? `${run} · ${title}` : title);
export const typing = (event) =>
  event.ctrlKey ||
  event.metaKey ||
  event.altKey ||
  (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) &&
    event.target.type !== "range" &&
    event.target.type !== "checkbox");
