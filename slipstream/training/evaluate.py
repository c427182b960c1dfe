"""Deterministic flights over maps not trained on: rates with intervals, a table, a picture.

NavRL's protocol: a row of drones on one side of each map crosses to the other with mean actions. Drones on one map are not
independent, so intervals come from a bootstrap over maps, and two policies are compared by their paired differences per map.
"""

from __future__ import annotations

import dataclasses
import json as json_module
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.algorithms.execution.graphs import GraphedFunction
from slipstream.config.compose import load_evaluate
from slipstream.config.help import ConfigError
from slipstream.config.overrides import plain_overrides, value_of
from slipstream.config.schema import EvalConfig, EvaluateConfig, env_class
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Observation
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.policy import ActorCritic
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.storage.files import check_writable
from slipstream.tasks.aircombat.agents import is_checkpoint
from slipstream.tasks.aircombat.env import AirCombatEnv
from slipstream.tasks.aircombat.league.ratings import wilson as wilson_interval
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv, evaluation_starts
from slipstream.training.policies import LoadedPolicy, load_policy

CROSSING_STEPS = 2200  # physics steps of a flight, where nothing else is asked for
MOST_STEPS = 10_000  # of an episode of any other env
PATH_EVERY = 8  # physics steps between the points of a drawn path
STAND_INS = {
    "opponent": "placeholder",
    "reward": "zero",
}  # of a duel: who was met in training, and for what, need not be there any more
RATES = ("success", "collision", "timeout", "success_strict")

Policy = Callable[[Observation], Any]


@dataclass
class Flights:
    """How the drones fared: each [maps, drones]."""

    map_seeds: list[int]
    success: np.ndarray  # within 0.5 m of the goal before any collision
    collision: np.ndarray  # before the goal
    time_to_goal_s: np.ndarray  # NaN where it was not reached
    success_strict: np.ndarray  # NavRL's reading: at the goal when the episode ended
    paths: np.ndarray  # [T, drones, 3] over the first map, NaN after the end
    mover_paths: np.ndarray  # [T, K, 3]

    @property
    def timeout(self) -> np.ndarray:
        """Neither the goal nor a collision."""
        return ~(self.success | self.collision)


# -- flying ----------------------------------------------------------------------------------------------------------


class _Crossing:
    """All maps' drones flown at once, their fates kept on the device."""

    def __init__(self, env: NavigationEnv, policy: Policy, drones: int) -> None:
        maps = env.config.num_worlds
        start, goal = evaluation_starts(drones, env.config.map_half_m)
        self.env, self.policy = env, policy
        self.observation = {k: v.clone() for k, v in env.place(start.repeat(maps, 1), goal.repeat(maps, 1)).items()}
        none = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self.success, self.collision, self.ended, self.strict = none.clone(), none.clone(), none.clone(), none.clone()
        self.time_s = torch.full((env.num_envs,), torch.nan, device=env.device)
        self.clock_s = torch.zeros((), device=env.device)

    def step(self) -> None:
        """One decision of every drone; only tensors that live on are written."""
        record = self.env.step(_action(self.policy(self.observation)))
        for name, value in record.observation.items():
            self.observation[name].copy_(value)
        self.clock_s.add_(self.env.config.dt_s * self.env.config.decision_interval)
        flying = ~self.ended
        at_goal = (record.info["at_goal"] > 0) & ~record.terminated & flying
        self.time_s.copy_(torch.where(at_goal & ~self.success, self.clock_s, self.time_s))
        self.success.logical_or_(at_goal)
        self.collision.logical_or_(record.terminated & flying & ~self.success)
        done = (record.terminated | record.truncated) & flying
        self.strict.logical_or_(done & (record.info["at_goal"] > 0))
        self.ended.logical_or_(done)


