"""Rules of your own: functions of a `NavigationState` that pay a reward, end episodes, or are observed.

They are named by `env.reward.own`, `env.terminate` and `env.observe` as `my_module:function`. On a GPU they are part of
the captured rollout: `GraphedFunction` says what such a function may do. With one that cannot be captured the rollout
runs eagerly, and a message names its line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from slipstream.config import registry
from slipstream.config.help import ConfigError
from slipstream.envs.specs import Box, Observation

if TYPE_CHECKING:
    from slipstream.tasks.navigation.env import NavigationEnv

OWN = "own"  # the name of what a function returns without one


@dataclass(frozen=True)
class NavigationState:
    """What N drones do and meet after a step: the truth, without sensor noise. World axes: z up, the map around (0, 0).

    The tensors belong to the env: do not write them; they are valid until the function returns.
    """

    position: Tensor  # [N, 3] m, world
    velocity: Tensor  # [N, 3] m/s, world
    velocity_before: Tensor  # [N, 3] m/s, world, one decision before
    attitude: Tensor  # [N, 3, 3] from body axes (forward, left, up) to the world
    goal: Tensor  # [N, 3] m, world; of several waypoints the present one
    goal_distance: Tensor  # [N] m
    goal_direction: Tensor  # [N, 3] unit vector to the goal, world
    heading: Tensor  # [N, 2] unit vector of start → goal: the x axis of the goal frame, in which actions are
    distances: Tensor  # [N, azimuths, elevations] m, of the LiDAR's beams, at most its range
    nearest: Tensor  # [N] m to the nearest standing obstacle that the LiDAR meets; among voxels to the nearest of all
    obstacles: Tensor  # [N, 5, 10] the nearest moving obstacles, the columns of `dynamic_obstacle`
    time_s: Tensor  # [N] into the episode; env.random_clock begins the first ones late
    action: Tensor  # [N, 3] m/s, goal frame: the command of the last decision
    collision: Tensor  # [N] bool: hit something, too low or too high, or outside of env.boundary
    at_goal: Tensor  # [N] bool


class Rules:
    """The functions that a config names, and what they gave at the last step. The sums are part of the env's state."""

    def __init__(self, env: NavigationEnv) -> None:
        config, n = env.config, env.num_envs
        self._env = env
        self._reward = _load("env.reward.own", config.reward.own)
        self._terminate = _load("env.terminate", config.terminate)
        self._observe = _load("env.observe", config.observe)
        self.action = torch.zeros(n, 3, device=env.device)
        self.sums = torch.zeros(0, n, device=env.device)  # of each term since the start of the episode
        self.state_names = ("action", "sums")
        self.names: tuple[str, ...] = ()  # of the terms of the reward, the env's own among them
        env._observe()  # a state to find the names and shapes with
        self.specs = {name: Box(tuple(x.shape[1:])) for name, x in self.observe().items()}
        if taken := sorted(self.specs.keys() & env.observation_spec.keys()):
            raise ConfigError(f"env.observe={config.observe} gives {taken[0]}, which the env has: use another name")
        if self._reward is not None:
            given, own = env._reward_terms(self.state.collision, self.state.at_goal), self.reward_terms()
            if taken := sorted(given.keys() & own.keys()):
                given_name = f"env.reward.own={config.reward.own} gives a term {taken[0]}, which the env has"
                raise ConfigError(f"{given_name}: use another name (env.reward.{taken[0]}=0 turns that of the env off)")
            self.names = (*given, *own)
            self.sums = torch.zeros(len(self.names), n, device=env.device)
        self.terms = torch.zeros_like(self.sums)  # of the last step

    def see(self) -> None:
        """Keep the present state."""
        env = self._env
        distances, obstacles = env._seen
        self.state = NavigationState(
            position=env.drone.pos,
            velocity=env.drone.vel,
            velocity_before=env.vel_before,
            attitude=env.drone.attitude,
            goal=env.goal,
            goal_distance=env._goal_distance,
            goal_direction=env._goal_direction,
            heading=env.heading,
            distances=distances,
            nearest=env._static_nearest,
            obstacles=obstacles,
            time_s=env.clock * env.config.dt_s,
            action=self.action,
            collision=env._crashed(),
            at_goal=env._at_goal(),
        )

    def observe(self) -> Observation:
        """Return the observations of `env.observe`."""
        self.see()
        return self._named("env.observe", self._observe)

    def reward_terms(self) -> dict[str, Tensor]:
        """Return the terms [N] of `env.reward.own`."""
        found = self._named("env.reward.own", self._reward)
        for name, term in found.items():
            self._env._check_tensor(f"{name} of env.reward.own", term, (self._env.num_envs,), torch.float32)
        return found

    def terminated(self) -> Tensor | None:
        """Return which episodes [N] `env.terminate` ends."""
        if self._terminate is None:
            return None
        ended = self._terminate(self.state)
        self._env._check_tensor("env.terminate", ended, (self._env.num_envs,), torch.bool)
        return ended

    def add(self, terms: Mapping[str, Any], valid: Tensor) -> dict[str, Tensor]:
        """Add the terms of a step to the sums of the episodes; return these by name, for `info`."""
        if not self.names:
            return {}
        if tuple(terms) != self.names:
            raise ValueError(f"env.reward.own gave the terms {list(terms)}, not {list(self.names)} as before")
        for row, term in zip(self.terms, terms.values(), strict=True):
            row.copy_(torch.as_tensor(term, device=row.device))
        self.sums.add_(self.terms * valid)
        return {f"reward_{name}": row for name, row in zip(self.names, self.sums, strict=True)}

    def reset(self, mask: Tensor) -> None:
        """Forget the episodes of the masked environments."""
        self.action.mul_(~mask[:, None])
        self.sums.mul_(~mask)

    def _named(self, key: str, function: Callable[..., Any] | None) -> dict[str, Tensor]:
        """Return what a function gives, by name."""
        if function is None:
            return {}
        given = function(self.state)
        found = dict(given) if isinstance(given, Mapping) else {OWN: given}
        for name, x in found.items():
            if not isinstance(x, Tensor) or x.shape[:1] != (self._env.num_envs,) or not isinstance(name, str):
                what = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
                raise ValueError(f"{key} must return a tensor [N, …], or a dict of them by name, not {name}: {what}")
        return {name: x.float() for name, x in found.items()}


def _load(key: str, name: str | None) -> Callable[..., Any] | None:
    """Return the function that the user typed."""
    found = None if name is None else registry.load(name, f"{key}={name}")
    if name is not None and not callable(found):
        raise ConfigError(f"{key}={name}: {name.partition(':')[0]} has no function {name.partition(':')[2]}")
    return found
