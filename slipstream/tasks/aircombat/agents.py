"""Agents fly one side of N duels. The env calls its opponent; evaluations and leagues call both sides.

An agent of your own is a subclass of `BaseAgent`. Use `my_package.my_module:MyAgent` wherever a built-in name is
accepted. The path of a checkpoint is accepted too; `slipstream.tasks.aircombat.league` flies it.
"""

from __future__ import annotations

import functools
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from slipstream.config.registry import named_class
from slipstream.envs.specs import Observation
from slipstream.sim.devices import Movable
from slipstream.sim.random import CounterRandom, derive_seed
from slipstream.storage.codec.images import with_aliases
from slipstream.tasks.aircombat.observation import TIME_SCALE_S, to_grouped

COMMANDS = ("rudder", "throttle", "fire")  # the columns of an action
STEERING_GAIN = 3.0  # rudder per rad: full from 19° on, and stable with decisions up to half a second apart
# A missile leaves along the nose; turning right after the launch costs it speed.
NOSE_ON_COS = math.cos(math.radians(30))

Action = Tensor | dict[str, Tensor]
AgentType = TypeVar("AgentType", bound="BaseAgent")


class BaseAgent(Movable, ABC):
    """Fly one side of N duels from the observation of that side.

    `act` runs inside the env's step, which may be captured as a CUDA graph: no host synchronization, fixed shapes.
    Memory from one decision to the next is kept in tensors that are changed in place and returned by `state_tensors`.

    Args:
        num_envs: the number of duels N.
        device: where the agent's tensors are.
    """

    def __init__(self, num_envs: int = 1, device: torch.device | str = "cpu") -> None:
        self.num_envs, device = in_our_order(num_envs, device)
        self.device = torch.device(device)

    @abstractmethod
    def act(self, observation: Observation) -> Tensor | Mapping[str, Tensor]:
        """Decide for every duel.

        Args:
            observation: of this side, see `observation.SideView`.

        Returns:
            [N, 3] (rudder in [-1, 1], throttle in [0, 1], fire above 0.5), or a mapping of `COMMANDS`, each [N].
        """

    def reset(self, env_mask: Tensor | None = None) -> None:  # noqa: B027 (most agents keep no memory)
        """Clear the memory of the duels in the mask [N] (default: all), where new duels begin."""

    def train(self) -> Self:
        """Act as in training."""
        return self

    def eval(self) -> Self:
        """Act as in evaluation."""
        return self

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the tensors that the next actions depend on besides the observation. They are saved with the env."""
        return {}


def accepts_named(act: Callable[[AgentType, Observation], Tensor]) -> Callable[[AgentType, Observation], Action]:
    """Let an agent's `act` also take the named observation of midrangeRL's loop ([N] each), and return a dict for
    it."""

    @functools.wraps(act)
    def wrapper(self: AgentType, observation: Observation) -> Action:
        if "own" in observation:
            return act(self, observation)
        rudder, throttle, fire = act(self, to_grouped(observation)).unbind(-1)
        return {"rudder": rudder, "throttle": throttle, "fire": fire > 0.5}

    return wrapper


class PlaceholderAgent(BaseAgent):
    """Fly straight at full throttle and never fire."""

    def __init__(self, num_envs: int = 1, device: torch.device | str = "cpu") -> None:
        super().__init__(num_envs, device)
        self._action = torch.tensor([0.0, 1.0, 0.0], device=self.device)

    @accepts_named
    def act(self, observation: Observation) -> Tensor:
        """Return the same action for every duel."""
        return self._action.expand(*observation["own"].shape[:-1], len(COMMANDS))


class ShootingAgent(BaseAgent):
    """Base of agents that remember their last launch, which they detect by the missiles left."""

    def __init__(self, num_envs: int = 1, device: torch.device | str = "cpu") -> None:
        super().__init__(num_envs, device)
        self._left = torch.zeros(num_envs, device=self.device)  # [N] share of missiles left at the last decision
        self._launch_s = torch.full((num_envs,), math.inf, device=self.device)  # [N] time left at the last launch

    def since_launch_s(self, observation: Observation) -> Tensor:
        """Return the seconds [N] since the last launch, infinite before the first. Call it once per decision."""
        left, time_s = observation["missiles_left"], observation["time_left"] * TIME_SCALE_S
        self._launch_s.copy_(torch.where(left < self._left, time_s, self._launch_s))
        self._left.copy_(left)
        return self._launch_s - time_s

    def reset(self, env_mask: Tensor | None = None) -> None:
        """Forget the launches of the duels in the mask."""
        mask = torch.ones_like(self._left, dtype=torch.bool) if env_mask is None else env_mask
        self._left.masked_fill_(mask, 0.0)
        self._launch_s.masked_fill_(mask, math.inf)

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the memory of the last launch."""
        return {"left": self._left, "launch_s": self._launch_s}


