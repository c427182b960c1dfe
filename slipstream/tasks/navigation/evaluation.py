"""Evaluation over unseen maps: rates with intervals, a table, a figure.

NavRL's protocol: a row of drones on one side of each map crosses to the other with mean actions. Drones on one map are
not independent, so intervals come from a bootstrap over maps, and two policies are compared by paired differences per
map.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from slipstream.algorithms.execution.graphs import WARM_UP, CaptureFailed, GraphedFunction, SideStream
from slipstream.algorithms.policy_file import LoadedPolicy, load_policy
from slipstream.config import registry
from slipstream.config.help import ConfigError
from slipstream.config.schema import EvalConfig, EvaluateConfig
from slipstream.models.exploration import ExplorationType, set_exploration_type
from slipstream.models.memory import Stepper
from slipstream.models.policy import ActorCritic
from slipstream.recordings import SUFFIX, Recording, write_html
from slipstream.tasks.evaluation import Policy, TrainingEvaluation, action_of, bootstrap_interval, wilson
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.figures import FlightPicture
from slipstream.tasks.navigation.mujoco.config import SimConfig
from slipstream.tasks.navigation.mujoco.simulator import MujocoEnv
from slipstream.tasks.navigation.recording import FlightRows, flight_recording
from slipstream.ui.film import FORMS, check_outputs
from slipstream.ui.tables import TextTable, format_percent, format_rate, progress_bar

CROSSING_STEPS = 2200  # default physics steps of a flight
RECORDED_DRONES = 32  # of a flight that a training records
PATH_EVERY = 8  # physics steps between the points of a drawn path
# of env.*, not of the world
POLICY_SETTINGS = ("observe", "observe_moving", "lidar_sees_moving", "lidar", "camera", "decision_interval")
RATES = ("success", "collision", "timeout", "success_strict")
# metrics
IN_TRAINING = (*("success", "success_low", "success_high", "collision", "drone_collision"), "timeout", "time_to_goal_s")


@dataclass
class NavigationEvaluateConfig(EvaluateConfig):
    """The config of an evaluation, with the simulator."""

    sim: SimConfig = field(default_factory=SimConfig)
    group_sizes: list[int] = field(default_factory=list)  # [1,4,8]: cross the maps in groups of each size, too


@dataclass
class Flights:
    """The results of all drones, [maps, drones] each."""

    map_seeds: list[int]
    success: np.ndarray  # within 0.5 m of the goal before any collision
    collision: np.ndarray  # before the goal
    time_to_goal_s: np.ndarray  # NaN if not reached
    success_strict: np.ndarray  # NavRL's reading: at the goal when the episode ended
    paths: np.ndarray  # [T, drones, 3] over the first map, NaN after the end
    mover_paths: np.ndarray  # [T, K, 3]
    rows: FlightRows | None = None  # the same, with actions and values, for a recording
    policy: Policy | None = None
    shielded: Tensor | None = None  # commands that the shield changed, and all
    by_rule: Tensor | None = None  # [maps · drones] bool: ended by env.terminate; they are among the collisions
    drone_collision: np.ndarray | None = None  # collisions with a drone of the group, of env.swarm

    @property
    def timeout(self) -> np.ndarray:
        """Drones that neither reached the goal nor collided."""
        return ~(self.success | self.collision)

    def outcome(self, k: int = 0) -> np.ndarray:
        """Return the outcomes [drones] over map k: 0 timed out, 1 goal reached, 2 collided."""
        return np.where(self.success[k], 1, np.where(self.collision[k], 2, 0))


# -- flying ----------------------------------------------------------------------------------------------------------


class Crossing:
    """The drones of all maps, flown together, again and again: results stay on the device.

    On a GPU a decision becomes a CUDA graph, if the policy is ours: others may wait for the device.
    """

    def __init__(self, env: NavigationEnv, policy: Policy, drones: int) -> None:
        config = env.config
        self.drones, self.decisions = drones, -(-config.max_episode_steps // config.decision_interval)
        self.decision_s = config.dt_s * config.decision_interval
        self.env, self.policy = env, Stepper(policy, env.num_envs, env.device)
        self.observation = {k: v.clone() for k, v in env.place(*env.protocol_flights(drones)).items()}
        none = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
        self.success, self.collision, self.ended, self.strict = none.clone(), none.clone(), none.clone(), none.clone()
        self.time_s = torch.full((env.num_envs,), torch.nan, device=env.device)
        self.clock_s = torch.zeros((), device=env.device)
        self.by_rule = none.clone()  # ended by env.terminate before the goal
        self.shielded = torch.zeros(2, device=env.device)  # commands that the shield changed, and all of the flights
        self.by_drone = none.clone()  # collided with one of its group before the goal
        # what `flights` needs
        self.results = [self.success, self.collision, self.time_s, self.strict, self.by_drone]
        self.decision: tuple[Tensor, Tensor | None] | None = None  # the last action and value
        memory = [] if self.policy.memory is None else [self.policy.memory]
        flown = [self.ended, self.clock_s, self.shielded, self.by_rule]
        self._state = [*self.observation.values(), *self.results, *flown, *memory]
        self._start, self._env_start = [x.clone() for x in self._state], env.state_dict()
        capturable = env.device.type == "cuda" and isinstance(policy, ActorCritic)
        self.step: Callable[[], None] = GraphedFunction(self._step, "evaluation") if capturable else self._step

    def restart(self) -> None:
        """Return to the state before the first decision, without waiting for the device."""
        self.env.load_state_dict(self._env_start)
        torch._foreach_copy_(self._state, self._start)

    def _step(self) -> None:
        """Take one decision of every drone; writes persistent tensors only."""
        output = self.policy(self.observation)
        action = action_of(output)
        self.decision = action, None if isinstance(output, Tensor) else output.get("value")
        record = self.env.step(action)
        self.policy.keep(record.valid)
        for name, seen in record.observation.items():
            self.observation[name].copy_(seen)
        self.clock_s.add_(self.decision_s)
        flying = ~self.ended & ~self.success
        if "shielded" in record.info:
            self.shielded.add_(torch.stack(((record.info["shielded"] * flying).sum(), flying.sum())))
        flying = ~self.ended
        at_goal = (record.info["at_goal"] > 0) & (record.info["collision"] == 0) & flying
        self.time_s.copy_(torch.where(at_goal & ~self.success, self.clock_s, self.time_s))
        self.success.logical_or_(at_goal)
        self.collision.logical_or_(record.terminated & flying & ~self.success)
        if "ended_by_rule" in record.info:
            self.by_rule.logical_or_((record.info["ended_by_rule"] > 0) & flying & ~self.success)
        if "drone_collision" in record.info:
            self.by_drone.logical_or_(record.terminated & (record.info["drone_collision"] > 0) & flying & ~self.success)
        done = (record.terminated | record.truncated) & flying
        self.strict.logical_or_(done & (record.info["at_goal"] > 0))
        self.ended.logical_or_(done)
        self.env.retire(self.ended)  # the env flies them on, from other starts

    @torch.no_grad()
    def fly(self, progress: Callable[[float], None] | None = None, record_paths: bool = False) -> Flights:
        """Fly all maps from the start; `progress` is called with the share done."""
        self.restart()
        every = max(1, PATH_EVERY // self.env.config.decision_interval)
        rows = FlightRows(self.env, self.drones)
        with set_exploration_type(ExplorationType.MEAN):
            for i in range(self.decisions):
                recorded = record_paths and i % every == 0
                if recorded:
                    rows.add_state(i * self.decision_s, self.ended | self.success)
                self.step()
                if recorded and self.decision is not None:
                    rows.add_decision(*self.decision)
                if i % 100 == 99:
                    if progress:
                        progress((i + 1) / self.decisions)
                    if bool(self.ended.all()):
                        break
        self.env.check()
        return self.flights(self.results, rows)

    def flights(self, results: Sequence[Tensor], rows: FlightRows) -> Flights:
        """Return the flights of `results`."""
        shape = (self.env.config.num_worlds, self.drones)
        success, collision, time_s, strict, by_drone = (x.cpu().numpy().reshape(shape) for x in results)
        seeds = list(self.env.world_seeds)
        return Flights(
            *(seeds, success, collision, time_s, strict, *rows.paths(), rows),
            *(self.policy.policy, self.shielded, self.by_rule, by_drone if self.env.swarm is not None else None),
        )

    # -- beside a training -------------------------------------------------------------------------------------------

    def capture(self) -> bool:
        """Capture the step; return whether replays may run beside a training.

        A replay may write the memory of the device's generator, which in the capture is another than the training's.
        """
        step = self.step
        if not isinstance(step, GraphedFunction):
            return False
        default = torch.cuda.default_generators[torch.cuda.current_device()]
        trainings = default.graphsafe_get_state()
        default.graphsafe_set_state(torch.Generator(self.env.device))
        before = default.get_state()
        try:
            with (
                contextlib.suppress(CaptureFailed),  # it has said why
                set_exploration_type(ExplorationType.MEAN),
                torch.no_grad(),
            ):
                for _ in range(WARM_UP + 2):
                    step()
            draws = not torch.equal(default.get_state(), before)
        finally:
            default.graphsafe_set_state(trainings)
        if draws:  # from the generator that is seeded for each evaluation
            self.step = self._step
        self._sent = [*self.results, self.env.bad_actions]
        self._host = [torch.empty(x.shape, dtype=x.dtype, pin_memory=True) for x in self._sent]
        return not step.eager and not draws

    def calls(self) -> list[Callable[[], Any]]:
        """Return `fly` of a captured step as calls that never wait for the device."""
        return [self.restart, *[self.step] * self.decisions, self._send]

    def _send(self) -> None:
        for host, x in zip(self._host, self._sent, strict=True):
            host.copy_(x, non_blocking=True)

    def received(self) -> Flights:
        """Return the flights when all `calls` have run."""
        *results, bad = self._host
        if bool(bad.any()):
            self.env.check()
        return self.flights(results, FlightRows(self.env, self.drones))


def fly(
    env: NavigationEnv,
    policy: Policy,
    drones: int,
    progress: Callable[[float], None] | None = None,
    record_paths: bool = True,
) -> Flights:
    """Fly the protocol once over the env's maps, `drones` on each; `progress` is called with the share done."""
    with torch.no_grad():
        return Crossing(env, policy, drones).fly(progress, record_paths)


