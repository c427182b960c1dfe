"""Make docs/flight.webp, the moving picture of README.md: the shipped policy's flight in the viewer's page.

python docs/moving_picture.py [--out FILE] [--every N]     (needs chromium; about 4 minutes)
"""

from __future__ import annotations

import argparse
import io
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.browser import FLAGS, find_browser

import slipstream
from slipstream.recordings import Recording, load_recording

ROOT = Path(__file__).parents[1]
MAP, DRONES, CHOSEN = 203, 20, 12
WIDTH, HEIGHT = 720, 405
FPS = 20
BEGIN_S, LENGTH_S = 12.2, 7.2  # in the flight; of the picture
QUALITY = 50

STYLE = """
.panel, .stagebar, .timeline { display: none !important }
#note, #scan { position: fixed; font: 600 14px system-ui, sans-serif; color: var(--ink); background: #0d1117cc; border-radius: 8px }
#note { left: 12px; top: 12px; padding: 7px 12px }
#note span, #scan { font: 12px system-ui, sans-serif; color: var(--muted) }
#scan { right: 12px; bottom: 12px; padding: 8px 10px 6px; text-align: center }
#scan canvas { width: 118px !important; height: 118px !important; display: block; margin-bottom: 3px }
"""
PREPARE = """([drone, before, moving, after]) => {
  const [note, scan, purple, time] = ["div", "div", "b", "span"].map((name) => document.createElement(name));
  const view = slipstream.view;
  view.timeline.setPlaying(false); view.choose(drone); view.trail = 5; view.stage.pace = () => {};  // all pixels, always
  purple.style.color = `#${view.moverMesh.material.color.getHexString()}`; purple.append(moving);
  note.id = "note"; note.append(before, purple, after, document.createElement("br"), time);
  scan.id = "scan"; scan.append(view.radar, "LiDAR of one drone");
  document.body.append(note, scan);
}"""
SHOW = """([time, text, target, distance, azimuth, polar]) => {
  const view = slipstream.view;
  document.querySelector("#note span").textContent = text;
  Object.assign(view.stage, { distance, azimuth, polar }); view.stage.target.set(...target);
  view.timeline.seek(time);
  return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
}"""


def camera(recording: Recording, time: float) -> tuple[list[float], float, float, float]:
    """Return what the camera looks at (the page's x, y, z), its distance, azimuth and polar angle."""
    times = np.arange(time - 3, time + 3, 0.05)
    weights = np.exp(-0.5 * ((times - time) / 1.2) ** 2)
    path, clock = recording.columns["drone.position"][:, CHOSEN], recording.clocks[""]
    x, y = (float(np.average(np.interp(times, clock, path[:, axis]), weights=weights)) for axis in (0, 1))
    part = (time - BEGIN_S) / LENGTH_S
    return [x, 1.6, 1.5 - y], 11.5, math.pi + 0.3 * math.cos(math.pi * part), 0.66


def pictures(page: Any, recording: Recording, every: int) -> list[Image.Image]:
    """Return the pictures, seeking the time of each."""
    page.add_style_tag(content=STYLE)
    movers = recording.columns["mover.position"].shape[1]
    standing = recording.meta["env"]["num_obstacles"]
    page.evaluate(
        PREPARE, [CHOSEN, f"{DRONES} drones among {standing} standing and ", f"{movers} moving", " obstacles"]
    )
    found = []
    for frame in range(0, round(FPS * LENGTH_S), every):
        time = BEGIN_S + frame / FPS
        page.evaluate(SHOW, [time, f"{time:.1f} s", *camera(recording, time)])
        shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        found.append(shot.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS))
    return found


def main() -> None:
    """Record, draw, encode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "flight.webp")
    parser.add_argument("--every", type=int, default=1, help="draw only every Nth picture, to try a camera")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        flight = Path(folder, "flight.png")
        slipstream.evaluate(f"eval.map_seeds=[{MAP}]", f"eval.num_drones={DRONES}", f"out={flight}")
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        size = {"width": WIDTH, "height": HEIGHT}
        page = browser.new_page(viewport=size, device_scale_factor=2, color_scheme="dark")  # twice: smooth edges
        page.goto(flight.with_suffix(".html").as_uri())
        page.wait_for_selector("body[data-ready]")
        first, *rest = pictures(page, load_recording(flight.with_suffix(".rec")), args.every)
        browser.close()
    duration = 1000 * args.every / FPS
    first.save(args.out, save_all=True, append_images=rest, duration=duration, loop=0, quality=QUALITY, method=6)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.2f} MB, {1 + len(rest)} pictures")


if __name__ == "__main__":
    main()
