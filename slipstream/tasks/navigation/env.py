"""NavigationEnv: drones cross a field of static and moving obstacles to a goal, with velocity commands from LiDAR.

NavRL's task (arXiv 2409.15634) in plain tensors: its world, observations, reward and episode ends are the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from itertools import product
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.config.compose import with_values
from slipstream.config.validation import check_range
from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Discrete, Observation
from slipstream.sim.devices import pick_backend, run_beside
from slipstream.sim.frames import heading_of, to_goal_frame, to_world
from slipstream.sim.random import CounterRandom, derive_seed
from slipstream.tasks.navigation.physics.camera import Camera, CameraConfig
from slipstream.tasks.navigation.physics.disturbance import OF_RIGID_BODY, Disturbance, DisturbanceConfig
from slipstream.tasks.navigation.physics.lidar import Lidar, LidarConfig, Rays, Things, VoxelLidar, level_rotation
from slipstream.tasks.navigation.physics.obstacles import SEEN_COLUMNS, MovingObstacles, MovingObstaclesConfig
from slipstream.tasks.navigation.physics.places import (
    GENERATORS,
    START_HEIGHTS_M,
    Routes,
    build_solids,
    draw_routes,
    half_side,
    read_routes,
)
from slipstream.tasks.navigation.physics.quadrotor import DYNAMICS, Airframe, Quadrotor
from slipstream.tasks.navigation.physics.swarm import Swarm, nearest_of
from slipstream.tasks.navigation.physics.voxels import VoxelWorld
from slipstream.tasks.navigation.physics.world import WorldGrid
from slipstream.tasks.navigation.rules import Rules

NEAREST = 5  # moving obstacles observed
_COLUMNS = [(-1 if name in ("unit_y", "vel_y") else 1, column) for column, name in enumerate(SEEN_COLUMNS, 1)]
MIRRORED_ROWS = tuple(sign * (k * len(_COLUMNS) + column) for k in range(NEAREST) for sign, column in _COLUMNS)
GOAL_RADIUS_M = 0.5
BODY_RADIUS_M = 0.3
HEIGHT_LIMITS_M = (0.2, 4.0)
HEIGHT_SLACK_M = 0.2
START_MARGIN_M = 4.0  # distance of starts and goals from the map
CROSSING_SPREAD = 0.2  # of a side: how far a way passes the middle
MAX_SWARM = 256
GOALS = ("any", "opposite", "crossing")
ACTIONS, BOUNDARIES = ("continuous", "discrete"), ("none", "terminate")
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
    own: str | None = None  # my_module:function of a NavigationState: terms that are added (docs/change-navigation.md)

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
    swarm: int = 1  # drones of a group, which see and hit each other; the groups do not
    world_seeds: list[int] = field(default_factory=list)  # one per world; by default derived from the env's seed
    map: str = "boxes"  # forest, corridors, rooms, warehouse; a file, or a folder of files (docs/change-navigation.md)
    density: float | list[float] = 0.5  # of a generated map: 0 to 1, or [low, high], drawn per map
    voxel_m: float | None = None  # side of the cubes of all maps but boxes; null: 0.2 generated, 0.1 from a file
    ground_m: float = 0.0  # height in the coordinates of the map's file where the ground is
    map_half_m: float = 20.0  # of a file: as large as it is
    body_radius_m: float = BODY_RADIUS_M
    goal_radius_m: float = GOAL_RADIUS_M
    min_height_m: float = HEIGHT_LIMITS_M[0]
    max_height_m: float = HEIGHT_LIMITS_M[1]
    dt_s: float = 0.016
    decision_interval: int = 1  # physics steps per action
    max_episode_steps: int = 2200  # physics steps
    random_clock: bool = True  # first episodes start at a random step, so that timeouts are spread out
    goal_ends_episode: bool = False  # truncate the episode when the goal is reached
    # on any side of map=boxes, as NavRL; opposite: across it; crossing: through its middle; or a CSV file of ways
    goals: str = "any"
    terminate: str | None = None  # my_module:function of a NavigationState: bool [N], the episodes that end
    observe: str | None = None  # my_module:function of a NavigationState: observations [N, ...], by name
    boundary: str = "none"  # terminate: an episode ends where the drone leaves the map to fly around the obstacles
    dynamics: str = "velocity_lag"  # or quadrotor
    drone: str | None = None  # YAML file of the quadrotor's parameters (docs/change-navigation.md)
    actions: str = "continuous"  # or discrete
    max_speed_mps: float = 2.0  # on each axis
    discrete_speeds_mps: list[float] = field(default_factory=lambda: [-2.0, 0.0, 2.0])  # on each axis: 27 actions
    lidar_sees_moving: bool = False  # beams also hit moving obstacles
    shield: bool = False  # the safety shield of slipstream.deploy changes commands that are not admissible
    observe_moving: bool = True  # false: without the detector's list of moving obstacles, `dynamic_obstacle`
    backend: str = "auto"  # of the sensors: torch, native (CPU), triton (CUDA)
    lidar: LidarConfig = field(default_factory=LidarConfig)
    camera: CameraConfig = field(default_factory=CameraConfig)
    reward: NavigationReward = field(default_factory=NavigationReward)
    disturbance: DisturbanceConfig = field(default_factory=DisturbanceConfig)
    dyn: MovingObstaclesConfig = field(default_factory=MovingObstaclesConfig)  # NavRL's name, env_dyn.*, works too

    def __post_init__(self) -> None:
        for setting, known in (("dynamics", DYNAMICS), ("boundary", BOUNDARIES), ("actions", ACTIONS)):
            if (value := getattr(self, setting)) not in known:
                raise ValueError(f"unknown {setting} '{value}': use one of {', '.join(known)}")
        if self.goals not in GOALS and not self.goals.endswith(".csv"):
            raise ValueError(f"unknown goals '{self.goals}': use {', '.join(GOALS)}, or a .csv file")
        ends = self.density if isinstance(self.density, list) else [self.density] * 2
        if len(ends) != 2 or not 0 <= ends[0] <= ends[1] <= 1:
            raise ValueError(f"env.density={self.density} must be a number in [0, 1], or a range such as [0.2, 0.8]")
        for key, name in (("terminate", self.terminate), ("observe", self.observe), ("reward.own", self.reward.own)):
            if name is not None and ":" not in name:
                raise ValueError(f"env.{key}={name} must name a function of yours: env.{key}=my_module:my_function")
        check_range(self, "swarm", minimum=1, maximum=MAX_SWARM, section="env.")
        check_range(self, "voxel_m", minimum=0.02, maximum=2, section="env.")
        check_range(self, "body_radius_m", "goal_radius_m", above=0, maximum=10, section="env.")
        if self.lidar.range_m <= self.body_radius_m:
            range_m, radius_m = self.lidar.range_m, self.body_radius_m
            raise ValueError(f"env.lidar.range_m={range_m:g} must be more than env.body_radius_m={radius_m:g}")
        if not 0 <= self.min_height_m < self.max_height_m <= 1000:
            low, high = self.min_height_m, self.max_height_m
            raise ValueError(f"env.min_height_m={low:g} must be less than env.max_height_m={high:g}, both in [0, 1000]")
        if self.dynamics == "velocity_lag" and (names := self.disturbance.of_rigid_body):
            raise ValueError(f"env.disturbance.{names[0]} changes a rigid body: add env.dynamics=quadrotor")
        if self.drone is not None and self.dynamics != "quadrotor":
            raise ValueError(f"env.drone={self.drone} describes a rigid body: add env.dynamics=quadrotor")
        check_range(self, "num_envs", "num_worlds", "decision_interval", "max_episode_steps", minimum=1, section="env.")
        check_range(self, "decision_interval", maximum=MAX_INTERVAL, section="env.")
        if not 0 < (speeds := len(self.discrete_speeds_mps)) <= MAX_SPEEDS:
            raise ValueError(f"env.discrete_speeds_mps has {speeds} speeds: give 1 to {MAX_SPEEDS}")
        check_range(self, "num_obstacles", minimum=0, maximum=MAX_OBSTACLES, section="env.")
        check_range(self, "map_half_m", minimum=2, section="env.")
        check_range(self, "dt_s", "max_speed_mps", above=0, section="env.")
        if self.world_seeds and (seeds := len(self.world_seeds)) != self.num_worlds:
            raise ValueError(f"env.world_seeds has {seeds} seeds for env.num_worlds={self.num_worlds}: give as many")

    @property
    def needs_voxels(self) -> bool:
        """Whether map=boxes is needed as voxels too: for rays in any direction, or to check given goals."""
        return self.lidar.is_partial or self.goals not in GOALS


class NavigationEnv(TensorEnv):
    """N drones over K seeded worlds. Only those of one group (`env.swarm`) meet one another.

    Args:
        num_envs: the number of drones N (default: config.num_envs).
        device: where the drones are simulated.
        seed: of worlds, starts, goals and disturbances.
        config: the settings of `env.*`.
    """

    Config = NavigationConfig
    spec_settings = ("actions", "discrete_speeds_mps", "max_speed_mps", "observe_moving", "observe", "lidar", "camera")
    episode_settings = {"random_clock": False}
    scheduled_settings = (
        *("dyn.speed_mps", "goal_radius_m", "max_episode_steps", "camera.noise", "camera.dropout"),
        *(f"reward.{f.name}" for f in fields(NavigationReward) if f.name != "own"),
        *(f"disturbance.{name}" for name in ("lidar_noise_m", "lidar_dropout", "velocity_noise_mps", "wind_mps2")),
        *(f"disturbance.{name}" for name in ("mass_range", "gain_range", "drag_per_s", *OF_RIGID_BODY)),
    )

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
        if n % config.swarm:
            few = max(n - n % config.swarm, config.swarm)
            raise ValueError(f"env.num_envs={n} must be a multiple of env.swarm={config.swarm}: use {few}")
        groups = n // config.swarm
        self.config = config = replace(config, num_worlds=min(config.num_worlds, groups))
        worlds = config.num_worlds
        self.world_seeds = config.world_seeds or [derive_seed(seed, f"world {k}") for k in range(worlds)]
        self.world_of = torch.arange(n, device=device) // config.swarm * worlds // groups  # [N]
        self.voxels: VoxelWorld | None = None
        self.routes: Routes | None = None
        if config.map != "boxes" or config.needs_voxels:
            solids, offsets = build_solids(config, self.world_seeds)
            self.voxels = VoxelWorld.build(solids, device, config.backend)
            if config.map not in ("boxes", *GENERATORS):
                self.config = config = replace(config, map_half_m=half_side(solids))
        if config.goals not in GOALS:
            assert self.voxels is not None
            self.routes = read_routes(Path(config.goals), self.voxels, offsets, config, device)
        elif config.map != "boxes":
            self.routes = draw_routes(solids, self.world_seeds, config, device)
        seeds, half_m = self.world_seeds, config.map_half_m
        place_moving = partial(MovingObstacles, config.dyn, seeds, config.dt_s, half_m, device, config.backend)
        movers, kernels = run_beside(device, place_moving, self._compile_kernels)
        self.grid: WorldGrid | VoxelWorld
        if config.map == "boxes":
            self.grid = WorldGrid.generate(seeds, config.num_obstacles, config.lidar.range_m, half_m, device)
        else:
            assert self.voxels is not None
            self.grid = self.voxels
        self.movers = movers.result()
        self._contact: Lidar | None = None  # the beams that measure contact, if they are not those of the sensor
        self.lidar, self.drone = self._make_physics()
        self.sync_is_cheap &= self.lidar.backend == "native"  # the PyTorch form never branches on values, as on a GPU
        self.disturbance = Disturbance(config.disturbance, n, 3, seed, device)
        self.camera: Camera | None = None
        if config.camera.count:
            backend = pick_backend(device, config.backend)
            self.camera = Camera(config.camera, n, seed, device, backend)
            self._standing = Things.standing(self.grid, backend) if isinstance(self.grid, WorldGrid) else None
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
        if self.routes is not None:
            self.route = torch.zeros(n, self.routes.goals.shape[2], 3, device=device)  # the goals of this episode
            self.legs = torch.ones(n, dtype=torch.int64, device=device)  # how many they are
            self.leg = torch.zeros(n, dtype=torch.int64, device=device)  # the present one
            self.state_names = (*self.state_names, "route", "legs", "leg")
        self._parts = {"drone": self.drone, "movers": self.movers, "disturbance": self.disturbance}
        self.swarm: Swarm | None = None
        if config.swarm > 1:
            self.swarm = Swarm(config.swarm, n, config.body_radius_m, device, config.backend)
            self._parts["swarm"] = self.swarm

        beams = (1, config.lidar.azimuths, len(config.lidar.elevations_deg))
        beam_numbers = np.arange(1, 1 + int(np.prod(beams))).reshape(beams)
        # the beam of azimuth h is that of -h
        mirrored = beam_numbers[:, ::-1] if config.lidar.fov_deg < 360 else np.roll(beam_numbers[:, ::-1], 1, 1)
        self.observation_spec = {
            # its side is the velocity to the left of the line to the goal
            "state": Box((8,), mirror=(1, -2, 3, 4, 5, 6, -7, 8), side=6),
            "lidar": Box(beams, 0.0, config.lidar.range_m, mirror=tuple(mirrored.flatten().tolist())),
            "direction": Box((1, 3)),
        }
        if config.observe_moving:
            self.observation_spec["dynamic_obstacle"] = Box((1, NEAREST, len(SEEN_COLUMNS)), mirror=MIRRORED_ROWS)
        if self.camera is not None:
            self.observation_spec["camera"] = config.camera.spec
        if config.actions == "discrete":
            self.action_table = torch.tensor(list(product(config.discrete_speeds_mps, repeat=3)), device=device)
            self.action_spec = Discrete(len(self.action_table))
        else:
            self.action_spec = Box((3,), -config.max_speed_mps, config.max_speed_mps, mirror=(1, -2, 3))
        self.shield = None
        if config.shield:
            from slipstream.tasks.navigation.shield import EnvShield

            self.shield = self._parts["shield"] = EnvShield(self)
        wait([kernels])
        self.rules: Rules | None = None
        if config.terminate or config.observe or config.reward.own:
            self.rules = self._parts["rules"] = Rules(self)
            self.observation_spec |= self.rules.specs
        self.reset()

    def retire(self, mask: Tensor) -> None:
        """Take drones [N] out of their groups until they are reset: the others do not meet them."""
        if self.swarm is not None:
            self.swarm.gone.copy_(mask)

    def set_numbers(self, values: Mapping[str, Any]) -> None:
        """Change settings of `scheduled_settings`, which each step reads again."""
        self.config = config = with_values(self.config, values)
        self.movers.config = config.dyn
        self.disturbance.change(config.disturbance)
        if self.camera is not None:
            self.camera.config = config.camera

    def _compile_kernels(self) -> None:
        """Launch each Triton kernel once, in a thread of its own, for drones at one place of one or two worlds.

        A kernel is compiled at its first launch, and one after another they take seconds. One that fails here fails, or
        is compiled, at its next launch.
        """
        config, device = self.config, self.device
        if pick_backend(device, config.backend) != "triton" or config.map != "boxes" or config.lidar.is_partial:
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
        lidar: Lidar | VoxelLidar
        if isinstance(self.grid, VoxelWorld) or config.lidar.is_partial:
            assert self.voxels is not None
            lidar = VoxelLidar(config.lidar, self.voxels, self.world_of, config.body_radius_m)
        else:
            lidar = Lidar(config.lidar, self.grid, self.world_of, config.backend)
        of_contact = LidarConfig(config.lidar.range_m)
        if isinstance(self.grid, WorldGrid) and config.lidar != of_contact:  # the sensor does not change what a hit is
            self._contact = Lidar(of_contact, self.grid, self.world_of, config.backend)
        drone = self.num_envs, config.dt_s, self.device
        if config.drone is not None:
            return lidar, Quadrotor(*drone, Airframe.read(Path(config.drone)))
        return lidar, DYNAMICS[config.dynamics](*drone)

    # -- episodes ----------------------------------------------------------------------------------------------------

    def place(self, start: Tensor, goal: Tensor) -> Observation:
        """Start an episode of every drone at `start` [N, 3] with `goal` [N, 3], m. Returns the observation.

        With routes, `goal` may be [N, W, 3]: one goal after the other; the last one may be repeated.
        """
        everyone = torch.ones_like(self._pending)
        start, goal = start.to(self.device), goal.to(self.device)
        if goal.dim() == 3:
            again = (goal[:, 1:] == goal[:, :-1]).all(-1).flip(1).cumprod(1).sum(1)  # the last one, repeated
            self._set_route(everyone, goal, goal.shape[1] - again)
            goal = goal[:, 0]
        elif self.routes is not None:
            self._set_route(everyone, goal[:, None].expand_as(self.route), torch.ones_like(self.legs))
        self._begin(everyone, start, goal)
        self.clock.zero_()
        self._pending.zero_()
        return self._observe()

    def protocol_flights(self, drones: int) -> tuple[Tensor, Tensor]:
        """Return starts [K · drones, 3] and goals [K · drones, 3 or W, 3] of the evaluation, `drones` on each map.

        On map=boxes two rows on opposite sides, as NavRL; groups, and with goals=crossing all, fly from all sides
        through the middle. On other maps the first routes of each.
        """
        worlds = self.config.num_worlds
        if self.routes is None:
            config, half_m = self.config, self.config.map_half_m
            start, goal = evaluation_starts(drones, half_m)
            if config.swarm > 1 or config.goals == "crossing":
                start, goal = crossing_starts(drones, config.swarm, half_m)
            return start.repeat(worlds, 1), goal.repeat(worlds, 1)
        row = torch.arange(drones, device=self.device).repeat(worlds) % self.routes.start.shape[1]
        world_of = torch.arange(worlds, device=self.device).repeat_interleave(drones)
        start, goals, _ = self.routes.take(world_of, row)
        return start, goals

    def _reset(self, mask: Tensor) -> None:
        u = self._random.uniform(self.episode, 9)
        if self.routes is not None:
            row = (u[:, 0] * self.routes.start.shape[1]).long()
            start, goals, legs = self.routes.take(self.world_of, row)
            self._set_route(mask, goals, legs)
            self._begin(mask, start, goals[:, 0])
        else:
            goal = u[:, 4:8]
            if self.config.goals != "any":
                along, across = u[:, 4], (u[:, 1] + 0.5) % 1
                if self.config.goals == "crossing":
                    along = (1 - u[:, 0] + CROSSING_SPREAD * (along - 0.5)).clamp(0, 1)
                goal = torch.stack((along, across, u[:, 2], u[:, 7]), -1)
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

    def _set_route(self, mask: Tensor, goals: Tensor, legs: Tensor) -> None:
        self.route.copy_(torch.where(mask[:, None, None], goals, self.route))
        self.legs.copy_(torch.where(mask, legs, self.legs))
        self.leg.mul_(~mask)

    def _next_waypoint(self) -> None:
        """Fly on to the next goal where the present one is reached and is not the last."""
        at_goal = torch.linalg.vector_norm(self.goal - self.drone.pos, dim=-1) < self.config.goal_radius_m
        passed = at_goal & (self.leg + 1 < self.legs)
        self.leg.add_(passed)
        goal = self.route.gather(1, self.leg[:, None, None].expand(-1, 1, 3))[:, 0]
        self._aim(passed, self.goal.clone(), goal)

    def _aim(self, mask: Tensor, start: Tensor, goal: Tensor) -> Tensor:
        """Set the goal frame of a way from `start` to `goal` [N, 3]; return its heading [N, 2]."""
        col = mask[:, None]
        direction = goal - start
        direction[:, 2] = 0.0
        heading = heading_of(direction)
        band = torch.stack((torch.minimum(start[:, 2], goal[:, 2]), torch.maximum(start[:, 2], goal[:, 2])), -1)
        self.goal.copy_(torch.where(col, goal, self.goal))
        self.direction.copy_(torch.where(col, direction, self.direction))
        self.heading.copy_(torch.where(col, heading, self.heading))
        self.height_band.copy_(torch.where(col, band, self.height_band))
        return heading

    def _begin(self, mask: Tensor, start: Tensor, goal: Tensor) -> None:
        col, heading = mask[:, None], self._aim(mask, start, goal)
        self.drone.reset(mask, start, torch.atan2(heading[:, 1], heading[:, 0]))
        self.vel_before.mul_(~col)
        self.clock.mul_(~mask)
        self.reached.logical_and_(~mask)
        self.disturbance.reset(mask, self.episode)
        self.episode.add_(mask)
        if self.swarm is not None:
            self.swarm.gone.logical_and_(~mask)
        if self.rules is not None:
            self.rules.reset(mask)

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
        if self.shield is not None:
            action = self.shield.filter(action)
        if self.rules is not None:
            self.rules.action.copy_(action)
        command = to_world(self.disturbance.delay_action(action), self.heading)
        self.disturbance.update_wind(self.config.dt_s * self.config.decision_interval)
        if self.routes is not None and self.route.shape[1] > 1:
            self._next_waypoint()
        self.vel_before.copy_(self.drone.vel)
        self._advance_physics(command, self.config.decision_interval)
        self.clock.add_(self.config.decision_interval)

    def _advance_physics(self, command: Tensor, steps: int) -> None:
        """Take physics steps of drones and moving obstacles, which do not touch each other here."""
        for _ in range(steps):
            self.drone.advance(command, self.disturbance.variation)
        self.movers.advance(steps)

    def cast(self, pos: Tensor, rotation: Tensor, rays: Rays, range_m: float, world_of: Tensor | None = None) -> Tensor:
        """Return the distances [N, R] (m) along rays of the drones' cameras to all that is there."""
        swarm = self.swarm if world_of is None else None  # poses of their own are in no group
        world_of = self.world_of if world_of is None else world_of
        sensor = pos, rotation, rays, world_of, range_m
        if self._standing is None:
            assert self.voxels is not None
            distance = self.voxels.cast(pos, rotation, rays.table, world_of, range_m)
        else:
            distance = self._standing.cast(*sensor)
        if self.movers.count:
            moving = Things.moving(self.movers, pick_backend(self.device, self.config.backend))
            distance = torch.minimum(distance, moving.cast(*sensor))
        if swarm is not None:
            distance = torch.minimum(distance, swarm.cast(pos, rotation, rays, range_m))
        return distance

    def _observe(self) -> Observation:
        pos, vel, range_m = self.drone.pos, self.drone.vel, self.config.lidar.range_m
        yaw = self.drone.yaw
        if self.swarm is not None:
            self.swarm.see(pos, vel, self.clock * self.config.dt_s)
        distance, self._static_nearest, self._static_log_distance = self.lidar.measure(pos, yaw)
        if self._contact is not None:
            self._static_nearest = self._contact.measure(pos, yaw).nearest
        if self.config.lidar_sees_moving and self.movers.count:
            distance = torch.minimum(distance, self.lidar.scan_movers(pos, yaw, self.movers))
        if self.config.lidar_sees_moving and self.swarm is not None:
            others = self.swarm.cast(pos, level_rotation(yaw), self.lidar.rays, range_m)
            distance = torch.minimum(distance, others.view_as(distance))
        to_goal = self.goal - pos
        self._goal_distance = torch.linalg.vector_norm(to_goal, dim=-1)
        self._goal_direction = to_goal / self._goal_distance.clamp(min=1e-6)[:, None]
        goal_direction = to_goal_frame(self._goal_direction, self.heading)
        across = torch.linalg.vector_norm(to_goal[:, :2], dim=-1, keepdim=True)
        seen_vel = to_goal_frame(self.disturbance.velocity_reading(vel), self.heading)
        moving = self._observe_movers(pos)[:, None]
        self._seen = distance, moving[:, 0]
        distance = self.disturbance.lidar_reading(distance, range_m)
        if self.shield is not None:
            self.shield.see(distance, seen_vel, moving[:, 0], yaw)
        images = {}
        if self.camera is not None:
            self.depth = self.camera.depth(pos, self.drone.attitude, self.cast)
            images["camera"] = self.camera.read(self.depth, self.disturbance.clock)
        return {
            "state": torch.cat((goal_direction, across, to_goal[:, 2:], seen_vel), -1),
            "lidar": (range_m - distance)[:, None],
            "direction": self.direction[:, None].clone(),
            **({"dynamic_obstacle": moving} if self.config.observe_moving else {}),
            **images,
            **({} if self.rules is None else self.rules.observe()),
        }

    def _observe_movers(self, pos: Tensor) -> Tensor:
        """Return the nearest moving obstacles [N, 5, 10]; stores their clearances and hits for the outcome."""
        seen, of_sensor = None, (NEAREST, self.config.lidar.range_m, self.config.body_radius_m)
        if self.movers.count:
            seen = self.movers.sense(pos, self.heading, self.world_of, *of_sensor)
        if self.swarm is not None:
            others = self.swarm.sense_others(pos, self.heading, *of_sensor)
            self._drone_hit = others.hit
            seen = others if seen is None else nearest_of(seen, others)
        if seen is None:
            self._moving_clearance, self._moving_hit = None, torch.zeros_like(self._pending)
            return pos.new_zeros(self.num_envs, NEAREST, len(SEEN_COLUMNS))
        self._moving_clearance, self._moving_hit = seen.clearance, seen.hit
        return seen.rows

    def _outcome(self) -> Outcome:
        config, collided, at_goal = self.config, self._crashed(), self._at_goal()
        reached_now = at_goal & ~self.reached & ~collided
        self.reached.logical_or_(reached_now)
        timeout = self.clock >= config.max_episode_steps
        terms, terminated = self._reward_terms(collided, reached_now), collided
        info = {"success": self.reached, "collision": collided, "timeout": timeout & ~collided, "at_goal": at_goal}
        info |= {} if self.shield is None else {"shielded": self.shield.changed}
        info |= {} if self.swarm is None else {"drone_collision": self._drone_hit}
        if self.rules is not None:
            terms |= self.rules.reward_terms()
            info |= self.rules.add(terms, ~self._pending)
            if (ended := self.rules.terminated()) is not None:
                terminated, info["ended_by_rule"] = collided | ended, ended & ~collided
        truncated = (timeout | at_goal) if config.goal_ends_episode else timeout
        facts = {name: fact.float() for name, fact in info.items()}
        return Outcome(reduce(add, terms.values()), terminated, truncated, facts)

    def _at_goal(self) -> Tensor:
        """Return bool [N]: drones at their last goal."""
        at_goal = self._goal_distance < self.config.goal_radius_m
        return at_goal if self.routes is None else at_goal & (self.leg + 1 == self.legs)

    def _crashed(self) -> Tensor:
        """Return bool [N]: drones that collided or left the map, if that ends an episode."""
        return self._collided() | self._outside() if self.config.boundary == "terminate" else self._collided()

    def _collided(self) -> Tensor:
        """Return bool [N]: drones that touch something or are too low or too high."""
        z, config = self.drone.pos[:, 2], self.config
        touches = (self._static_nearest < config.body_radius_m) | self._moving_hit
        return touches | (z < config.min_height_m) | (z > config.max_height_m)

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

    def _reward_terms(self, collided: Tensor, reached_now: Tensor) -> dict[str, Any]:
        """Return the terms [N] of the reward of one step, by name; one that is the same for all is a number."""
        weights, vel, z = self.config.reward, self.drone.vel, self.drone.pos[:, 2]
        low, high = self.height_band.unbind(-1)
        height_excess = torch.maximum(z - high - HEIGHT_SLACK_M, low - HEIGHT_SLACK_M - z).clamp(min=0)
        terms: dict[str, Any] = {"speed": weights.speed * (vel * self._goal_direction).sum(-1), "alive": weights.alive}
        terms["static_clearance"] = weights.static_clearance * self._static_log_distance
        if self._moving_clearance is not None:
            clearance = self._moving_clearance.clamp(1e-6, self.config.lidar.range_m)
            terms["moving_clearance"] = weights.moving_clearance * clearance.log().mean(1)
        terms["smoothness"] = -weights.smoothness * torch.linalg.vector_norm(vel - self.vel_before, dim=-1)
        terms["height"] = -weights.height * height_excess.square()
        if weights.collision or weights.goal or weights.own:  # the terms beside own ones stay the same
            terms["collision"] = -weights.collision * collided.float()
            terms["goal"] = weights.goal * reached_now.float()
        return terms

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
            raise ValueError("the saved env has other worlds: build this one with its seed, num_worlds and world_seeds")
        if state["seed"] != self.seed:
            raise ValueError(f"the saved env has seed {state['seed']}, this one {self.seed}: build it with that seed")
        super().load_state_dict(state)


