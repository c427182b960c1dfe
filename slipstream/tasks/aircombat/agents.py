"""Agents: whoever flies one side of N duels. The env asks its opponent; evaluations and leagues ask both.

An agent of your own is a subclass of `BaseAgent`; name it `my_package.my_module:MyAgent` wherever a name of ours would do.
The path of a checkpoint is a name as well: `slipstream.tasks.aircombat.league` flies it.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from slipstream.config.registry import built, named_class
from slipstream.envs.specs import Observation
from slipstream.tasks.aircombat.physics.duel_view import TIME_SCALE_S

COMMANDS = ("rudder", "throttle", "fire")  # the columns of an action


class BaseAgent(ABC):
    """Flies one side of N duels from what that side sees.

    `act` must neither wait for the device nor change shapes: it is part of the env's step, which may be captured as a CUDA graph.
    What an agent remembers from one decision to the next it keeps in tensors of its own, changed in place, and names in
    `state_tensors`.
    """

    def __init__(self, num_envs: int = 1, device: torch.device | str = "cpu") -> None:
        self.num_envs = num_envs
        self.device = torch.device(device)

    @abstractmethod
    def act(self, observation: Observation) -> Tensor | Mapping[str, Tensor]:
        """The action of each duel: [N, 3] (rudder, throttle, fire), or a mapping of the three names, each [N]."""

    def reset(self, env_mask: Tensor | None = None) -> None:  # noqa: B027 (most remember nothing)
        """Forgets the duels of the mask [N] (all by default): new ones begin there."""

    def to(self, device: torch.device | str) -> Self:
        """Moves what the agent keeps to a device."""
        self.device = torch.device(device)
        return self

    def train(self) -> Self:
        """Acts as in training from here on."""
        return self

    def eval(self) -> Self:
        """Acts as in evaluation from here on."""
        return self

    def state_tensors(self) -> dict[str, Tensor]:
        """What the next actions depend on besides the observation; saved with the env."""
        return {}


class PlaceholderAgent(BaseAgent):
    """Straight on at full throttle, and never fires."""

    def __init__(self, num_envs: int = 1, device: torch.device | str = "cpu") -> None:
        super().__init__(num_envs, device)
        self._action = torch.tensor([0.0, 1.0, 0.0], device=self.device)

    def act(self, observation: Observation) -> Tensor:
        """The same for every duel."""
        return self._action.expand(*observation["own"].shape[:-1], len(COMMANDS))

    def to(self, device: torch.device | str) -> Self:
        """Moves the action to a device."""
        self._action = self._action.to(device)
        return super().to(device)


class ShootingAgent(BaseAgent):
    """An agent that knows how long ago it last launched a missile. It sees that by the missiles it has left."""

    NEVER_S = math.inf

    def __init__(self, num_envs: int = 1, device: torch.device | str = "cpu") -> None:
        super().__init__(num_envs, device)
        self._left = torch.zeros(num_envs, device=self.device)  # [N] share of missiles left at the last decision
        self._launch_s = torch.full(
            (num_envs,), self.NEVER_S, device=self.device
        )  # [N] time left in the duel at the last launch

    def since_launch_s(self, observation: Observation) -> Tensor:
        """Seconds [N] since the last launch; very many before the first. To be asked once a decision."""
        left, time_s = observation["missiles_left"], observation["time_left"] * TIME_SCALE_S
        self._launch_s.copy_(torch.where(left < self._left, time_s, self._launch_s))
        self._left.copy_(left)
        return self._launch_s - time_s

    def reset(self, env_mask: Tensor | None = None) -> None:
        """Nothing was launched in the duels that begin."""
        mask = torch.ones_like(self._left, dtype=torch.bool) if env_mask is None else env_mask
        self._left.masked_fill_(mask, 0.0)
        self._launch_s.masked_fill_(mask, self.NEVER_S)

    def to(self, device: torch.device | str) -> Self:
        """Moves what it remembers."""
        self._left, self._launch_s = self._left.to(device), self._launch_s.to(device)
        return super().to(device)

    def state_tensors(self) -> dict[str, Tensor]:
        """When it last launched."""
        return {"left": self._left, "launch_s": self._launch_s}


class PursuitAgent(ShootingAgent):
    """Points at the enemy at full throttle and fires inside a share of its missile's reach, every `pause_s` seconds."""

    def __init__(
        self, num_envs: int = 1, device: torch.device | str = "cpu", share: float = 0.7, pause_s: float = 6.0
    ) -> None:
        super().__init__(num_envs, device)
        self.share, self.pause_s = share, pause_s

    def act(self, observation: Observation) -> Tensor:
        """Straight at the enemy."""
        ready = self.since_launch_s(observation) >= self.pause_s
        return command(steer(*enemy_bearing(observation)), wants_to_fire(observation, self.share) & ready)


class CrankAgent(ShootingAgent):
    """Fires inside a share of its missile's reach, then keeps the enemy 50° off its nose while that missile flies there.

    A missile that is `danger_s` away or less comes first: it turns its tail to that one until it has run out.
    """

    OFF_NOSE_RAD = math.radians(50)

    def __init__(
        self,
        num_envs: int = 1,
        device: torch.device | str = "cpu",
        share: float = 0.6,
        crank_s: float = 12.0,
        danger_s: float = 6.0,
    ) -> None:
        super().__init__(num_envs, device)
        self.share, self.crank_s, self.danger_s = share, crank_s, danger_s

    def act(self, observation: Observation) -> Tensor:
        """At the enemy; past it while a missile of its own is on the way; away from one that comes near."""
        sine, cosine = enemy_bearing(observation)
        bearing = torch.atan2(sine, cosine)
        cranked = bearing - torch.copysign(
            torch.full_like(bearing, self.OFF_NOSE_RAD), bearing
        )  # the enemy stays on the side it is on
        ready = self.since_launch_s(observation) >= self.crank_s
        threatened = comes(observation) & (observation["incoming_1_time_to_go"] * TIME_SCALE_S < self.danger_s)
        away = steer(-observation["incoming_1_bearing_sin"], -observation["incoming_1_bearing_cos"])
        rudder = torch.where(ready, steer(sine, cosine), (STEERING_GAIN * cranked).clamp(-1, 1))
        return command(torch.where(threatened, away, rudder), wants_to_fire(observation, self.share) & ready)


