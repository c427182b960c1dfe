"""How fast the viewer's page draws, how punctual a game is, and what the server bears.

python benchmarks/viewer.py                 everything (about 8 minutes; keep the machine quiet)
python benchmarks/viewer.py page            sizes, first picture, script time, frames per second (needs chromium)
python benchmarks/viewer.py play            a game of three minutes over a websocket, without rendering
python benchmarks/viewer.py policy          the page in which the policy flies: size, frames per second
python benchmarks/viewer.py load            200 connections, malformed frames, an idle page
  --seconds N   of the long parts (180 for play, 60 for load)
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.browser import FLAGS, find_browser

from slipstream.recordings import Recording, write_html

MEASURE = """async () => {
  const s = slipstream, v = s.view;
  v.timeline.seek(4); v.timeline.setPlaying(true); s.script.length = 0;
  const first = s.frames, begin = performance.now();
  await new Promise((done) => setTimeout(done, 10000));
  const fps = 1000 * (s.frames - first) / (performance.now() - begin), script = [...s.script].sort((a, b) => a - b);
  const then = performance.now();
  for (let i = 0; i < 50; i++) v.update();
  return { fps, script: script[script.length >> 1], calls: v.stage.calls, work: (performance.now() - then) / 50 };
}"""
STATIC = Path(__file__).parents[1] / "slipstream" / "viewer" / "static"


def row(what: str, value: str, target: str = "") -> None:
    print(f"| {what} | {value} | {target} |", flush=True)


def browser_cpu_s() -> float:
    """Processor time of this process's browser, all its processes together."""
    parents, times = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid], times[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    total = 0.0
    for pid, used in times.items():
        above = parents[pid]
        while above in parents and above != os.getpid():
            above = parents[above]
        total += used if above == os.getpid() else 0.0
    return total


def flight(drones: int, seconds: float, boxes: int = 350, movers: int = 80) -> Recording:
    """Drones that weave through a field, as many rows a second as an evaluation records."""
    rng = np.random.default_rng(0)
    t = np.arange(0, seconds, 0.128)
    phase = rng.uniform(0, 6.28, (3, drones))
    x = np.linspace(-16, 16, drones) + np.sin(0.7 * t[:, None] + phase[0])
    y = 24 - 48 * t[:, None] / seconds + 0.5 * np.sin(1.1 * t[:, None] + phase[1])
    z = 2 + 0.4 * np.sin(0.9 * t[:, None] + phase[2])
    place = np.stack(np.broadcast_arrays(x, y, z), -1).astype(np.float32)
    outcome = rng.choice([0, 1, 2], drones, p=[0.05, 0.8, 0.15]).astype(np.uint8)
    for k in np.flatnonzero(outcome == 2):
        place[rng.integers(10, len(t)) :, k] = np.nan
    around = rng.uniform(-18, 18, (movers, 3)) * (1, 1, 0) + (0, 0, 2.5)
    moving = around + np.stack((np.sin(t), np.cos(t), 0 * t), -1)[:, None]
    noise = rng.normal(0, 1, (*place.shape[:2], 4)).astype(np.float32)
    columns = {"drone.position": place, "drone.action": noise[..., :3], "drone.value": 20 + 3 * noise[..., 3]}
    columns["mover.position"] = moving.astype(np.float32)
    sides, heights = rng.choice([0.15, 0.35], (boxes, 2)), rng.uniform(1, 6, (boxes, 1))
    box = np.concatenate((rng.uniform(-19, 19, (boxes, 2)), sides, heights), 1)
    arrays = {
        "box": box.astype(np.float32),
        "drone.goal": np.tile(np.array([[0, -24, 2]], np.float32), (drones, 1)),
        "drone.outcome": outcome,
        "drone.yaw": np.full(drones, -1.57, np.float32),
        "mover.size": np.tile(np.array([[0.5, 5]], np.float32), (movers, 1)),
    }
    steps = {"drone.position": 0.001, "mover.position": 0.001, "drone.action": 0.01, "drone.value": 0.01}
    meta = {
        "summary": f"{drones} drones",
        "map_half_m": 20.0,
        "lidar": {"range_m": 4.0, "azimuths": 36, "elevations_deg": [-10, 0, 10, 20]},
    }
    group = {
        "name": "drone",
        "position": "drone.position",
        "shown": None,
        "labels": [f"drone {k + 1}" for k in range(drones)],
    }
    groups = [group | {"type": "Air+Rotorcraft", "color": "Cyan"}]
    return Recording("flight", f"{drones} drones", {"": t}, columns, arrays, groups, [], meta, steps)


# -- the page ----------------------------------------------------------------------------------------------------------


def page_figures() -> None:
    from playwright.sync_api import sync_playwright

    from slipstream.viewer.library import Library
    from slipstream.viewer.server import Server

    size = sum((STATIC / name).stat().st_size for name in ("index.html", "viewer.js", "viewer.css"))
    row("page (script, style, HTML)", f"{size / 1e3:.0f} kB", "< 700 kB")
    sixty = flight(96, 60)
    row("60 s of 96 drones on the wire", f"{len(sixty.to_bytes()) / 1e6:.2f} MB", "< 3 MB")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        html = write_html(flight(96, 35), folder / "flight.html").stat().st_size
        row("flight.html, 35 s of 96 drones", f"{html / 1e6:.2f} MB", "< 1.5 MB")
        flight(96, 35).save(folder / "flight.rec")
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        server = Server(Library(folder))
        server.start()
        times = []
        for _ in range(5):
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            begin = time.perf_counter()
            page.goto(f"{server.url}#/flights")
            while not page.evaluate("window.slipstream?.frames > 0"):
                pass
            times.append(time.perf_counter() - begin)
            page.context.close()
        row("first picture from localhost, median of 5", f"{statistics.median(times):.2f} s", "<= 1.5 s")
        server.stop()
        for drones, least in ((96, 8), (1024, 4)):
            path = write_html(flight(drones, 35), folder / f"{drones}.html")
            page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.goto(path.as_uri())
            page.wait_for_selector("body[data-ready]", timeout=120_000)
            page.wait_for_timeout(2000)  # the first frames compile shaders
            before = browser_cpu_s()
            found = page.evaluate(MEASURE)
            per_frame = (browser_cpu_s() - before) / max(10 * found["fps"], 1)
            row(f"{drones} drones, 430 obstacles: draw calls", str(found["calls"]), "<= 20")
            row(
                f"{drones} drones: script per frame, computing (with the call that starts drawing)",
                f"{found['work']:.1f} ms ({found['script']:.1f} ms)",
                "<= 4 ms",
            )
            row(
                f"{drones} drones: software rendering, headless, 1440 x 900",
                f"{found['fps']:.1f} frames/s",
                f">= {least}",
            )
            row(f"{drones} drones: processor time of the browser per frame", f"{1e3 * per_frame:.0f} ms")
            page.context.close()
        browser.close()


def policy_figures() -> None:
    from playwright.sync_api import sync_playwright

    from slipstream.cli import main as command

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        path = Path(name) / "policy.html"
        command(["export", "--to", "html", f"out={path}"])
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-ready]", timeout=120_000)
        page.keyboard.press("n")  # a map that nobody recorded
        page.wait_for_timeout(4000)  # the first frames compile shaders
        first, begin = page.evaluate("slipstream.frames"), time.perf_counter()
        page.wait_for_timeout(10_000)
        rate = (page.evaluate("slipstream.frames") - first) / (time.perf_counter() - begin)
        row("policy.html", f"{path.stat().st_size / 1e6:.2f} MB", "< 5 MB")
        row("a drone of it: software rendering, headless, 1280 x 720", f"{rate:.1f} frames/s", ">= 30")
        browser.close()