def evaluation_env(
    world: NavigationConfig,
    settings: EvalConfig,
    device: torch.device | str,
    seed: int = 0,
    sim: SimConfig | None = None,
) -> NavigationEnv:
    """Build the env of the protocol: one world per map seed, clocks at zero, flights not truncated at the goal."""
    if settings.num_drones % world.swarm:
        few = max(settings.num_drones // world.swarm, 1) * world.swarm
        rule = f"must be a multiple of {world.swarm} drones"
        raise ConfigError(f"eval.num_drones={settings.num_drones} {rule}: use {few}")
    seeds, steps = list(settings.map_seeds), settings.max_steps or CROSSING_STEPS
    changes: dict[str, Any] = {"num_worlds": len(seeds), "world_seeds": seeds, "max_episode_steps": steps}
    changes |= {"num_envs": settings.num_drones * len(seeds), "random_clock": False, "goal_ends_episode": False}
    config = dataclasses.replace(world, **changes)
    if sim is None or sim.name != "mujoco":
        return NavigationEnv(config.num_envs, device, seed, config)
    return MujocoEnv(config.num_envs, seed, config, sim)


def build_for(trained: LoadedPolicy, env: NavigationEnv, sim: SimConfig) -> Policy:
    """Return the network for the env. Raises ConfigError if it reads observations that the simulator does not have."""
    policy = trained.build(env, env.device)
    if sim.name == "mujoco":
        own = () if env.rules is None else env.rules.specs
        sim.check_observations([key for key in getattr(policy, "keys", ()) if key not in own], trained.name)
    return policy


# -- results ---------------------------------------------------------------------------------------------------------


def summarize(flights: Flights, resamples: int = 10_000) -> dict[str, Any]:
    """Return the rates of the protocol, over all maps and per map."""
    drones = flights.success.shape[1]
    maps = []
    names = RATES if flights.drone_collision is None else (*RATES, "drone_collision")
    for k, seed in enumerate(flights.map_seeds):
        low, high = wilson(int(flights.success[k].sum()), drones)
        rates = {name: float(getattr(flights, name)[k].mean()) for name in names}
        interval = {"success_low": low, "success_high": high}
        maps.append({"map_seed": seed, **rates, **interval, "drones": drones, **_time(flights, k)})
    low, high = bootstrap_interval(flights.success.mean(1), resamples)
    if low == high:  # one map, or all are alike, which leaves nothing to resample
        low, high = wilson(int(flights.success.sum()), flights.success.size)
    means = {name: float(getattr(flights, name).mean()) for name in names}
    overall = {"success": means.pop("success"), "success_low": low, "success_high": high, **means}
    return {**overall, **_time(flights, slice(None)), "drones": int(flights.success.size), "maps": maps}


def compare(a: Flights, b: Flights, resamples: int = 10_000) -> dict[str, Any]:
    """Return the success of `a` minus that of `b`, paired by map."""
    if a.map_seeds != b.map_seeds:
        raise ValueError(f"flights over maps {a.map_seeds} and {b.map_seeds} cannot be compared: use the same maps")
    difference = a.success.mean(1) - b.success.mean(1)
    low, high = bootstrap_interval(difference, resamples) if len(difference) > 1 else (None, None)
    per_map = [{"map_seed": seed, "difference": float(d)} for seed, d in zip(a.map_seeds, difference, strict=True)]
    return {"difference": float(difference.mean()), "difference_low": low, "difference_high": high, "maps": per_map}


def format_difference(found: Mapping[str, Any]) -> str:
    """Return the difference of `compare`, with its 95 % interval if there are several maps."""
    low, high = found["difference_low"], found["difference_high"]
    interval = "" if low is None else f" ({low:+.3f} … {high:+.3f})"
    return f"{found['difference']:+.3f}{interval}"


def _time(flights: Flights, k: int | slice) -> dict[str, float | None]:
    times = flights.time_to_goal_s[k][flights.success[k]]
    return {"time_to_goal_s": float(times.mean()) if times.size else None}


def rate_cells(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a table of rates."""
    time_s = row["time_to_goal_s"]
    return {
        "success": format_rate(row["success"]),
        "95 % interval": f"{format_rate(row['success_low'])} … {format_rate(row['success_high'])}",
        "collision": format_rate(row["collision"]),
        **({"of it with drones": format_rate(row["drone_collision"])} if "drone_collision" in row else {}),
        "timeout": format_rate(row["timeout"]),
        "time to goal": "–" if time_s is None else f"{time_s:.1f} s",
    }


def percent_table(result: Mapping[str, Any], title: str) -> str:
    """Format the rates of an evaluation: one line per map, and one over all."""
    rows = [
        {"map": str(row.get("map_seed", "all")), "drones": f"{row['drones']:,}"}
        | rate_cells(row)
        | {"at goal at the end": format_rate(row["success_strict"])}
        for row in [*result["maps"], result]
    ]
    return TextTable(title, list(rows[0]), [list(row.values()) for row in rows], total=True).render()


# -- the command -----------------------------------------------------------------------------------------------------


def evaluate(
    cfg: NavigationEvaluateConfig, trained: LoadedPolicy, device: torch.device, log: Callable[[str], None]
) -> dict[str, Any]:
    """Fly the policy of `slipstream eval`, print a table, draw the paths; return the result."""
    other = load_policy(cfg.compare) if cfg.compare else None  # first: a wrong path is an error before any flight
    if other and other.task != trained.task:
        raise ConfigError(f"compare={other.path} was trained for task={other.task}, not for task={trained.task}")
    if other:
        log(other.message())
    cfg.sim.check_used()
    out = Path(cfg.out) if cfg.out else trained.beside("flight.html")
    if cfg.eval.picture:
        check_outputs(out, (".png", ".html", SUFFIX))
    flown = [(trained, cfg.env)]
    if other:
        flown.append((other, dataclasses.replace(cfg.env, **policy_settings(other, [str(cfg.env.observe)]))))
    with progress_bar(f"generating {len(cfg.eval.map_seeds)} maps"):
        envs = [evaluation_env(world, cfg.eval, device, cfg.seed, cfg.sim) for _, world in flown]
    policies = [build_for(policy, env, cfg.sim) for (policy, _), env in zip(flown, envs, strict=True)]
    env = envs[0]
    with progress_bar(f"flying {env.num_envs} drones over {len(cfg.eval.map_seeds)} maps") as progress:
        flights = fly(env, policies[0], cfg.eval.num_drones, progress, cfg.eval.picture)
    result = summarize(flights, cfg.eval.bootstrap)
    result["checkpoint"] = str(trained.path)
    standing = f"{cfg.env.num_obstacles} standing" if cfg.env.map == "boxes" else f"map {cfg.env.map}"
    world = f"{standing}, {env.movers.count} moving, {_flown(cfg.env, cfg.sim)}"
    log(percent_table(result, f"{trained.name}: {world}"))
    if env.shield is not None and flights.shielded is not None:
        changed, every = flights.shielded.tolist()
        result["shielded"] = changed / max(every, 1)
        log(f"the shield changed {format_percent(result['shielded'])} of the commands")
    if cfg.env.terminate and flights.by_rule is not None:
        result["ended_by_rule"] = float(flights.by_rule.float().mean())
        share = format_percent(result["ended_by_rule"])
        log(f"{cfg.env.terminate} ended {share} of the flights; they are among the collisions")
    if cfg.group_sizes:
        result["group_sizes"] = by_group_size(cfg, policies[0], device)
        sizes = [{"group": f"{row['swarm']}", "drones": f"{row['drones']:,}"} for row in result["group_sizes"]]
        rows = [size | rate_cells(row) for size, row in zip(sizes, result["group_sizes"], strict=True)]
        title = f"{trained.name}: crossing in groups"
        log(TextTable(title, list(rows[0]), [list(row.values()) for row in rows]).render())
    if other:
        with progress_bar(f"flying {other.name}") as progress:
            their_flights = fly(envs[1], policies[1], cfg.eval.num_drones, progress, False)
        found = {"checkpoint": str(other.path), **compare(flights, their_flights, cfg.eval.bootstrap)}
        result["compare"] = found | {"other": summarize(their_flights, cfg.eval.bootstrap)}
        title = f"{other.name}, in the same world: {_flown(flown[1][1], cfg.sim)}"
        log(percent_table(result["compare"]["other"], title))
        compared = f"success of {trained.name} less {other.name}, paired by map, with its 95 % interval"
        log(f"{compared}: {format_difference(found)}")
    if len(cfg.eval.map_seeds) < 16:
        first = cfg.eval.map_seeds[0]
        log(f"(maps: {len(cfg.eval.map_seeds)}; take at least 16 for a claim: eval.map_seeds={first}-{first + 15})")
    if cfg.eval.picture:
        picture = out.with_suffix(".png") if cfg.out else trained.beside("eval.png")
        result["picture"] = str(draw(flights, env, picture))
        where = f" in {cfg.sim.describe()}" if cfg.sim.name == "mujoco" else ""
        recording = record(flights, env, f"{trained.name}: map {flights.map_seeds[0]}{where}", trained)
        result["recording"] = str(recording.save(out.with_suffix(SUFFIX)))
        result["page"] = str(write_html(recording, out.with_suffix(".html")))
        written = f"{result['page']} (3-D, opens in a browser), {result['picture']}"
        if out.suffix in FORMS:
            with progress_bar("drawing the flights") as progress:
                result["animation"] = str(draw(flights, env, out, progress))
            written += f", {result['animation']}"
        log(f"flights over map {flights.map_seeds[0]}: {written}")
    return result


def by_group_size(cfg: NavigationEvaluateConfig, policy: Policy, device: torch.device) -> list[dict[str, Any]]:
    """Fly crossing ways in groups of each size of `group_sizes`; return the rates of each."""
    rows = []
    for size in cfg.group_sizes:
        with progress_bar(f"flying in groups of {size}") as progress:
            world = dataclasses.replace(cfg.env, swarm=size, goals="crossing")
            env = evaluation_env(world, cfg.eval, device, cfg.seed, cfg.sim)
            result = summarize(fly(env, policy, cfg.eval.num_drones, progress, False), cfg.eval.bootstrap)
        result.pop("maps")
        rows.append({"swarm": size, "drone_collision": 0.0} | result)
    return rows


class RepeatedEvaluation(TrainingEvaluation):
    """The evaluations of one training. The first one builds envs, maps and captured steps; the others use them again.

    On a GPU they run beside the training, with a copy of its weights.

    Args:
        worlds: the world of each protocol, by the prefix of its metrics.
        settings: `eval.*`.
        policy: the network that is trained.
        device: where it flies.
    """

    def __init__(
        self, worlds: Mapping[str, NavigationConfig], settings: EvalConfig, policy: Any, device: torch.device
    ) -> None:
        super().__init__(policy, lambda: self._metrics(Crossing.fly))
        self._worlds, self._settings, self._device, self._trained = worlds, settings, device, policy
        self._crossings: dict[str, Crossing] = {}
        self._beside: SideStream | None = None
        self._running = False  # beside the training

    @torch.no_grad()
    def start(self) -> None:
        """Start an evaluation of the present weights."""
        if not self._crossings:
            self._build()
        if self._running:
            self.take()  # it reads the weights
        if self.policy is not self._trained:
            torch._foreach_copy_(_tensors_of(self.policy), _tensors_of(self._trained))
        if self._beside is None:
            super().start()
        else:
            self._beside.start(call for crossing in self._crossings.values() for call in crossing.calls())
            self._running = True

    def take(self, wait: bool = True) -> dict[str, float] | None:
        """Return the metrics of the evaluation that was started; without `wait` None if it still runs."""
        if self._beside is None:
            return super().take(wait)
        if not self._running or not self._beside.poll(wait):
            return None
        self._running = False
        return self._metrics(Crossing.received)

    def close(self) -> None:
        """Stop an evaluation that still runs."""
        if self._beside is not None:
            self._beside.stop()
            self._running = False

    def _build(self) -> None:
        if self._device.type == "cuda" and isinstance(self._trained, ActorCritic):
            self.policy = copy.deepcopy(self._trained).requires_grad_(False).eval()
        for prefix, world in self._worlds.items():
            env = evaluation_env(world, self._settings, self._device)
            self._crossings[prefix] = Crossing(env, self.policy, self._settings.num_drones)
        if all([crossing.capture() for crossing in self._crossings.values()]):  # each of them
            self._beside = SideStream()

    def _metrics(self, flights: Callable[[Crossing], Flights]) -> dict[str, float]:
        found: dict[str, float] = {}
        for prefix, crossing in self._crossings.items():
            found |= metrics_of(flights(crossing), prefix)
        return found


def _tensors_of(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


def metrics_of(flights: Flights, prefix: str) -> dict[str, float]:
    """Return the metrics of an evaluation during training."""
    result = summarize(flights, 1000)
    return {f"{prefix}{key}": result[key] for key in IN_TRAINING if result.get(key) is not None}


def policy_settings(trained: LoadedPolicy, typed: Sequence[str] = ()) -> dict[str, Any]:
    """Return the settings of `env.*` that belong to a policy and not to the world: its sensors and its decision
    interval. Raises ConfigError if they name code that the user did not type."""
    settings = trained.env_settings(NavigationConfig(), POLICY_SETTINGS)
    registry.refuse_unregistered({"env": {"observe": settings["observe"]}}, typed, str(trained.path))
    return settings


def _flown(config: NavigationConfig, sim: SimConfig) -> str:
    steps = "physics step" if config.decision_interval == 1 else f"{config.decision_interval} physics steps"
    return f"{sim.describe() if sim.name == 'mujoco' else config.dynamics}, a decision every {steps}"


def final_goals(env: NavigationEnv, flights: Flights) -> np.ndarray:
    """Return the last goals [drones, 3] of the flights over the first map, m."""
    drones = flights.success.shape[1]
    goals = env.protocol_flights(drones)[1][:drones]
    return (goals if goals.dim() == 2 else goals[:, -1]).cpu().numpy()


def record(flights: Flights, env: NavigationEnv, title: str, trained: LoadedPolicy | None = None) -> Recording:
    """Return the recording of the flights over the first map."""
    assert flights.rows is not None
    goals = final_goals(env, flights)
    return flight_recording(flights.rows, flights.outcome(), goals, title, flights.policy, trained)


def record_flight(cfg: EvaluateConfig, trained: LoadedPolicy) -> Recording:
    """Fly some drones over the first map of an evaluation."""
    drones = max(RECORDED_DRONES // cfg.env.swarm, 1) * cfg.env.swarm
    few = dataclasses.replace(cfg.eval, num_drones=drones, map_seeds=cfg.eval.map_seeds[:1])
    env = evaluation_env(cfg.env, few, "cpu", cfg.seed)
    policy = trained.build(env, "cpu")
    flights = fly(env, policy, drones)
    recording = record(flights, env, "", trained)
    recording.draw_film = lambda path: draw(flights, env, path)
    return recording


def draw(flights: Flights, env: NavigationEnv, path: Path, progress: Callable[[float], None] | None = None) -> Path:
    """Draw the paths over the first map as a PNG, or as an animation if the name is that of one."""
    assert flights.rows is not None
    outcome, half_m = flights.outcome(), env.config.map_half_m
    goals = final_goals(env, flights)[:, :2]
    rate = format_percent(flights.success[0].mean(), 0)
    title = f"map {flights.map_seeds[0]}: {rate} of {len(outcome)} drones reach the goal"
    boxes, widths = env.grid.boxes_of_world(0), env.movers.width.cpu().numpy()
    picture = FlightPicture(boxes, flights.paths, outcome, goals, flights.mover_paths, widths, title, half_m)
    if path.suffix in FORMS:
        return picture.film(path, np.array(flights.rows.times_s), progress)
    return picture.png(path)
