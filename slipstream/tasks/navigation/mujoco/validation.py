"""`slipstream validate`: one policy in our simulator and in MuJoCo. How far do sensors, flight and success agree?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from slipstream.algorithms.policy_file import LoadedPolicy
from slipstream.config.help import ConfigError
from slipstream.sim.frames import quat_from_yaw, quat_rotate_by, quat_to_matrix
from slipstream.tasks.navigation import evaluation
from slipstream.tasks.navigation.evaluation import Flights, NavigationEvaluateConfig
from slipstream.tasks.navigation.mujoco.config import SimConfig
from slipstream.tasks.navigation.mujoco.model import MOVING, STATIC
from slipstream.tasks.navigation.mujoco.simulator import (
    CAUSES,
    MujocoDrones,
    MujocoLidar,
    equal_gains,
    frame_of,
    own_gains,
)
from slipstream.tasks.navigation.physics.lidar import Lidar, Rays, VoxelLidar
from slipstream.tasks.navigation.physics.quadrotor import Airframe, Quadrotor, Variation, VelocityLag
from slipstream.tasks.navigation.physics.voxels import VoxelWorld
from slipstream.tasks.navigation.physics.world import WorldGrid
from slipstream.ui.tables import TextTable, format_rate, progress_bar

POSES = 1000  # at which the LiDARs are compared
BAR_M = 0.001
STEPS = {"forward": (2.0, 0.0, 0.0), "up": (0.0, 0.0, 1.0)}  # velocity commands, m/s
STEP_S = 3.0


def validate(
    cfg: NavigationEvaluateConfig, trained: LoadedPolicy, device: torch.device, log: Callable[[str], None]
) -> dict[str, Any]:
    """Fly the policy in both simulators and print tables; return the result."""
    for key in ("compare", "out"):
        if getattr(cfg, key):
            raise ConfigError(f"{key}={getattr(cfg, key)}: validate flies one policy and writes no file; use eval")
    sim = replace(cfg.sim, name="mujoco")
    with progress_bar("measuring step responses"):
        steps = step_responses(sim, cfg.env.dynamics, cfg.env.dt_s, frame_of(cfg.env))
    flown: list[tuple[Any, Flights]] = []
    for settings in (SimConfig(), sim):
        env = evaluation.evaluation_env(cfg.env, cfg.eval, device, cfg.seed, settings)
        policy = evaluation.build_for(trained, env, settings)
        with progress_bar(f"flying {env.num_envs} drones in {settings.name}") as progress:
            flown.append((env, evaluation.fly(env, policy, cfg.eval.num_drones, progress)))
    (ours, our_flights), (theirs, their_flights) = flown
    lidar = compare_lidar(ours, their_flights.paths, cfg.seed)
    result: dict[str, Any] = {
        "slipstream": evaluation.summarize(our_flights, cfg.eval.bootstrap),
        "mujoco": evaluation.summarize(their_flights, cfg.eval.bootstrap),
        "compare": evaluation.compare(their_flights, our_flights, cfg.eval.bootstrap),
        "lidar": lidar,
        "steps": steps,
        "differ": differences(our_flights, their_flights, theirs.first_cause),
        "checkpoint": str(trained.path),
    }
    for name, text in (("slipstream", cfg.env.dynamics), ("mujoco", sim.describe())):
        log(evaluation.percent_table(result[name], f"{trained.name}: {text}"))
    log(_difference_table(result).render())
    log(_step_table(steps).render())
    if ours.camera is not None:
        result["camera"] = compare_camera(ours, our_flights.paths, cfg.seed)
    for name, sensor in (("LiDAR", lidar), ("camera", result.get("camera"))):
        if sensor:
            differs = f"largest difference {sensor['largest_m']:.2g} m, {sensor['beyond_1mm']} beams beyond 1 mm"
            log(f"{name} over {sensor['poses']:,} poses, {sensor['beams']:,} beams: {differs}")
    return result


# -- sensors ---------------------------------------------------------------------------------------------------------


def compare_lidar(env: Any, paths: np.ndarray, seed: int = 0, poses: int = POSES) -> dict[str, Any]:
    """Compare both LiDARs at places of flown `paths` [T, drones, 3] over the first map, with random yaws."""
    pos, yaw = _draw_poses(paths, seed, poses)
    config, boxes, first = env.config.lidar, env.grid.boxes_of_world(0), torch.zeros(poses, dtype=torch.int64)
    lidar: Lidar | VoxelLidar
    if isinstance(env.lidar, VoxelLidar):
        world = VoxelWorld.build(env.voxels.solids[:1])
        lidar = VoxelLidar(config, world, first, env.config.body_radius_m)
    else:
        lidar = Lidar(config, WorldGrid.from_boxes([boxes], config.range_m, env.config.map_half_m), first)
    return _compared(lidar.scan(pos, yaw), MujocoLidar(config, [boxes], poses).measure(pos, yaw).distance)


def compare_camera(env: Any, paths: np.ndarray, seed: int = 0, poses: int = POSES) -> dict[str, Any]:
    """Compare the depths of both cameras, before noise and storing, at such places, with tilts of up to 30°.
    Places in a moving obstacle are left out: MuJoCo's rays leave a body from within."""
    pos, yaw = _draw_poses(paths, seed, poses)
    tilt = torch.from_numpy(np.random.default_rng(seed + 1).uniform(-math.pi / 6, math.pi / 6, (poses, 3))).float()
    attitude = quat_to_matrix(quat_rotate_by(quat_from_yaw(yaw), tilt))
    first = torch.zeros(poses, dtype=torch.int64)
    rays = MujocoLidar(env.config.lidar, [env.grid.boxes_of_world(0)], poses, env.movers)
    rays.place(env.movers)

    def cast_both(pos: torch.Tensor, rotation: torch.Tensor, pattern: Rays, range_m: float) -> torch.Tensor:
        sensor = rotation.double(), pattern.table, (STATIC, MOVING), range_m
        ours, theirs = env.cast(pos, rotation, pattern, range_m, first), rays.cast(pos, *sensor)
        for n, k in ((ours - theirs).abs() > BAR_M).nonzero().tolist():  # mj_multiRay leaves out near boxes
            theirs[n, k] = rays.cast_one(pos[n], rotation[n].double() @ pattern.table[k].double(), *sensor[2:])
        return torch.cat((ours, theirs))

    ours, theirs = env.camera.depth(pos, attitude, cast_both).chunk(2)
    is_free = ours.flatten(1).amin(1) > 0
    return _compared(ours[is_free], theirs[is_free])