class PursuitAgent(ShootingAgent):
    """Point at the enemy at full throttle and fire inside a share of the missile's reach, at most every `pause_s`
    seconds."""

    share, pause_s = 0.7, 6.0  # of the reach; s

    @accepts_named
    def act(self, observation: Observation) -> Tensor:
        """Steer straight at the enemy."""
        ready = self.since_launch_s(observation) >= self.pause_s
        return command(steer(*enemy_bearing(observation)), wants_to_fire(observation, self.share) & ready)


class CrankAgent(ShootingAgent):
    """Fire inside a share of the missile's reach, then keep the enemy 50° off the nose while that missile flies.

    A missile that is `danger_s` away or less has priority: the agent turns its tail to it until it has run out.
    """

    off_nose_rad = math.radians(50)
    share, crank_s, danger_s = 0.6, 12.0, 6.0  # of the reach; s; s

    @accepts_named
    def act(self, observation: Observation) -> Tensor:
        """Steer at the enemy; past it while an own missile flies; away from a missile that comes near."""
        sine, cosine = enemy_bearing(observation)
        bearing = torch.atan2(sine, cosine)
        side = torch.ones_like(bearing).copysign(bearing)
        cranked = bearing - side * self.off_nose_rad  # keeps the enemy on the side where it is
        ready = self.since_launch_s(observation) >= self.crank_s
        threatened = is_threatened(observation) & (observation["incoming_1_time_to_go"] * TIME_SCALE_S < self.danger_s)
        away = steer(-observation["incoming_1_bearing_sin"], -observation["incoming_1_bearing_cos"])
        rudder = torch.where(ready, steer(sine, cosine), (STEERING_GAIN * cranked).clamp(-1, 1))
        return command(torch.where(threatened, away, rudder), wants_to_fire(observation, self.share) & ready)


class EvadeAgent(BaseAgent):
    """Turn the tail to the nearest incoming missile, else to the enemy, at full throttle; never fire."""

    @accepts_named
    def act(self, observation: Observation) -> Tensor:
        """Steer away from the threat."""
        threatened = is_threatened(observation)
        sine, cosine = enemy_bearing(observation)
        sine = torch.where(threatened, observation["incoming_1_bearing_sin"], sine)
        cosine = torch.where(threatened, observation["incoming_1_bearing_cos"], cosine)
        return command(steer(-sine, -cosine), torch.zeros_like(sine))


class ScriptedAgent(CrankAgent):
    """Fly a behavior that is drawn at random for every duel: when it shoots, cranks and defends, and how it weaves.

    A share of PASSIVE flies straight and never fires; a negative `share` of the reach means that it never fires. The
    draws depend on the duel's number and on how many duels it has had since `reset(None)`.
    """

    PASSIVE = 0.15
    DRAWN = {  # the limits of the numbers, [N] each
        "share": (-0.1, 0.9),
        "crank_s": (3.0, 20.0),
        "off_nose_rad": (0.0, math.radians(85)),
        "danger_s": (0.0, 15.0),
        "weave": (-0.4, 0.6),  # of the rudder; none below 0
        "weave_s": (4.0, 16.0),
        "throttle": (0.6, 1.2),  # full from 1 on
        "kind": (0.0, 1.0),  # passive below PASSIVE
    }

    def __init__(self, num_envs: int = 1, device: torch.device | str = "cpu") -> None:
        super().__init__(num_envs, device)
        self._duel = torch.zeros(self.num_envs, dtype=torch.int64)  # how many duels it has had
        self._drawn = torch.zeros(len(self.DRAWN), self.num_envs)
        self._limits = torch.tensor(list(self.DRAWN.values())).T[..., None]
        self.to(self.device).reset()

    def to(self, device: torch.device | str) -> Self:
        """Move the agent to a device."""
        self._random = CounterRandom([derive_seed(0, "scripted agent")], self.num_envs, device)
        return super().to(device)

    @accepts_named
    def act(self, observation: Observation) -> Tensor:
        """Fly as crank does, with the drawn numbers."""
        for name, number in zip(self.DRAWN, self._drawn, strict=True):
            setattr(self, name, number)
        weave, weave_s, throttle, kind = self._drawn[4:]
        rudder, _, fire = as_action(super().act(observation)).unbind(-1)
        phase = observation["time_left"] * (TIME_SCALE_S * math.tau) / weave_s
        rudder = (rudder + weave.clamp(min=0) * torch.sin(phase)).clamp(-1, 1)
        active = (kind >= self.PASSIVE).to(rudder.dtype)
        return torch.stack((rudder * active, throttle.clamp(max=1), fire * active), -1)

    def reset(self, env_mask: Tensor | None = None) -> None:
        """Draw the behavior of new duels; without a mask begin with those of the first duels again."""
        super().reset(env_mask)
        if env_mask is None:
            self._duel.zero_()
        mask = torch.ones_like(self._duel, dtype=torch.bool) if env_mask is None else env_mask
        low, high = self._limits
        drawn = low + (high - low) * self._random.uniform(self._duel, len(self.DRAWN)).T
        self._drawn.copy_(torch.where(mask, drawn, self._drawn))
        self._duel.add_(mask)

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the numbers of the running duels, and the memory of the last launch."""
        return super().state_tensors() | {"duel": self._duel, "drawn": self._drawn}


# -- building blocks of scripted agents ------------------------------------------------------------------------------


def enemy_bearing(observation: Observation) -> tuple[Tensor, Tensor]:
    """Return sine and cosine [N] of the enemy's bearing."""
    return observation["enemy_bearing_sin"], observation["enemy_bearing_cos"]


