// The page: a recording or a policy that is inside the file, or the views of a server.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { openRecording } from "./data.js";
import { DuelView } from "./duel.js";
import { FlightView } from "./flight.js";
import { FlyView } from "./fly.js";
import { button, el, message, theme, typing } from "./ui.js";

const SCENES = { flight: FlightView, duel: DuelView };
const app = { view: null, frames: 0, script: [], last: 0 };
window.slipstream = app; // for tests and measurements

export function showRecording(host, recording, options) {
  const View = SCENES[recording.scene];
  if (!View) {
    host.append(message("Unknown recording", `This page has no view for recordings of "${recording.scene}".`));
    return null;
  }
  return show(host, () => new View(host, recording, options));
}

function show(host, make) {
  try {
    return make();
  } catch (error) {
    host.replaceChildren(
      message(
        "Nothing can be drawn",
        /webgl/i.test(String(error))
          ? "This browser has no WebGL: turn on hardware acceleration or software rendering, or use another browser."
          : String(error),
      ),
    );
    return null;
  }
}

export function setView(view) {
  app.view?.dispose?.();
  app.view = view;
}

function loop(now) {
  const dt = Math.min((now - app.last) / 1000, 0.25);
  app.last = now;
  if (app.view?.frame && !document.hidden) {
    const begin = performance.now(),
      drawn = app.view.frame(dt);
    const stages = [app.view.stage, app.view.scene?.plane, app.view.scene?.space].filter((s) => s?.pace);
    for (const s of stages)
      s.pace(now - (app.drawn ?? now) < 500 ? (now - app.drawn) / 1000 : 0, drawn || now - (app.drawn ?? 0) < 700);
    if (drawn) {
      app.drawn = now;
      app.frames++;
      app.script.push(performance.now() - begin);
      if (app.script.length > 600) app.script.shift();
    }
  }
  requestAnimationFrame(loop);
}

export const themeButton = () =>
  button("", () => theme.set(theme.name === "dark" ? "light" : "dark"), {
    iconName: "sun",
    title: "Dark or light (T)",
    className: "quiet",
  });

async function start() {
  theme.start();
  const host = document.getElementById("app"),
    data = document.getElementById("recording"),
    policy = document.getElementById("policy"),
    bytesOf = (node) => Uint8Array.from(atob(node.textContent.trim()), (c) => c.charCodeAt(0));
  addEventListener("keydown", (e) => {
    if (document.querySelector("dialog[open]")) return;
    if ((e.target.tagName === "BUTTON" && (e.key === " " || e.key === "Enter")) || e.defaultPrevented) return;
    if (app.view?.key?.(e)) e.preventDefault();
    else if (e.key === "t" && !typing(e)) theme.set(theme.name === "dark" ? "light" : "dark");
  });
  requestAnimationFrame(loop);
  if (data) {
    try {
      setView(showRecording(host, await openRecording(bytesOf(data)), { controls: [themeButton()] }));
      app.view?.timeline.setPlaying(true);
    } catch (error) {
      host.append(message("This recording cannot be opened", `${error}`));
    }
  } else if (policy) {
    const options = { controls: [themeButton()], title: document.title };
    setView(show(host, () => new FlyView(host, bytesOf(policy), options)));
  } else {
    const { startSite } = await import("./site.js");
    startSite(host, { showRecording, setView, themeButton, app });
  }
  document.body.dataset.ready = "true";
}
start();