def _draw_poses(paths: np.ndarray, seed: int, poses: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random places [P, 3] of flown paths, and yaws [P]."""
    rng = np.random.default_rng(seed)
    places = paths.reshape(-1, 3)
    places = places[np.isfinite(places).all(1)]
    pos = torch.from_numpy(places[rng.integers(0, len(places), poses)]).float()
    return pos, torch.from_numpy(rng.uniform(-math.pi, math.pi, poses)).float()


def _compared(ours: torch.Tensor, theirs: torch.Tensor) -> dict[str, Any]:
    """Return how far distances [P, ...] of both simulators agree."""
    difference = (ours - theirs).abs().double()
    facts = {"poses": len(ours), "beams": difference.numel(), "largest_m": float(difference.max())}
    return facts | {"beyond_1mm": int((difference > BAR_M).sum()), "unequal": int((difference > 0).sum())}


# -- flight ----------------------------------------------------------------------------------------------------------


def step_responses(sim: SimConfig, dynamics: str, dt_s: float, frame: Airframe | None = None) -> list[dict[str, Any]]:
    """Return how both simulators follow a velocity command from hover and its reversal, in the rows of a table."""
    rows = []
    for label, settings, kind in (
        ("equal gains", equal_gains(sim, dt_s, frame), "quadrotor"),
        ("as flown", own_gains(sim, dt_s, frame), dynamics),
    ):
        rigid = kind == "quadrotor"
        ours = _follow(Quadrotor(len(STEPS), dt_s, "cpu", frame) if rigid else VelocityLag(len(STEPS), dt_s), dt_s)
        theirs = _follow(MujocoDrones(settings, [np.zeros((0, 5), np.float32)], len(STEPS), dt_s, frame=frame), dt_s)
        for k, (name, command) in enumerate(STEPS.items()):
            size, half = max(command), len(ours) // 2
            curves = np.stack((ours[:, k], theirs[:, k]), -1)  # [T, 2] m/s along the command
            phases = ("from hover", curves[:half], 0.0, size), ("reversed", curves[half:], size, -size)
            for phase, part, begin, end in phases:
                ours_s, mujoco_s = (_rise_s((part[:, c] - begin) / (end - begin), dt_s) for c in (0, 1))
                row: dict[str, Any] = {"gains": label, "ours": kind, "step": f"{name}, {phase}"}
                row |= {"ours_s": ours_s, "mujoco_s": mujoco_s, "relative": mujoco_s / ours_s - 1}
                rows.append(row | {"largest": float(np.abs(part[:, 0] - part[:, 1]).max() / abs(end - begin))})
    return rows


def _follow(drone: Any, dt_s: float) -> np.ndarray:
    """Return the velocities [T, commands] along each command: first the command, then its reversal."""
    command = torch.tensor(list(STEPS.values()))
    along = command / command.norm(dim=-1, keepdim=True)
    high_up = torch.tensor([[0.0, 5.0 * k, 50.0] for k in range(len(STEPS))])
    drone.reset(torch.ones(len(STEPS), dtype=torch.bool), high_up, torch.zeros(len(STEPS)))
    variation, seen = Variation.none(len(STEPS), "cpu"), []
    for sign in (1, -1):
        for _ in range(round(STEP_S / dt_s)):
            drone.advance(sign * command, variation)
            seen.append((drone.vel * along).sum(-1).clone())
    return torch.stack(seen).numpy()


def _rise_s(share: np.ndarray, dt_s: float) -> float:
    """Return the time to 63 % of a step, in s; NaN if it is not reached."""
    reached = share >= 1 - math.exp(-1)
    k = int(reached.argmax())
    if not reached.any():
        return math.nan
    before = share[k - 1] if k else 0.0
    return float((k + (1 - math.exp(-1) - before) / max(share[k] - before, 1e-9)) * dt_s)


# -- results ---------------------------------------------------------------------------------------------------------


def differences(ours: Flights, theirs: Flights, cause: np.ndarray) -> list[dict[str, int]]:
    """Return per map how many drones succeed in one simulator alone, and what was hit in MuJoCo."""
    rows, cause = [], cause.reshape(theirs.success.shape)
    for k, seed in enumerate(ours.map_seeds):
        a, b, hit = ours.success[k], theirs.success[k], cause[k][theirs.collision[k]]
        only = {"only Slipstream": int((a & ~b).sum()), "only MuJoCo": int((b & ~a).sum())}
        hits = {f"hit {name}": int((hit == c).sum()) for c, name in enumerate(CAUSES) if name}
        rows.append({"map_seed": seed, **only, **hits})
    return rows


def _difference_table(result: Mapping[str, Any]) -> TextTable:
    rows = []
    for a, b, counts in zip(result["slipstream"]["maps"], result["mujoco"]["maps"], result["differ"], strict=True):
        rates = [format_rate(a["success"]), format_rate(b["success"]), f"{b['success'] - a['success']:+.3f}"]
        seed, *numbers = map(str, counts.values())
        rows.append([seed, *rates, *numbers])
    names = list(result["differ"][0])[1:]
    sums = [str(sum(counts[name] for counts in result["differ"])) for name in names]
    rates = [format_rate(result[name]["success"]) for name in ("slipstream", "mujoco")]
    rows.append(["all", *rates, evaluation.format_difference(result["compare"]), *sums])
    header = ["map", "Slipstream", "MuJoCo", "difference", *names]
    return TextTable("success in both, and what was hit in MuJoCo", header, rows, total=True)


def _step_table(steps: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = []
    for row in steps:
        times = f"{row['ours_s']:.3f} s", f"{row['mujoco_s']:.3f} s", f"{row['relative']:+.1%}"
        rows.append([row["gains"], row["ours"], row["step"], *times, f"{row['largest']:.1%}"])
    header = ["gains", "ours", "step", "ours, to 63 %", "MuJoCo", "difference", "largest gap, of the step"]
    return TextTable("velocity step responses", header, rows, left=3)