def steer(sine: Tensor, cosine: Tensor) -> Tensor:
    """Return the rudder [N] that turns the nose to a bearing."""
    return (STEERING_GAIN * torch.atan2(sine, cosine)).clamp(-1, 1)


def is_threatened(observation: Observation) -> Tensor:
    """Return where [N] a missile is present and closing."""
    return (observation["incoming_1_present"] > 0) & (observation["incoming_1_closing"] > 0)


def wants_to_fire(observation: Observation, share: float) -> Tensor:
    """Return where [N] the enemy is ahead and inside a share of the missile's reach."""
    near = observation["enemy_range"] < share * observation["enemy_r_max"]
    return near & (observation["enemy_bearing_cos"] > NOSE_ON_COS) & (observation["enemy_alive"] > 0)


def command(rudder: Tensor, fire: Tensor) -> Tensor:
    """Return the action [N, 3] at full throttle."""
    return torch.stack((rudder, torch.ones_like(rudder), fire.to(rudder.dtype)), -1)


# -- agents by name --------------------------------------------------------------------------------------------------

AGENTS: dict[str, type[BaseAgent] | str] = {
    "placeholder": PlaceholderAgent,
    "pursuit": PursuitAgent,
    "crank": CrankAgent,
    "evade": EvadeAgent,
    "straight": PlaceholderAgent,
    "scripted": ScriptedAgent,
    # by path: it imports the env, which imports us
    "learned": "slipstream.tasks.aircombat.league.policies:LearnedAgent",
}


def in_our_order(num_envs: Any, device: Any) -> tuple[int, torch.device | str]:
    """Return the number of duels and the device, also if they come in midrangeRL's order (device, number)."""
    return (num_envs, device) if isinstance(num_envs, int) else (device if isinstance(device, int) else 1, num_envs)


@with_aliases(agent_type="name")
def create_agent(name: str, num_envs: int = 1, device: torch.device | str = "cpu", **settings: Any) -> BaseAgent:
    """Build an agent.

    `create_agent(agent_type, device, num_envs)` of midrangeRL works too.

    Args:
        name: a name of AGENTS, `package.module:Class` of your own, or the path of a checkpoint or run folder.
        num_envs: the number of duels N.
        device: where the agent's tensors are.
        settings: further arguments of the agent's class.
    """
    num_envs, device = in_our_order(num_envs, device)
    if is_checkpoint(name):
        settings["checkpoint"] = name
    agent: BaseAgent = agent_class(name)(num_envs=num_envs, device=device, **settings)
    return agent


def agent_class(name: str) -> type[BaseAgent]:
    """Return the class of an agent's name; a checkpoint's path means `learned`, midrangeRL's rule_based `crank`."""
    name = "crank" if name in ("rule_based", "STG_rule_based") else name
    name = "learned" if is_checkpoint(name) else name
    return named_class(name, AGENTS, BaseAgent, "agent", ", the path of a run folder or checkpoint")


def is_checkpoint(name: str) -> bool:
    """Return whether an agent's name is a path."""
    return name not in AGENTS and (os.sep in name or name.endswith(".pt") or os.path.exists(name))


def action_of(agent: BaseAgent, observation: Observation) -> Tensor:
    """Return the agent's action [N, 3]. A wrong shape raises, because copying would broadcast it over the columns."""
    action = as_action(agent.act(observation))
    expected = (*observation["own"].shape[:-1], len(COMMANDS))
    if action.shape != expected:
        raise ValueError(f"{type(agent).__name__}.act gave actions of shape {list(action.shape)}, not {list(expected)}")
    return action


def as_action(given: Tensor | Mapping[str, Tensor]) -> Tensor:
    """Return an agent's action as one tensor [..., 3] without gradients."""
    if isinstance(given, Tensor):
        return given.detach()
    try:
        return torch.stack([given[name].detach().to(torch.float32) for name in COMMANDS], -1)
    except (TypeError, KeyError, IndexError, AttributeError, RuntimeError) as error:
        raise ValueError(
            f"an action must be a tensor [N, 3], or a mapping of {', '.join(COMMANDS)}, [N] each, not {_shapes(given)}"
        ) from error


def _shapes(given: Any) -> str:
    if not isinstance(given, Mapping):
        return type(given).__name__
    return ", ".join(f"{name} {list(getattr(x, 'shape', ()))}" for name, x in given.items())
