"""NavigationEnv: drones cross a field of static and moving obstacles to a goal, with velocity commands from LiDAR.

NavRL's task (arXiv 2409.15634) in plain tensors: its world, observations, reward and episode ends are the defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.config.validation import check_range
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Discrete, Observation
from slipstream.sim.devices import pick_backend, run_beside
from slipstream.sim.frames import heading_of, to_goal_frame, to_world
from slipstream.sim.random import CounterRandom, derive_seed
from slipstream.tasks.navigation.physics.disturbance import Disturbance, DisturbanceConfig
from slipstream.tasks.navigation.physics.lidar import Lidar, LidarConfig
from slipstream.tasks.navigation.physics.obstacles import SEEN_COLUMNS, MovingObstacles, MovingObstaclesConfig
from slipstream.tasks.navigation.physics.quadrotor import DYNAMICS
from slipstream.tasks.navigation.physics.world import WorldGrid

NEAREST = 5  # moving obstacles observed
_COLUMNS = [(-1 if name in ("unit_y", "vel_y") else 1, column) for column, name in enumerate(SEEN_COLUMNS, 1)]
MIRRORED_ROWS = tuple(sign * (k * len(_COLUMNS) + column) for k in range(NEAREST) for sign, column in _COLUMNS)
GOAL_RADIUS_M = 0.5
BODY_RADIUS_M = 0.3
HEIGHT_LIMITS_M = (0.2, 4.0)
HEIGHT_SLACK_M = 0.2
START_MARGIN_M = 4.0  # distance of starts and goals from the map
START_HEIGHTS_M = (0.5, 2.5)
GOALS = ("any", "opposite")
BOUNDARIES = ("none", "terminate")
BOUNDARY_SLACK_M = 2.0  # around the start and the goal, where a drone may overshoot


MAX_OBSTACLES = 5000  # placing more takes minutes
MAX_INTERVAL = 10_000  # physics steps per decision
MAX_SPEEDS = 32  # on each axis: 32,768 actions


@dataclass
class NavigationReward:
    """The weights of the reward's terms; the defaults are NavRL's."""

    speed: float = 1.0  # velocity towards the goal, m/s
    alive: float = 1.0
    static_clearance: float = 1.0  # mean log distance of all beams
    moving_clearance: float = 1.0  # mean log distance to the nearest moving obstacles
    smoothness: float = 0.1  # cost of |v − v_previous|
    height: float = 8.0  # cost of (height beyond 0.2 m outside the band between start and goal)²
    collision: float = 0.0  # cost of ending by a collision
    goal: float = 0.0  # bonus when the goal is first reached

    def __post_init__(self) -> None:
        for name in ("smoothness", "height", "collision"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"env.reward.{name}={value:g} is a cost, which is subtracted: use {-value:g}")


@dataclass
class NavigationConfig:
    """The settings of `env.*`; the defaults are NavRL's."""

    num_envs: int = 1024
    num_obstacles: int = 350
    num_worlds: int = 1  # maps, shared evenly by the drones; at most one per drone
    world_seeds: list[int] = field(default_factory=list)  # one per world; by default derived from the env's seed
    map_half_m: float = 20.0
    dt_s: float = 0.016
    decision_interval: int = 1  # physics steps per action
    max_episode_steps: int = 2200  # physics steps
    random_clock: bool = True  # first episodes start at a random step, so that timeouts are spread out
    goal_ends_episode: bool = False  # truncate the episode when the goal is reached
    goals: str = "any"  # on any side of the map, as NavRL; opposite: across the map from the start
    boundary: str = "none"  # terminate: an episode ends where the drone leaves the map to fly around the obstacles
    dynamics: str = "velocity_lag"  # or quadrotor
    actions: str = "continuous"  # or discrete
    max_speed_mps: float = 2.0  # on each axis
    discrete_speeds_mps: list[float] = field(default_factory=lambda: [-2.0, 0.0, 2.0])  # on each axis: 27 actions
    lidar_sees_moving: bool = False  # beams also hit moving obstacles
    observe_moving: bool = True  # false: without the detector's list of moving obstacles, `dynamic_obstacle`
    backend: str = "auto"  # of the sensors: torch, native (CPU), triton (CUDA)
    lidar: LidarConfig = field(default_factory=LidarConfig)
    reward: NavigationReward = field(default_factory=NavigationReward)
    disturbance: DisturbanceConfig = field(default_factory=DisturbanceConfig)
    dyn: MovingObstaclesConfig = field(default_factory=MovingObstaclesConfig)  # NavRL's name, env_dyn.*, works too

    def __post_init__(self) -> None:
        if self.dynamics not in DYNAMICS:
            raise ValueError(f"unknown dynamics '{self.dynamics}': use one of {', '.join(DYNAMICS)}")
        if self.goals not in GOALS:
            raise ValueError(f"unknown goals '{self.goals}': use {' or '.join(GOALS)}")
        if self.boundary not in BOUNDARIES:
            raise ValueError(f"unknown boundary '{self.boundary}': use {' or '.join(BOUNDARIES)}")
        if self.actions not in ("continuous", "discrete"):
            raise ValueError(f"unknown actions '{self.actions}': use continuous or discrete")
        check_range(self, "num_envs", "num_worlds", "decision_interval", "max_episode_steps", minimum=1, section="env.")
        check_range(self, "decision_interval", maximum=MAX_INTERVAL, section="env.")
        if not 0 < len(self.discrete_speeds_mps) <= MAX_SPEEDS:
            raise ValueError(
                f"env.discrete_speeds_mps has {len(self.discrete_speeds_mps)} speeds: give 1 to {MAX_SPEEDS}"
            )
        check_range(self, "num_obstacles", minimum=0, maximum=MAX_OBSTACLES, section="env.")
        check_range(self, "map_half_m", minimum=2, section="env.")
        check_range(self, "dt_s", "max_speed_mps", above=0, section="env.")
        if self.world_seeds and len(self.world_seeds) != self.num_worlds:
            raise ValueError(
                f"env.world_seeds has {len(self.world_seeds)} seeds, but env.num_worlds={self.num_worlds}: give one per world"
            )