class EvadeAgent(BaseAgent):
    """Turns its tail to the nearest missile that comes, else to the enemy, at full throttle; never fires."""

    def act(self, observation: Observation) -> Tensor:
        """Away from the threat."""
        threatened = comes(observation)
        sine, cosine = enemy_bearing(observation)
        sine = torch.where(threatened, observation["incoming_1_bearing_sin"], sine)
        cosine = torch.where(threatened, observation["incoming_1_bearing_cos"], cosine)
        return command(steer(-sine, -cosine), torch.zeros_like(sine))


# -- what scripted agents are made of --------------------------------------------------------------------------------

STEERING_GAIN = 3.0  # rudder for an angle in rad: full from 19° on, and stable with decisions up to half a second apart
NOSE_ON_COS = math.cos(
    math.radians(30)
)  # a missile leaves along the nose: a turn right after the launch costs it speed


def enemy_bearing(observation: Observation) -> tuple[Tensor, Tensor]:
    """Sine and cosine [N] of the enemy's bearing off the nose."""
    return observation["enemy_bearing_sin"], observation["enemy_bearing_cos"]


def steer(sine: Tensor, cosine: Tensor) -> Tensor:
    """The rudder [N] that turns the nose to a bearing."""
    return (STEERING_GAIN * torch.atan2(sine, cosine)).clamp(-1, 1)


def comes(observation: Observation) -> Tensor:
    """Where [N] a missile is there and draws nearer."""
    return (observation["incoming_1_present"] > 0) & (observation["incoming_1_closing"] > 0)


def wants_to_fire(observation: Observation, share: float) -> Tensor:
    """Where [N] the enemy is before the nose and inside a share of the missile's reach."""
    near = observation["enemy_range"] < share * observation["enemy_r_max"]
    return near & (observation["enemy_bearing_cos"] > NOSE_ON_COS) & (observation["enemy_alive"] > 0)


def command(rudder: Tensor, fire: Tensor) -> Tensor:
    """The action [N, 3] at full throttle."""
    return torch.stack((rudder, torch.ones_like(rudder), fire.to(rudder.dtype)), -1)


AGENTS: dict[str, type[BaseAgent] | str] = {
    "placeholder": PlaceholderAgent,
    "pursuit": PursuitAgent,
    "crank": CrankAgent,
    "evade": EvadeAgent,
    "learned": "slipstream.tasks.aircombat.league.learned:LearnedAgent",  # by its import path, as one of yours: envs know of no policies
}


def make_agent(name: str, num_envs: int, device: torch.device | str = "cpu", **settings: Any) -> BaseAgent:
    """The agent of a name: one of AGENTS, `package.module:Class` of yours, or the path of a checkpoint or a run folder."""
    if is_checkpoint(name):
        settings["checkpoint"] = name
    return built(agent_class(name), num_envs=num_envs, device=device, **settings)


def agent_class(name: str) -> type[BaseAgent]:
    """The class of an agent's name; of a checkpoint's path that of `learned`."""
    return named_class(
        "learned" if is_checkpoint(name) else name, AGENTS, BaseAgent, "agent", "the path of a run folder or checkpoint"
    )


def is_checkpoint(name: str) -> bool:
    """Whether a name is rather a path."""
    return name not in AGENTS and (os.sep in name or name.endswith(".pt") or os.path.exists(name))


def action_of(agent: BaseAgent, observation: Observation) -> Tensor:
    """What an agent does in each duel [N, 3]; other shapes are refused, which copying would spread over the columns."""
    action = as_action(agent.act(observation))
    wanted = (*observation["own"].shape[:-1], len(COMMANDS))
    if action.shape != wanted:
        who = f"{type(agent).__name__}.act"
        raise ValueError(f"{who} gave actions of shape {list(action.shape)}, not {list(wanted)}: {', '.join(COMMANDS)}")
    return action


def as_action(given: Tensor | Mapping[str, Tensor]) -> Tensor:
    """What an agent gave as one tensor [..., 3], without its gradients."""
    if isinstance(given, Tensor):
        return given.detach()
    if not isinstance(given, Mapping):
        raise ValueError(
            f"an agent's act gives a tensor [N, 3] or a mapping of {', '.join(COMMANDS)}, not {type(given).__name__}"
        )
    missing = [name for name in COMMANDS if name not in given]
    if missing:
        raise ValueError(f"an action needs {', '.join(COMMANDS)}; there is no {missing[0]} among {', '.join(given)}")
    shapes = {name: list(given[name].shape) for name in COMMANDS}
    if len(set(map(str, shapes.values()))) > 1:
        raise ValueError(
            f"{', '.join(COMMANDS)} of an action must be [N] each, not {', '.join(map(str, shapes.values()))}"
        )
    return torch.stack([given[name].detach().to(torch.float32) for name in COMMANDS], -1)
