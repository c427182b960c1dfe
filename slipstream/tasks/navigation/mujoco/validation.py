"""`slipstream validate`: one policy in our simulator and in MuJoCo. How far do sensors, flight and success agree?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from slipstream.algorithms.policy_file import LoadedPolicy
from slipstream.config.help import ConfigError
from slipstream.tasks.navigation import evaluation
from slipstream.tasks.navigation.evaluation import Flights, NavigationEvaluateConfig
from slipstream.tasks.navigation.mujoco.config import SimConfig
from slipstream.tasks.navigation.mujoco.simulator import CAUSES, MujocoDrones, MujocoLidar
from slipstream.tasks.navigation.physics.lidar import Lidar
from slipstream.tasks.navigation.physics.quadrotor import DYNAMICS, VELOCITY_GAIN, Airframe, Variation
from slipstream.tasks.navigation.physics.world import WorldGrid
from slipstream.ui.figures import INK, SERIES, finish_figure, new_figure, style_axes, style_legend
from slipstream.ui.film import check_outputs
from slipstream.ui.tables import TextTable, format_rate, progress_bar

POSES = 1000  # at which the LiDARs are compared
BAR_M = 0.001
STEPS = {"forward": (2.0, 0.0, 0.0), "up": (0.0, 0.0, 1.0)}  # velocity commands, m/s
STEP_S = 3.0
OUTCOMES = ("timeout", "success", "collision")


def validate(
    cfg: NavigationEvaluateConfig, trained: LoadedPolicy, device: torch.device, log: Callable[[str], None]
) -> dict[str, Any]:
    """Fly the policy in both simulators, print tables, draw a figure; return the result."""
    if cfg.compare:
        raise ConfigError(f"compare={cfg.compare}: validate flies one policy; compare two with slipstream eval")
    sim = replace(cfg.sim, name="mujoco")
    path = Path(cfg.out) if cfg.out else trained.beside("validate.png")
    if cfg.eval.picture:
        if path.suffix != ".png":
            raise ConfigError(f"out={path}: the figure of validate is a .png")
        check_outputs(path)
    with progress_bar("measuring step responses"):
        steps = step_responses(sim, cfg.env.dynamics, cfg.env.dt_s)
    flown: list[tuple[Any, Flights]] = []
    for settings in (SimConfig(), sim):
        env = evaluation.evaluation_env(cfg.env, cfg.eval, device, cfg.seed, settings)
        policy = evaluation.build_for(trained, env, settings)
        where = "MuJoCo" if settings is sim else "Slipstream"
        with progress_bar(f"flying {env.num_envs} drones in {where}") as progress:
            flown.append((env, evaluation.fly(env, policy, cfg.eval.num_drones, progress)))
    (ours, our_flights), (theirs, their_flights) = flown
    lidar = compare_lidar(ours, their_flights.paths, cfg.seed)
    result: dict[str, Any] = {
        "slipstream": evaluation.summarize(our_flights, cfg.eval.bootstrap),
        "mujoco": evaluation.summarize(their_flights, cfg.eval.bootstrap),
        "compare": evaluation.compare(their_flights, our_flights, cfg.eval.bootstrap),
        "lidar": {name: value for name, value in lidar.items() if name != "difference"},
        "steps": [{name: value for name, value in row.items() if name != "curves"} for row in steps],
        "differ": differing(our_flights, their_flights, theirs.first_cause),
        "checkpoint": str(trained.path),
    }
    for name, text in (("slipstream", cfg.env.dynamics), ("mujoco", sim.describe())):
        log(evaluation.percent_table(result[name], f"{trained.name}: {text}"))
    log(_difference_table(result, their_flights, theirs.first_cause).render())
    log(_step_table(steps).render())
    log(
        f"LiDAR over {lidar['poses']:,} poses, {lidar['beams']:,} beams: largest difference {lidar['largest_m']:.2g} m, "
        f"{lidar['beyond_1mm']} beams beyond 1 mm"
    )
    if cfg.eval.picture:
        result["picture"] = str(_draw(path, trained.name, steps, lidar["difference"], result))
        log(f"figure: {result['picture']}")
    return result


# -- sensors ---------------------------------------------------------------------------------------------------------


def compare_lidar(env: Any, paths: np.ndarray, seed: int = 0, poses: int = POSES) -> dict[str, Any]:
    """Compare both LiDARs at places of flown `paths` [T, drones, 3] over the first map, with random yaws."""
    rng = np.random.default_rng(seed)
    places = paths.reshape(-1, 3)
    places = places[np.isfinite(places).all(1)]
    pos = torch.from_numpy(places[rng.integers(0, len(places), poses)]).float()
    yaw = torch.from_numpy(rng.uniform(-math.pi, math.pi, poses)).float()
    config, boxes = env.config.lidar, env.grid.boxes_of_world(0)
    grid = WorldGrid.from_boxes([boxes], config.range_m, env.config.map_half_m)
    ours = Lidar(config, grid, torch.zeros(poses, dtype=torch.int64)).scan(pos, yaw)
    theirs = MujocoLidar(config, [boxes], poses).measure(pos, yaw).distance
    difference = (ours - theirs).abs().flatten().double().numpy()
    beyond = int((difference > BAR_M).sum())
    facts = {"poses": poses, "beams": difference.size, "largest_m": float(difference.max()), "beyond_1mm": beyond}
    return facts | {"difference": difference}


# -- flight ----------------------------------------------------------------------------------------------------------


def equal_gains(sim: SimConfig, dt_s: float) -> SimConfig:
    """Return `sim` with the gains, the tilt limit and the rotor lag of our quadrotor."""
    frame = Airframe()
    tilt, yaw = (frame.attitude_gain[k] / frame.rate_gain[k] for k in (0, 2))
    tilt_rate, yaw_rate = (frame.rate_gain[k] / frame.inertia[k] for k in (0, 2))
    lag_s = -dt_s / math.log(1 - frame.throttle_closing)
    sim = replace(sim, velocity_gain=VELOCITY_GAIN, motor_lag_s=lag_s, max_tilt_deg=frame.max_tilt_deg)
    return replace(sim, attitude_gain=(tilt, yaw), rate_gain=(tilt_rate, yaw_rate))


def step_responses(sim: SimConfig, dynamics: str, dt_s: float) -> list[dict[str, Any]]:
    """Return how both simulators follow a velocity command from hover and its reversal, in the rows of a table."""
    rows = []
    for label, settings, kind in (("equal gains", equal_gains(sim, dt_s), "quadrotor"), ("as flown", sim, dynamics)):
        ours = _follow(DYNAMICS[kind](len(STEPS), dt_s), dt_s)
        theirs = _follow(MujocoDrones(settings, [np.zeros((0, 5), np.float32)], len(STEPS), dt_s), dt_s)
        for k, (name, command) in enumerate(STEPS.items()):
            size, half = max(command), len(ours) // 2
            curves = np.stack((ours[:, k], theirs[:, k]), -1)  # [T, 2] m/s along the command
            phases = ("from hover", curves[:half], 0.0, size), ("reversed", curves[half:], size, -size)
            for phase, part, begin, end in phases:
                ours_s, mujoco_s = (_rise_s((part[:, c] - begin) / (end - begin), dt_s) for c in (0, 1))
                row: dict[str, Any] = {"gains": label, "ours": kind, "step": f"{name}, {phase}", "curves": curves}
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


def differing(ours: Flights, theirs: Flights, cause: np.ndarray) -> list[dict[str, Any]]:
    """Return the drones whose flights end differently, with the obstacle if they collided in MuJoCo."""
    found, cause = [], cause.reshape(theirs.success.shape)
    for k, seed in enumerate(ours.map_seeds):
        a, b = ours.outcome(k), theirs.outcome(k)
        for drone in np.flatnonzero(a != b):
            row: dict[str, Any] = {"map_seed": seed, "drone": int(drone)}
            row |= {"slipstream": OUTCOMES[a[drone]], "mujoco": OUTCOMES[b[drone]]}
            found.append(row | {"cause": CAUSES[cause[k, drone]] if b[drone] == 2 else None})
    return found


def _difference_table(result: Mapping[str, Any], theirs: Flights, cause: np.ndarray) -> TextTable:
    cause, rows = cause.reshape(theirs.success.shape), []
    sums = np.zeros(2 + len(CAUSES) - 1, np.int64)
    for k, (a, b) in enumerate(zip(result["slipstream"]["maps"], result["mujoco"]["maps"], strict=True)):
        here = [row for row in result["differ"] if row["map_seed"] == a["map_seed"]]
        counts = [sum(row[name] == "success" for row in here) for name in ("slipstream", "mujoco")]
        counts += [int(((cause[k] == c) & theirs.collision[k]).sum()) for c in range(1, len(CAUSES))]
        sums += counts
        rates = [format_rate(a["success"]), format_rate(b["success"]), f"{b['success'] - a['success']:+.3f}"]
        rows.append([str(a["map_seed"]), *rates, *map(str, counts)])
    rates = [format_rate(result[name]["success"]) for name in ("slipstream", "mujoco")]
    rows.append(["all", *rates, evaluation.format_difference(result["compare"]), *map(str, sums)])
    header = ["map", "Slipstream", "MuJoCo", "difference", "only Slipstream", "only MuJoCo"]
    header += [f"hit {name}" for name in CAUSES[1:]]
    return TextTable("success in both, and what was hit in MuJoCo", header, rows, total=True)


def _step_table(steps: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = []
    for row in steps:
        times = f"{row['ours_s']:.3f} s", f"{row['mujoco_s']:.3f} s", f"{row['relative']:+.1%}"
        rows.append([row["gains"], row["ours"], row["step"], *times, f"{row['largest']:.1%}"])
    header = ["gains", "ours", "step", "ours, to 63 %", "MuJoCo", "difference", "largest gap, of the step"]
    return TextTable("velocity step responses", header, rows, left=3)


def _draw(
    path: Path, title: str, steps: Sequence[Mapping[str, Any]], lidar: np.ndarray, result: Mapping[str, Any]
) -> Path:
    """Draw step responses, LiDAR differences and success per map."""
    figure = new_figure(13.5, 4.2)
    flight, sensor, success = figure.subplots(1, 3)
    style_axes(flight, "time (s)", "velocity along the command (m/s)")
    styles = {"equal gains": ("--", "MuJoCo, equal gains"), "as flown": (":", "MuJoCo, as flown")}
    for k, row in enumerate([row for row in steps if row["step"].endswith("from hover")]):
        times, color = np.arange(len(row["curves"])) * (2 * STEP_S / len(row["curves"])), SERIES[k % len(STEPS)]
        name, (line, label) = row["step"].partition(",")[0], styles[row["gains"]]
        if row["gains"] == "equal gains":
            flight.plot(times, row["curves"][:, 0], color=color, linewidth=4, alpha=0.45, label="Slipstream, quadrotor")
            flight.text(STEP_S / 2, max(STEPS[name]) + 0.12, name, color=color)
        flight.plot(times, row["curves"][:, 1], line, color=color, label=label)
    handles = dict(zip(*reversed(flight.get_legend_handles_labels()), strict=True))  # one of each label
    flight.set_ylim(-3.6, 2.5)
    flight.legend(handles.values(), handles.keys(), frameon=False, fontsize=9.5, labelcolor=INK, loc="lower left")
    style_axes(sensor, "share of beams", "LiDAR difference (m)")
    share = np.linspace(0, 1, lidar.size)
    sensor.plot(share, np.sort(np.maximum(lidar, 1e-9)), color=SERIES[0])
    sensor.axhline(BAR_M, color=SERIES[1], linestyle="--", label="1 mm")
    sensor.set(yscale="log", ylim=(5e-10, 1e-1))
    sensor.yaxis.set_major_formatter("{x:g}")
    style_legend(sensor, loc="upper left")
    style_axes(success, "map", "success")
    seeds = [str(row["map_seed"]) for row in result["mujoco"]["maps"]]
    for shift, (name, label) in zip((-0.2, 0.2), (("slipstream", "Slipstream"), ("mujoco", "MuJoCo")), strict=True):
        rates = [row["success"] for row in result[name]["maps"]]
        success.bar(np.arange(len(seeds)) + shift, rates, 0.38, label=label, color=SERIES[0 if shift < 0 else 1])
    success.set_xticks(range(len(seeds)), seeds, rotation=0 if len(seeds) < 8 else 90)
    success.set_ylim(0, 1.25)
    style_legend(success, loc="upper right", ncols=2)
    return finish_figure(figure, path, f"{title} in Slipstream and in MuJoCo")