def evaluation_starts(num_drones: int, map_half_m: float = 20.0) -> tuple[Tensor, Tensor]:
    """Return starts and goals [N, 3] (m) of NavRL's evaluation: rows on opposite sides of the map."""
    edge, spread = map_half_m + START_MARGIN_M, 1.6 * map_half_m
    x = (torch.arange(num_drones) / num_drones - 0.5) * spread
    goal_x = torch.linspace(-0.5, 0.5, num_drones) * spread
    y, z = torch.full((num_drones,), edge), torch.full((num_drones,), 2.0)
    return torch.stack((x, y, z), -1), torch.stack((goal_x, -y, z), -1)


def crossing_starts(num_drones: int, size: int, map_half_m: float) -> tuple[Tensor, Tensor]:
    """Return starts and goals [N, 3] (m): the drones of each group of `size` start evenly around the map and fly to the
    opposite side; each group is turned a little further."""
    drone = torch.arange(num_drones)
    share = (drone % size / size + drone // size / num_drones) * 4  # of the way around the square, in sides
    side, along = share.long(), share % 1 - 0.5  # the middle half of each side: from a corner the time is too short
    onward = torch.tensor(((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)))  # on sides 0 to 3, and outward
    flat = (along[:, None] * onward[side] + onward[side - 1]) * (map_half_m + START_MARGIN_M)
    height = torch.full((num_drones, 1), 2.0)
    return torch.cat((flat, height), 1), torch.cat((-flat, height), 1)