class NavigationEnv(TensorEnv):
    """N drones over K seeded worlds; they do not collide with one another.

    Args:
        num_envs: the number of drones N (default: config.num_envs).
        device: where the drones are simulated.
        seed: of worlds, starts, goals and disturbances.
        config: the settings of `env.*`.
    """

    Config = NavigationConfig
    spec_settings = ("actions", "discrete_speeds_mps", "max_speed_mps", "observe_moving", "lidar")
    episode_settings = {"random_clock": False}

    def __init__(
        self,
        num_envs: int | None = None,
        device: torch.device | str = "cpu",
        seed: int = 0,
        config: NavigationConfig | None = None,
    ) -> None:
        config = config or NavigationConfig()
        super().__init__(config.num_envs if num_envs is None else num_envs, device, seed)
        n, device = self.num_envs, self.device
        if len(config.world_seeds) > n:
            raise ValueError(f"env.world_seeds has {len(config.world_seeds)} seeds, more than env.num_envs={n}")
        self.config = config = replace(config, num_worlds=min(config.num_worlds, n))
        worlds = config.num_worlds
        self.world_seeds = config.world_seeds or [derive_seed(seed, f"world {k}") for k in range(worlds)]
        self.world_of = torch.arange(n, device=device) * worlds // n  # [N]
        seeds, half_m = self.world_seeds, config.map_half_m
        place_moving = partial(MovingObstacles, config.dyn, seeds, config.dt_s, half_m, device, config.backend)
        movers, kernels = run_beside(device, place_moving, self._compile_kernels)
        self.grid = WorldGrid.generate(seeds, config.num_obstacles, config.lidar.range_m, half_m, device)
        self.movers = movers.result()
        self.lidar, self.drone = self._make_physics()
        self.sync_is_cheap &= self.lidar.backend == "native"  # the PyTorch form never branches on values, as on a GPU
        self.disturbance = Disturbance(config.disturbance, n, 3, seed, device)
        self._random = CounterRandom([derive_seed(seed, "starts and goals")], n, device)

        self.goal = torch.zeros(n, 3, device=device)
        self.direction = torch.zeros(n, 3, device=device)  # start to goal, z = 0
        self.heading = torch.zeros(n, 2, device=device)  # unit vector of it: the x axis of the goal frame
        self.height_band = torch.zeros(n, 2, device=device)  # lower and higher of start and goal height
        self.clock = torch.zeros(n, dtype=torch.int64, device=device)  # physics steps into the episode
        self.episode = torch.zeros(n, dtype=torch.int64, device=device)  # episodes started
        self.reached = torch.zeros(n, dtype=torch.bool, device=device)  # whether the goal was reached in this episode
        self.vel_before = torch.zeros(n, 3, device=device)
        self.untouched = torch.ones((), dtype=torch.bool, device=device)  # True before the first step
        self.state_names = (
            *("goal", "direction", "heading", "height_band", "clock"),
            *("episode", "reached", "vel_before", "untouched"),
        )
        self._parts = {"drone": self.drone, "movers": self.movers, "disturbance": self.disturbance}

        beams = (1, config.lidar.azimuths, len(config.lidar.elevations_deg))
        beam_numbers = np.arange(1, 1 + int(np.prod(beams))).reshape(beams)
        mirrored = np.roll(beam_numbers[:, ::-1], 1, 1)  # the beam of azimuth h is that of -h
        self.observation_spec = {
            "state": Box(
                (8,), mirror=(1, -2, 3, 4, 5, 6, -7, 8), side=6
            ),  # the velocity to the left of the line to the goal
            "lidar": Box(beams, 0.0, config.lidar.range_m, mirror=tuple(mirrored.flatten().tolist())),
            "direction": Box((1, 3)),
            "dynamic_obstacle": Box((1, NEAREST, len(SEEN_COLUMNS)), mirror=MIRRORED_ROWS),
        }
        if not config.observe_moving:
            del self.observation_spec["dynamic_obstacle"]
        if config.actions == "discrete":
            self.action_table = torch.tensor(list(product(config.discrete_speeds_mps, repeat=3)), device=device)
            self.action_spec = Discrete(len(self.action_table))
        else:
            self.action_spec = Box((3,), -config.max_speed_mps, config.max_speed_mps, mirror=(1, -2, 3))
        wait([kernels])
        self.reset()

    def _compile_kernels(self) -> None:
        """Launch each Triton kernel once, in a thread of its own, for drones at one place of one or two worlds.

        A kernel is compiled at its first launch, and one after another they take seconds. One that fails here fails, or
        is compiled, at its next launch.
        """
        config, device = self.config, self.device
        if pick_backend(device, config.backend) != "triton":
            return
        seeds, half_m, count = self.world_seeds[:2], config.map_half_m, config.dyn.count
        grid = WorldGrid.generate(seeds, config.num_obstacles, config.lidar.range_m, half_m, device)
        movers = MovingObstacles(config.dyn, seeds, config.dt_s, half_m, device, config.backend)
        lidar = Lidar(config.lidar, grid, torch.zeros_like(self.world_of), config.backend)
        pos, yaw = torch.zeros(self.num_envs, 3, device=device), torch.zeros(self.num_envs, device=device)
        calls: list[Callable[[], Any]] = [lambda: lidar.measure(pos, yaw)]
        if count:
            calls += [lambda: movers.advance(config.decision_interval)]
            calls += [lambda: movers.nearest(pos, lidar.world_of, min(NEAREST, count))]
        if count and config.lidar_sees_moving:
            calls += [lambda: lidar.scan_movers(pos, yaw, movers)]
        wait(run_beside(device, *calls))

    def _make_physics(self) -> tuple[Any, Any]:
        """Return the LiDAR and the drones. Another simulator overrides this, `_advance_physics` and `_collided`."""
        config = self.config
        lidar = Lidar(config.lidar, self.grid, self.world_of, config.backend)
        return lidar, DYNAMICS[config.dynamics](self.num_envs, config.dt_s, self.device)

    # -- episodes ----------------------------------------------------------------------------------------------------

    def place(self, start: Tensor, goal: Tensor) -> Observation:
        """Start an episode of every drone at `start` [N, 3] with `goal` [N, 3], m. Returns the observation."""
        everyone = torch.ones_like(self._pending)
        self._begin(everyone, start.to(self.device), goal.to(self.device))
        self.clock.zero_()
        self._pending.zero_()
        return self._observe()

    def _reset(self, mask: Tensor) -> None:
        u = self._random.uniform(self.episode, 9)
        goal = u[:, 4:8]
        if self.config.goals == "opposite":
            goal = torch.stack((u[:, 4], (u[:, 1] + 0.5) % 1, u[:, 2], u[:, 7]), -1)
        self._begin(mask, self._random_edge_points(u[:, 0:4]), self._random_edge_points(goal))
        if self.config.random_clock:
            late = (u[:, 8] * self.config.max_episode_steps).long()
            self.clock.copy_(torch.where(mask & self.untouched, late, self.clock))

    def _random_edge_points(self, u: Tensor) -> Tensor:
        """Return random points [N, 3] on the four sides of the square around the map, from uniform numbers [N, 4]."""
        half = self.config.map_half_m + START_MARGIN_M
        along = (2 * u[:, 0] - 1) * half
        across = torch.where(u[:, 1] < 0.5, half, -half)
        along_x = u[:, 2] < 0.5
        low, high = START_HEIGHTS_M
        x, y = torch.where(along_x, along, across), torch.where(along_x, across, along)
        return torch.stack((x, y, low + (high - low) * u[:, 3]), -1)

    def _begin(self, mask: Tensor, start: Tensor, goal: Tensor) -> None:
        col = mask[:, None]
        direction = goal - start
        direction[:, 2] = 0.0
        heading = heading_of(direction)
        band = torch.stack((torch.minimum(start[:, 2], goal[:, 2]), torch.maximum(start[:, 2], goal[:, 2])), -1)
        self.goal.copy_(torch.where(col, goal, self.goal))
        self.direction.copy_(torch.where(col, direction, self.direction))
        self.heading.copy_(torch.where(col, heading, self.heading))
        self.height_band.copy_(torch.where(col, band, self.height_band))
        self.drone.reset(mask, start, torch.atan2(heading[:, 1], heading[:, 0]))
        self.vel_before.mul_(~col)
        self.clock.mul_(~mask)
        self.reached.logical_and_(~mask)
        self.disturbance.reset(mask, self.episode)
        self.episode.add_(mask)

    def render(self, env_idx: int = 0) -> np.ndarray:
        """Return the field of one drone from above, with the drone and its goal: an image, uint8 [height, width, 3]."""
        from slipstream.tasks.navigation.figures import FlightPicture

        world, movers, k = int(self.world_of[env_idx]), self.movers, env_idx
        place, goal = (x[k : k + 1].cpu().numpy() for x in (self.drone.pos, self.goal))
        title = f"{int(self.clock[k]) * self.config.dt_s:.1f} s, {np.linalg.norm(goal - place):.1f} m to the goal"
        outcome, boxes = self.reached[k : k + 1].cpu().numpy().astype(int), self.grid.boxes_of_world(world)
        at, widths = movers.pos[world][None].cpu().numpy(), movers.width.cpu().numpy()
        half_m = self.config.map_half_m
        return FlightPicture(boxes, place[None], outcome, goal[:, :2], at, widths, title, half_m).moment()

    # -- one step ----------------------------------------------------------------------------------------------------

    def _advance(self, action: Tensor) -> None:
        self.untouched.zero_()
        if self.config.actions == "discrete":
            action = self.action_table[action]
        command = to_world(self.disturbance.delay_action(action), self.heading)
        self.disturbance.update_wind(self.config.dt_s * self.config.decision_interval)
        self.vel_before.copy_(self.drone.vel)
        self._advance_physics(command, self.config.decision_interval)
        self.clock.add_(self.config.decision_interval)

    def _advance_physics(self, command: Tensor, steps: int) -> None:
        """Take physics steps of drones and moving obstacles, which do not touch each other here."""
        for _ in range(steps):
            self.drone.advance(command, self.disturbance.variation)
        self.movers.advance(steps)

    def _observe(self) -> Observation:
        pos, vel, range_m = self.drone.pos, self.drone.vel, self.config.lidar.range_m
        yaw = self.drone.yaw
        distance, self._static_nearest, self._static_log_distance = self.lidar.measure(pos, yaw)
        if self.config.lidar_sees_moving and self.movers.count:
            distance = torch.minimum(distance, self.lidar.scan_movers(pos, yaw, self.movers))
        to_goal = self.goal - pos
        self._goal_distance = torch.linalg.vector_norm(to_goal, dim=-1)
        self._goal_direction = to_goal / self._goal_distance.clamp(min=1e-6)[:, None]
        goal_direction = to_goal_frame(self._goal_direction, self.heading)
        across = torch.linalg.vector_norm(to_goal[:, :2], dim=-1, keepdim=True)
        seen_vel = to_goal_frame(self.disturbance.velocity_reading(vel), self.heading)
        moving = self._observe_movers(pos)[:, None]
        return {
            "state": torch.cat((goal_direction, across, to_goal[:, 2:], seen_vel), -1),
            "lidar": (range_m - self.disturbance.lidar_reading(distance, range_m))[:, None],
            "direction": self.direction[:, None].clone(),
            **({"dynamic_obstacle": moving} if self.config.observe_moving else {}),
        }

    def _observe_movers(self, pos: Tensor) -> Tensor:
        """Return the nearest moving obstacles [N, 5, 10]; stores their clearances and hits for the outcome."""
        if not self.movers.count:
            self._moving_clearance, self._moving_hit = None, torch.zeros_like(self._pending)
            return pos.new_zeros(self.num_envs, NEAREST, len(SEEN_COLUMNS))
        seen = self.movers.sense(pos, self.heading, self.world_of, NEAREST, self.config.lidar.range_m, BODY_RADIUS_M)
        self._moving_clearance, self._moving_hit = seen.clearance, seen.hit
        return seen.rows

    def _outcome(self) -> Outcome:
        config, collided = self.config, self._collided()
        if config.boundary == "terminate":
            collided = collided | self._outside()
        at_goal = self._goal_distance < GOAL_RADIUS_M
        reached_now = at_goal & ~self.reached & ~collided
        self.reached.logical_or_(reached_now)
        timeout = self.clock >= config.max_episode_steps
        reward = self._reward(collided, reached_now)
        truncated = (timeout | at_goal) if config.goal_ends_episode else timeout
        info = {"success": self.reached, "collision": collided, "timeout": timeout & ~collided, "at_goal": at_goal}
        return Outcome(reward, collided, truncated, {name: fact.float() for name, fact in info.items()})

    def _collided(self) -> Tensor:
        """Return bool [N]: drones that touch something or are too low or too high."""
        z, (low, high) = self.drone.pos[:, 2], HEIGHT_LIMITS_M
        return (self._static_nearest < BODY_RADIUS_M) | self._moving_hit | (z < low) | (z > high)

    def _outside(self) -> Tensor:
        """Return bool [N]: drones beyond the rectangle around the map, their start and their goal.

        The straight way to the goal is always inside. The free ground beside the map is outside, unless the start or
        the goal is there.
        """
        here, goal, half = self.drone.pos[:, :2], self.goal[:, :2], self.config.map_half_m
        start = goal - self.direction[:, :2]
        low = (torch.minimum(start, goal) - BOUNDARY_SLACK_M).clamp(max=-half)
        high = (torch.maximum(start, goal) + BOUNDARY_SLACK_M).clamp(min=half)
        return ((here < low) | (here > high)).any(-1)

    def _reward(self, collided: Tensor, reached_now: Tensor) -> Tensor:
        """Return the reward [N] of one step."""
        weights, vel, z = self.config.reward, self.drone.vel, self.drone.pos[:, 2]
        low, high = self.height_band.unbind(-1)
        height_excess = torch.maximum(z - high - HEIGHT_SLACK_M, low - HEIGHT_SLACK_M - z).clamp(min=0)
        reward = weights.speed * (vel * self._goal_direction).sum(-1) + weights.alive
        reward = reward + weights.static_clearance * self._static_log_distance
        if self._moving_clearance is not None:
            clearance = self._moving_clearance.clamp(1e-6, self.config.lidar.range_m)
            reward = reward + weights.moving_clearance * clearance.log().mean(1)
        vel_change = torch.linalg.vector_norm(vel - self.vel_before, dim=-1)
        reward = reward - weights.smoothness * vel_change - weights.height * height_excess.square()
        if weights.collision or weights.goal:
            reward = reward - weights.collision * collided.float() + weights.goal * reached_now.float()
        return reward

    # -- state -------------------------------------------------------------------------------------------------------

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the state, with that of drones, obstacles and disturbances."""
        parts = {f"{key}.{name}": getattr(part, name) for key, part in self._parts.items() for name in part.state_names}
        return super().state_tensors() | parts

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all that the next steps depend on."""
        return super().state_dict() | {"world_seeds": list(self.world_seeds)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state`, bit for bit; the worlds must be the same."""
        if list(state["world_seeds"]) != list(self.world_seeds):
            raise ValueError(
                "the saved env has other worlds: build this one with the same seed, num_worlds and world_seeds"
            )
        if state["seed"] != self.seed:
            raise ValueError(
                f"the saved env has seed {state['seed']}, this one {self.seed}: build it with the same seed"
            )
        super().load_state_dict(state)


def evaluation_starts(num_drones: int, map_half_m: float = 20.0) -> tuple[Tensor, Tensor]:
    """Return starts and goals [N, 3] (m) of NavRL's evaluation: rows on opposite sides of the map."""
    edge, spread = map_half_m + START_MARGIN_M, 1.6 * map_half_m
    x = (torch.arange(num_drones) / num_drones - 0.5) * spread
    goal_x = torch.linspace(-0.5, 0.5, num_drones) * spread
    y, z = torch.full((num_drones,), edge), torch.full((num_drones,), 2.0)
    return torch.stack((x, y, z), -1), torch.stack((goal_x, -y, z), -1)