@torch.no_grad()
def fly(
    env: NavigationEnv,
    policy: Policy,
    drones: int,
    progress: Callable[[float], None] | None = None,
    record_paths: bool = True,
) -> Flights:
    """Flies the protocol over the env's maps, `drones` on each; `progress` hears the share done."""
    crossing = _Crossing(env, policy, drones)
    config, maps = env.config, env.config.num_worlds
    decisions = -(-config.max_episode_steps // config.decision_interval)
    every = max(1, PATH_EVERY // config.decision_interval)
    capturable = env.device.type == "cuda" and isinstance(policy, ActorCritic)  # others may wait for the device
    step = GraphedFunction(crossing.step, "evaluation") if capturable else crossing.step
    paths, movers = [], []
    with set_exploration_type(ExplorationType.MEAN):
        for i in range(decisions):
            if record_paths and i % every == 0:
                over = (crossing.ended | crossing.success)[:drones]
                paths.append(torch.where(over[:, None], torch.nan, env.drone.pos[:drones]).clone())
                movers.append(env.movers.pos[0].clone())
            step()
            if i % 100 == 99:
                if progress:
                    progress((i + 1) / decisions)
                if bool(crossing.ended.all()):
                    break
    env.check()
    shape = (maps, drones)
    numpy = lambda x: x.cpu().numpy().reshape(shape)  # noqa: E731
    return Flights(
        list(env.world_seeds),
        numpy(crossing.success),
        numpy(crossing.collision),
        numpy(crossing.time_s),
        numpy(crossing.strict),
        torch.stack(paths).cpu().numpy() if paths else np.zeros((0, drones, 3), np.float32),
        torch.stack(movers).cpu().numpy() if movers else np.zeros((0, 0, 3), np.float32),
    )


def evaluation_env(
    world: NavigationConfig, settings: EvalConfig, device: torch.device | str, seed: int = 0
) -> NavigationEnv:
    """The env of the protocol: one world a map seed, clocks at zero, flights not cut at the goal."""
    config = dataclasses.replace(
        world,
        num_envs=settings.num_drones * len(settings.map_seeds),
        num_worlds=len(settings.map_seeds),
        world_seeds=list(settings.map_seeds),
        max_episode_steps=settings.max_steps or CROSSING_STEPS,
        random_clock=False,
        goal_ends_episode=False,
    )
    return NavigationEnv(config.num_envs, device, seed, config)


@torch.no_grad()
def fly_episodes(env: TensorEnv, policy: Policy, max_steps: int | None = None) -> dict[str, float]:
    """For any env: one episode in each environment with mean actions; the means of return, length and info.

    Where episodes had not ended after `max_steps` (10,000), they count as they stood, and `unfinished` is their share.
    """
    observation = env.reset()
    n, device = env.num_envs, env.device
    returns, length = torch.zeros(n, device=device), torch.zeros(n, device=device)
    ended = torch.zeros(n, dtype=torch.bool, device=device)
    info: dict[str, Tensor] = {}
    with set_exploration_type(ExplorationType.MEAN):
        for _ in range(max_steps or MOST_STEPS):
            record = env.step(_action(policy(observation)))
            observation = record.observation
            flying = ~ended
            returns += torch.where(flying, record.reward, 0.0)
            length += flying
            now = (record.terminated | record.truncated) & flying
            for name, value in record.info.items():
                info[name] = torch.where(flying, value, info.get(name, value))
            ended |= now
            if bool(ended.all()):
                break
    env.check()
    means = {
        "return": returns.mean().item(),
        "length": length.mean().item(),
        **{k: v.mean().item() for k, v in info.items()},
    }
    unfinished = 1 - ended.float().mean().item()
    return means | ({"unfinished": unfinished} if unfinished else {})


def _action(output: Any) -> Tensor:
    """A policy gives the action, or a mapping that holds it."""
    return output if isinstance(output, Tensor) else output["action"]


# -- judging ---------------------------------------------------------------------------------------------------------


def bootstrap_interval(per_map: np.ndarray, resamples: int = 10_000, level: float = 0.95) -> tuple[float, float]:
    """The interval of the mean over maps, by resampling maps."""
    rng = np.random.default_rng(0)
    means = per_map[rng.integers(0, len(per_map), (resamples, len(per_map)))].mean(1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def summarise(flights: Flights, resamples: int = 10_000) -> dict[str, Any]:
    """The figures of the protocol, over all maps and for each."""
    drones = flights.success.shape[1]
    maps = []
    for k, seed in enumerate(flights.map_seeds):
        low, high = wilson_interval(int(flights.success[k].sum()), drones)
        rates = {name: float(getattr(flights, name)[k].mean()) for name in RATES}
        maps.append(
            {"map_seed": seed, **rates, "success_low": low, "success_high": high, "drones": drones, **_time(flights, k)}
        )
    low, high = maps[0]["success_low"], maps[0]["success_high"]
    if len(maps) > 1:  # there is nothing to resample in one map
        low, high = bootstrap_interval(flights.success.mean(1), resamples)
    means = {name: float(getattr(flights, name).mean()) for name in RATES}
    whole = {"success": means.pop("success"), "success_low": low, "success_high": high, **means}
    return {**whole, **_time(flights, slice(None)), "drones": int(flights.success.size), "maps": maps}


def compare(a: Flights, b: Flights, resamples: int = 10_000) -> dict[str, Any]:
    """Success of `a` less that of `b`, paired by map."""
    if a.map_seeds != b.map_seeds:
        raise ValueError("only flights over the same maps can be compared")
    difference = a.success.mean(1) - b.success.mean(1)
    low, high = bootstrap_interval(difference, resamples) if len(difference) > 1 else (None, None)
    per_map = [{"map_seed": seed, "difference": float(d)} for seed, d in zip(a.map_seeds, difference, strict=True)]
    return {"difference": float(difference.mean()), "difference_low": low, "difference_high": high, "maps": per_map}


def _time(flights: Flights, k: int | slice) -> dict[str, float | None]:
    times = flights.time_to_goal_s[k][flights.success[k]]
    return {"time_to_goal_s": float(times.mean()) if times.size else None}


# -- the command -----------------------------------------------------------------------------------------------------


def run(
    cfg: EvaluateConfig, trained: LoadedPolicy | None = None, tell: Callable[[str], None] = print
) -> dict[str, Any]:
    """`slipstream eval`: flies, prints a table, draws the paths; returns what `json=true` prints."""
    from slipstream.training.console import percent_table, progress_bar

    device = resolve_device(cfg.device)
    set_threads(cfg.threads)
    trained = trained or load_policy(cfg.checkpoint)
    if env_class(cfg.task) is AirCombatEnv:
        from slipstream.tasks.aircombat.league import evaluation

        return evaluation.run(cfg, trained, device, tell)
    other = load_policy(cfg.compare) if cfg.compare else None  # before anything flies: a wrong path is told at once
    if env_class(cfg.task) is not NavigationEnv:
        return _run_custom(cfg, trained, device, tell)
    if other and other.task != trained.task:
        raise ConfigError(
            f"{trained.path} was trained for task={trained.task}, compare={other.path} for task={other.task}: compare policies of one task"
        )
    picture = Path(cfg.out) if cfg.out else trained.beside("eval.png")
    if cfg.eval.picture:
        check_writable(picture)
    env = evaluation_env(cfg.env, cfg.eval, device, cfg.seed)
    policy = trained.build(env.observation_spec, env.action_spec, device)
    rival = other.build(env.observation_spec, env.action_spec, device) if other else None
    with progress_bar(f"flying {env.num_envs} drones over {len(cfg.eval.map_seeds)} maps") as progress:
        flights = fly(env, policy, cfg.eval.num_drones, progress, cfg.eval.picture)
    result = summarise(flights, cfg.eval.bootstrap)
    result["checkpoint"] = str(trained.path)
    tell(
        percent_table(
            result, f"{trained.name}: {cfg.env.num_obstacles} standing, {env.movers.count} moving, {_flown(cfg.env)}"
        )
    )
    if other and rival:
        env = evaluation_env(cfg.env, cfg.eval, device, cfg.seed)
        with progress_bar(f"flying {other.name}") as progress:
            theirs = fly(env, rival, cfg.eval.num_drones, progress, False)
        result["compare"] = {"checkpoint": str(other.path), **compare(flights, theirs, cfg.eval.bootstrap)}
        result["compare"]["other"] = summarise(theirs, cfg.eval.bootstrap)
        tell(percent_table(result["compare"]["other"], f"{other.name}, in the same world"))
        c = result["compare"]
        interval = (
            ""
            if c["difference_low"] is None
            else f" (95 % interval {c['difference_low']:+.3f} … {c['difference_high']:+.3f})"
        )
        tell(f"success of {trained.name} less {other.name}, paired by map: {c['difference']:+.3f}{interval}")
    if len(cfg.eval.map_seeds) < 16:
        tell(
            f"({len(cfg.eval.map_seeds)} maps; take at least 16 for a claim: 'eval.map_seeds=[{_range_hint(cfg.eval.map_seeds)}]')"
        )
    if cfg.eval.picture:
        result["picture"] = str(draw(flights, env, picture))
        tell(f"paths over map {flights.map_seeds[0]}: {result['picture']}")
    if cfg.json:
        print(json_module.dumps(result), flush=True)
    return result


def _flown(config: NavigationConfig) -> str:
    steps = "physics step" if config.decision_interval == 1 else f"{config.decision_interval} physics steps"
    return f"{config.dynamics}, a decision every {steps}"


def draw(flights: Flights, env: NavigationEnv, path: Path) -> Path:
    """The paths over the first map, as a PNG."""
    from slipstream.training.plots import flight_paths

    boxes = env.grid.boxes[0].cpu().numpy()
    boxes = boxes[np.abs(boxes[:, 0]) < 1e3]
    outcome = np.where(flights.success[0], 1, np.where(flights.collision[0], 2, 0))
    goals = evaluation_starts(flights.success.shape[1], env.config.map_half_m)[1][:, :2].numpy()
    movers = flights.mover_paths if env.movers.count else None
    widths = env.movers.width.cpu().numpy() if env.movers.count else None
    rate = flights.success[0].mean()
    title = f"map {flights.map_seeds[0]}: {rate:.0%} of {len(outcome)} drones reach the goal"
    return flight_paths(path, boxes, flights.paths, outcome, goals, movers, widths, title, env.config.map_half_m)


def configure(overrides: list[str]) -> tuple[EvaluateConfig, LoadedPolicy]:
    """The evaluation's configuration: the world of the checkpoint's own training, changed by the overrides."""
    overrides = plain_overrides(overrides)
    red = (value_of("red", overrides) or "").partition(",")[0]  # in a duel the first agent's, where it is a policy
    task = value_of("task", overrides)
    duel = [key for key in ("red", "blue", "games") if value_of(key, overrides) is not None]
    default = task or ("aircombat" if duel else "navigation")
    env_class(default)  # a wrong name is told as such, before a policy for it is missed
    trained = load_policy(value_of("checkpoint", overrides) or (red if red and is_checkpoint(red) else None), default)
    if duel and env_class(task or trained.task) is not AirCombatEnv:
        whose = f"not task={task}" if task else f"and {trained.path} was trained for task={trained.task}"
        raise ConfigError(f"{duel[0]}= is for task=aircombat, {whose}: leave {duel[0]}= out, or give a duellist")
    if task is None:
        overrides = [*overrides, f"task={trained.task}"]
    world = trained.trained_env if task in (None, trained.task) else None
    if world and trained.task == "aircombat":
        world |= STAND_INS
    return load_evaluate(overrides, world), trained


def _run_custom(
    cfg: EvaluateConfig, trained: LoadedPolicy, device: torch.device, tell: Callable[[str], None]
) -> dict[str, Any]:
    if cfg.compare:
        raise ValueError(
            f"compare= pairs flights over the maps of task=navigation; evaluate {cfg.compare} by itself for task={cfg.task}"
        )
    env = env_class(cfg.task)(cfg.eval.num_drones, device, cfg.seed, cfg.env)  # type: ignore[call-arg]
    torch.manual_seed(cfg.seed)  # for envs that draw from torch itself
    result: dict[str, Any] = fly_episodes(
        env, trained.build(env.observation_spec, env.action_spec, device), cfg.eval.max_steps
    )
    result |= {"episodes": cfg.eval.num_drones, "checkpoint": str(trained.path)}
    tell(
        "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in result.items()
        )
    )
    if "unfinished" in result:
        steps = cfg.eval.max_steps or MOST_STEPS
        tell(
            f"{result['unfinished']:.0%} of the episodes had not ended after {steps:,} steps and count as they are: raise eval.max_steps"
        )
    if cfg.json:
        print(json_module.dumps(result), flush=True)
    return result


def _range_hint(seeds: list[int]) -> str:
    return ",".join(str(seeds[0] + i) for i in range(16))
