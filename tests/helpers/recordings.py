"""Recordings and run folders for the tests of the viewer."""

from __future__ import annotations

import json

import numpy as np

from slipstream.recordings import Recording


def flight(drones: int = 3, rows: int = 40, title: str = "three drones") -> Recording:
    """Drones that fly straight past boxes; the last one collides half-way."""
    t = np.arange(rows)
    place = np.zeros((rows, drones, 3), np.float32)
    place[..., 0] = np.linspace(-4, 4, drones)
    place[..., 1] = 10 - 0.4 * t[:, None]
    place[..., 2] = 1.5
    place[rows // 2 :, -1] = np.nan
    outcome = np.ones(drones, np.uint8)
    outcome[-1] = 2
    columns = {"drone.position": place, "drone.action": np.ones((rows, drones, 3), np.float32),
               "drone.value": np.tile(t[:, None], (1, drones)).astype(np.float32),
               "mover.position": np.tile(np.array([[[2.0, 0, 1.5], [-3, 1, 2.5]]], np.float32), (rows, 1, 1))}  # fmt: skip
    arrays = {"box": np.array([[0, 2, 0.3, 0.3, 4], [3, -2, 0.7, 0.3, 2]], np.float32),
              "drone.goal": np.tile(np.array([[0, -12, 1.5]], np.float32), (drones, 1)), "drone.outcome": outcome,
              "drone.yaw": np.full(drones, -np.pi / 2, np.float32),
              "mover.size": np.array([[0.5, 1.0], [1.0, 5.0]], np.float32)}  # fmt: skip
    labels = [f"drone {k + 1}" for k in range(drones)]
    group = {"name": "drone", "position": "drone.position", "shown": None, "labels": labels}
    group |= {"type": "Air+Rotorcraft", "color": "Cyan"}
    end = float(0.128 * (rows // 2))
    event = {"time": end, "kind": "collision", "text": f"drone {drones} collided", "body": f"drone {drones}"}
    meta = {"summary": "2 goal reached, 1 collided", "map_half_m": 12.0, "lidar": {"range_m": 4.0, "azimuths": 36}}
    return Recording(
        "flight", title, {"": t * 0.128}, columns, arrays, [group], [event], meta, {"drone.position": 0.001}
    )


def write_run(folder, rows: int = 30, **config) -> None:
    """A run folder as a training leaves it."""
    folder.mkdir(parents=True)
    (folder / "checkpoints").mkdir()
    (folder / "git.json").write_text("{}")
    settings = {"task": "navigation", "seed": 0, "algo": {"name": "ppo", "learning_rate": 5e-4}} | config
    (folder / "config.yaml").write_text(json.dumps(settings))
    (folder / "checkpoints" / "ckpt_000010.pt").write_bytes(b"x" * 1000)
    log = [{"iteration": k + 1, "frames": 1000 * (k + 1), "time_s": 2.0 * k, "episode/return": float(k), "fps": 500.0 + k,
            "perf/collect": 3.0, **({"eval/success": k / 30} if k % 10 == 9 else {})} for k in range(rows)]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