# -- a game ------------------------------------------------------------------------------------------------------------


def start(*words: str, program: tuple[str, ...] = ("-m", "slipstream")) -> tuple[subprocess.Popen[str], str]:
    """Start a command of the server in a process of its own; return it and its address."""
    process = subprocess.Popen([sys.executable, *program, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "http://" in line:
            return process, line[line.index("http://") :].strip()
    raise RuntimeError("the server did not start")


def socket_of(url: str, path: str):
    from websockets.sync.client import connect

    base, _, token = url.partition("/?token=")
    return connect(f"{base.replace('http', 'ws')}{path}?token={token}", open_timeout=60, max_size=1 << 22)


def serve_timed(path: str, *words: str) -> None:
    """Run `slipstream play`, and write the times at which its steps started to a file."""
    from slipstream.__main__ import main
    from slipstream.tasks.aircombat.game import DuelGame

    started, step = [], DuelGame.step

    def timed(game: DuelGame, controls: list[list[float]]) -> None:
        started.append(time.perf_counter())
        step(game, controls)

    DuelGame.step = timed  # type: ignore[method-assign]
    sys.argv[1:] = ["play", *words]
    try:
        main()
    finally:
        np.save(path, started)


def wake_times(seconds: float) -> list[float]:
    """Sleep 60 times a second and do nothing else: how late this machine wakes a process."""
    due = time.perf_counter()
    times, end = [due], due + seconds
    while times[-1] < end:
        due = due + 1 / 60 if times[-1] - due < 0.25 else times[-1] + 1 / 60
        time.sleep(max(due - time.perf_counter(), 0))
        times.append(time.perf_counter())
    return times


def lateness_ms(times: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return how late each step but the first is; a quarter of a second at most is made up for, as in the server."""
    late, due = [], times[0]
    for now, passed in zip(times[1:], np.diff(steps), strict=True):
        due += passed / 60
        late.append(max(now - due, 0.0))
        if now < due or now - due > 0.25:
            due = now
    return 1e3 * np.array(late)


def punctual(late: np.ndarray) -> str:
    return f"{100 * (late <= 33).mean():.2f} % (99 % at most {np.percentile(late, 99):.0f} ms late)"


def play_figures(seconds: float) -> None:
    from slipstream.viewer.play import PREFIX, STATE

    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, get_context("spawn")) as pool:
        words = ("opponent=learned", f"seconds={seconds + 30:g}", "--no-browser", f"out={folder}")
        process, url = start(*words, program=(__file__, "serve", f"{folder}/steps.npy"))
        pool.submit(wake_times, 0).result()  # the process is there
        with socket_of(url, "/api/play") as socket:
            socket.send(json.dumps({"kind": "start", "opponent": "learned", "start": "head_on"}))
            while not isinstance(socket.recv(120), bytes):
                pass
            control = pool.submit(wake_times, seconds)
            arrived, steps, delays, diagrams, sent, number = [], [], [], 0, {}, 0
            begin = time.perf_counter()
            next_input = begin + 1
            while (now := time.perf_counter()) < begin + seconds:
                message = socket.recv(10)
                now = time.perf_counter()
                if isinstance(message, bytes) and message[0] == STATE:
                    head = PREFIX.unpack_from(message)
                    arrived.append(now)
                    steps.append(head[6])
                    if head[4] in sent:
                        delays.append(now - sent.pop(head[4]))
                elif isinstance(message, bytes):
                    diagrams += 1
                if now >= next_input:
                    number += 1
                    sent[number] = time.perf_counter()
                    socket.send(
                        json.dumps({"kind": "input", "values": [0.3 * (-1) ** number, 1.0, 0.0], "number": number})
                    )
                    next_input = now + 0.2
        alone = np.array(control.result())
        process.send_signal(signal.SIGINT)
        process.wait(60)
        started = np.load(f"{folder}/steps.npy")
    started = started[(started >= begin) & (started < begin + seconds)]
    delays = 1e3 * np.array(delays)
    what = f"game of {seconds:.0f} s, at most 33 ms late"
    row(f"{what}: steps start", punctual(lateness_ms(started, np.arange(len(started)))), ">= 99 %")
    row(f"{what}: states reach the client", punctual(lateness_ms(np.array(arrived), np.array(steps))))
    row(f"{what}: a loop beside it that only sleeps", punctual(lateness_ms(alone, np.arange(len(alone)))))
    row(
        "input to state on the client, median (95 %), less one step",
        f"{np.median(delays) - 1e3 / 60:.0f} ms ({np.percentile(delays, 95) - 1e3 / 60:.0f} ms)",
        "<= 50 ms",
    )
    row("spacetime diagrams per second", f"{diagrams / seconds:.1f}", "2 to 5")


# -- load --------------------------------------------------------------------------------------------------------------


def memory_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load_figures(seconds: float) -> None:
    import http.client

    with tempfile.TemporaryDirectory() as name:
        for k in range(5):
            flight(32, 20).save(Path(name) / f"{k}.rec")
        process, url = start("view", name, "--no-browser")
        base, _, token = url.removeprefix("http://").partition("/?token=")
        with socket_of(url, "/api/live"):
            time.sleep(3)
            before = cpu_s(process.pid)
            time.sleep(20)
            row(
                "viewer process, one idle page open",
                f"{100 * (cpu_s(process.pid) - before) / 20:.2f} % of a core",
                "< 1 %",
            )
        failures, done = [], [0]
        sockets = [socket_of(url, "/api/live") for _ in range(200)]
        settled, end = memory_mb(process.pid), time.perf_counter() + seconds

        def ask() -> None:
            while time.perf_counter() < end:
                try:
                    connection = http.client.HTTPConnection(base, timeout=30)
                    connection.request("GET", f"/api/recording?name={done[0] % 5}.rec&token={token}")
                    answer = connection.getresponse()
                    answer.read()
                    done[0] += 1
                    if answer.status != 200:
                        failures.append(answer.status)
                    connection.close()
                except OSError as error:
                    failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        middle = 0.0
        while time.perf_counter() < end:
            time.sleep(1)
            if not middle and time.perf_counter() > end - seconds / 2:
                middle = memory_mb(process.pid)
        for thread in threads:
            thread.join()
        for socket in sockets:
            socket.ping()
            socket.close()
        grown = memory_mb(process.pid)
        row(f"200 connections and {done[0]:,} downloads in {seconds:.0f} s: failures", str(len(failures)), "0")
        row("memory: settled, half-way, end", f"{settled:.0f}, {middle:.0f}, {grown:.0f} MB", "no growth")
        process.terminate()
        process.wait(20)
        process, url = start("play", "--no-browser", f"out={name}/play")
        rng, frames = np.random.default_rng(0), 0
        end, first = time.perf_counter() + seconds, 0.0
        broken = 0
        while time.perf_counter() < end:
            try:
                with socket_of(url, "/api/play") as socket:
                    for _ in range(200):
                        kind = rng.integers(0, 3)
                        data = rng.bytes(int(rng.integers(0, 6000)))
                        socket.send(
                            data
                            if kind == 0
                            else data.decode("latin-1")[:3000]
                            if kind == 1
                            else '{"kind": "input", "values": ' + str(rng.normal(0, 9, 3).tolist()) + "}"
                        )
                        frames += 1
            except Exception:
                broken += 1
            if not first and time.perf_counter() > end - seconds / 2:
                first = memory_mb(process.pid)
        alive = process.poll() is None
        with socket_of(url, "/api/play") as socket:
            seat = json.loads(socket.recv(30))
        row(
            f"{frames:,} malformed frames in {seconds:.0f} s, {broken} connections ended: server alive, seats free",
            f"{alive}, {seat['side'] == 0}",
            "True, True",
        )
        row("memory: half-way, end", f"{first:.0f}, {memory_mb(process.pid):.0f} MB", "no growth")
        process.terminate()
        process.wait(20)


def main() -> None:
    logging.disable()  # of the websocket client, when the server ends a connection
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["page", "policy", "play", "load", []], default=[])
    parser.add_argument("--seconds", type=float)
    args = parser.parse_args()
    parts = args.parts or ["page", "policy", "play", "load"]
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load before {load:.1f}\n\n| | measured | wanted |\n|---|---|---|")
    if "page" in parts:
        page_figures()
    if "policy" in parts:
        policy_figures()
    if "play" in parts:
        play_figures(args.seconds or 180)
    if "load" in parts:
        load_figures(args.seconds or 60)


if __name__ == "__main__":
    serve_timed(*sys.argv[2:]) if sys.argv[1:2] == ["serve"] else main()
