// The pages of a server: runs, flights, duels, and play.
import { openRecording } from "./data.js";
import { el, message, titled, toggle } from "./ui.js";
import { RunsView } from "./runs.js";
import { PlayView } from "./play.js";

const PAGES = [
  ["runs", "Runs"],
  ["flights", "Flights"],
  ["duels", "Duels"],
  ["play", "Play"],
];
const SCENE_OF = { flights: "flight", duels: "duel" };

export function ask(path, query = {}) {
  return fetch(`${path}?${new URLSearchParams(query)}`, { credentials: "same-origin" });
}

// What a page without a connection shows: a server that was started again has another token, and perhaps another port.
export const LOST = "If the server was started again, open the new address that the command printed.";
export async function isRefused() {
  try {
    return (await ask("/api/index")).status === 403;
  } catch {
    return false;
  }
}

export function startSite(host, { showRecording, setView, themeButton, app }) {
  const token = new URLSearchParams(location.search).get("token");
  if (token) history.replaceState(null, "", location.pathname + location.hash); // the cookie has it now
  const tabs = el("nav", { class: "tabs", "aria-label": "pages" });
  const status = el("span", { class: "status", role: "status" });
  const body = el("div", { class: "body" });
  host.append(
    el(
      "header",
      { class: "top" },
      el("a", { class: "brand", href: "#/runs", text: "Slipstream" }),
      tabs,
      status,
      themeButton(),
    ),
    body,
  );
  const site = { index: null, newest: true };
  let current = null,
    opened = null;

  async function refresh() {
    try {
      const answer = await ask("/api/index");
      if (answer.status === 403) {
        status.textContent = LOST;
        return;
      }
      site.index = await answer.json();
      status.textContent = "";
    } catch {
      status.textContent = "the server does not answer; trying again";
      return;
    }
    const { index } = site;
    const shown = PAGES.filter(([key]) =>
      key === "play"
        ? index.play
        : key === "runs"
          ? index.runs.length || !index.play
          : index.recordings.some((r) => r.scene === SCENE_OF[key] || r.error) || !index.play,
    );
    tabs.replaceChildren(
      ...shown.map(([key, text]) =>
        el("a", { href: `#/${key}`, "aria-current": route()[0] === key ? "page" : null, text }),
      ),
    );
    current?.onIndex?.(index);
  }
  const route = () => {
    const [path, query] = location.hash.replace(/^#\//, "").split("?"),
      [page, ...rest] = path.split("/");
    return [page, decodeURIComponent(rest.join("/")), new URLSearchParams(query).get("t")]; // t: s, where it begins
  };

  function go() {
    const [page, name] = route();
    if (!PAGES.some(([key]) => key === page)) {
      const i = site.index;
      location.replace(
        `#/${i?.play ? "play" : i?.runs.length ? "runs" : i?.recordings.some((r) => r.scene === "duel") && !i.recordings.some((r) => r.scene === "flight") ? "duels" : i?.recordings.length ? "flights" : "runs"}`,
      );
      return;
    }
    for (const a of tabs.children)
      a.getAttribute("href") === `#/${page}`
        ? a.setAttribute("aria-current", "page")
        : a.removeAttribute("aria-current");
    setView(null);
    body.replaceChildren();
    opened = null;
    if (page === "runs") setView((current = new RunsView(body, site, name)));
    else if (page === "play") setView((current = new PlayView(body, site)));
    else {
      current = gallery(page, name);
      setView(current);
    }
  }

  // A list of recordings, and the one that is open.
  function gallery(page, name) {
    const list = el("aside", { class: "list", "aria-label": "recordings" }),
      stage = el("div", { class: "open" });
    body.append(el("div", { class: "gallery" }, list, stage));
    const view = {
      inner: null,
      frame: (dt) => view.inner?.frame(dt) ?? false,
      key: (e) => view.inner?.key(e) ?? false,
      dispose: () => view.inner?.dispose(),
      get stage() {
        return view.inner?.stage;
      },
      get timeline() {
        return view.inner?.timeline;
      },
      get scene() {
        return view.inner?.scene;
      },
      chosen: name,
    };
    const latest = toggle("always show the newest", site.newest, (on) => {
      site.newest = on;
      if (on) view.onIndex(site.index);
    });
    async function open(entry) {
      const key = `${entry.name} ${entry.modified}`;
      if (opened === key) return;
      opened = key;
      view.chosen = entry.name;
      const before = view.inner && {
        view: view.inner.view,
        chosen: view.inner.chosen,
        playing: view.inner.timeline.playing,
      };
      if (!view.inner) stage.replaceChildren(message("Opening", entry.title || entry.name));
      let recording;
      try {
        const answer = await ask("/api/recording", { name: entry.name });
        if (!answer.ok) throw new Error((await answer.json()).error ?? answer.statusText);
        recording = await openRecording(await answer.arrayBuffer());
      } catch (error) {
        if (opened !== key) return;
        view.inner?.dispose();
        view.inner = null;
        stage.replaceChildren(message("This recording cannot be opened", String(error.message ?? error)));
        return;
      }
      if (opened !== key) return;
      view.inner?.dispose();
      stage.replaceChildren();
      view.inner = showRecording(stage, recording, { run: entry.run });
      view.inner?.timeline.setPlaying(before?.playing ?? true);
      const [, , from] = route();
      if (from !== null) view.inner?.timeline.seek(+from || 0);
      mark();
    }
    const mark = () => {
      for (const a of list.querySelectorAll("a"))
        a.dataset.name === view.chosen ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current");
    };
    view.onIndex = (index) => {
      const mine = index.recordings.filter((r) => r.scene === SCENE_OF[page] || (r.error && page === "flights"));
      list.replaceChildren(
        el("div", { class: "row" }, latest),
        ...mine.map((r) =>
          el(
            "a",
            {
              href: `#/${page}/${encodeURIComponent(r.name)}`,
              "data-name": r.name,
              class: r.error ? "broken" : "",
              title: r.name,
            },
            el("b", { text: titled(r.run, r.title || r.name) }),
            el("small", { text: r.error ? `cannot be read: ${r.error}` : r.summary }),
            el("small", { text: `${r.name} · ${when(r.modified)}` }),
          ),
        ),
      );
      if (!mine.length) {
        stage.replaceChildren(
          message(
            `No ${page} yet`,
            page === "flights"
              ? "An evaluation records flights, and so does a training with record_minutes=5."
              : "An evaluation of duels records one, and so does every game.",
            el(
              "p",
              {},
              el("code", {
                text: page === "flights" ? "slipstream eval" : "slipstream eval task=aircombat red=learned",
              }),
            ),
          ),
        );
        return;
      }
      const entry = name
        ? mine.find((r) => r.name === name)
        : site.newest || !view.chosen
          ? (mine.find((r) => !r.error) ?? mine[0])
          : mine.find((r) => r.name === view.chosen);
      if (entry) open(entry);
      else stage.replaceChildren(message("It is gone", `${name} was moved or removed.`));
      mark();
    };
    if (site.index) queueMicrotask(() => view.onIndex(site.index));
    return view;
  }

  let wait = 500;
  function connect() {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/live`);
    socket.onopen = () => {
      wait = 500;
      status.textContent = "";
      refresh();
    };
    socket.onmessage = () => refresh();
    socket.onclose = async () => {
      status.textContent = (await isRefused()) ? LOST : "no connection to the server; trying again";
      setTimeout(connect, wait);
      wait = Math.min(wait * 2, 8000);
    };
  }
  addEventListener("hashchange", go);
  refresh().then(() => {
    go();
    connect();
  });
}

export function when(seconds) {
  const ago = Date.now() / 1000 - seconds;
  if (ago < 90) return "just now";
  if (ago < 5400) return `${Math.round(ago / 60)} min ago`;
  if (ago < 129600) return `${Math.round(ago / 3600)} h ago`;
  return new Date(seconds * 1000).toLocaleDateString();
}
