"""Trained policies as agents: one policy, a pool of past policies, and an opponent that mixes them with scripted
agents."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from slipstream.algorithms.policy_file import LoadedPolicy, load_policy
from slipstream.envs.specs import Observation
from slipstream.models.memory import MEMORY
from slipstream.models.policy import ActorCritic
from slipstream.tasks.aircombat.agents import BaseAgent, accepts_named, action_of, create_agent
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv

SHIPPED = Path(__file__).parents[1] / "weights" / "aircombat.pt.slip"


class LearnedAgent(BaseAgent):
    """Fly with a trained policy.

    Args:
        num_envs: the number of duels N.
        device: where the policy runs.
        checkpoint: a checkpoint or run folder (default: the policy shipped with the package).
        policy: used instead of a checkpoint.

    It takes the mean action, or samples one after `train()`. `time_scale` is the decision time of the policy's
    training, None if unknown; `loaded` is the file of the policy, None if one was given.
    """

    def __init__(
        self,
        num_envs: int = 1,
        device: torch.device | str = "cpu",
        checkpoint: str | Path | None = None,
        policy: ActorCritic | None = None,
    ) -> None:
        super().__init__(num_envs, device)
        self.sampled = False
        self.time_scale: float | None = None
        self.loaded: LoadedPolicy | None = None
        self.policy = policy or self._open(checkpoint)
        self._memory = torch.zeros(num_envs, self.policy.memory_size, device=self.device)

    @accepts_named
    @torch.no_grad()
    def act(self, observation: Observation) -> Tensor:
        """Return the policy's action [N, 3]."""
        policy = self.policy
        if policy.memory_size:
            observation = copy.copy(observation)  # not a plain dict: it has each number by its name, too
            observation[MEMORY] = self._memory
        features, after = policy.remember(observation)
        if after:
            self._memory.copy_(after[MEMORY])
        parameters = policy.distribution(features, observation)
        return policy.actor.sample(parameters) if self.sampled else policy.actor.mean(parameters)

    def reset(self, env_mask: Tensor | None = None) -> None:
        """Clear the policy's memory of the duels in the mask."""
        if self.policy.memory_size:
            self._memory.masked_fill_(torch.tensor(True) if env_mask is None else env_mask[:, None], 0.0)

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the policy's memory, if it has one."""
        return {MEMORY: self._memory} if self.policy.memory_size else {}

    def train(self) -> Self:
        """Sample actions."""
        self.sampled = True
        return self

    def eval(self) -> Self:
        """Take mean actions."""
        self.sampled = False
        return self

    def _open(self, path: str | Path | None) -> ActorCritic:
        loaded = load_policy(path or SHIPPED)
        self.loaded = replace(loaded, state={})  # which file, without its content
        if loaded.task != "aircombat":
            raise ValueError(f"{loaded.path} was trained for task={loaded.task}, not task=aircombat")
        trained = loaded.env_settings(AirCombatConfig(), ("time_scale",))  # the rest may name code
        self.time_scale = trained["time_scale"]
        policy = loaded.build(AirCombatEnv(1), self.device)  # an env for its specs only
        if not isinstance(policy, ActorCritic):
            name = loaded.state["config"]["algo"]["name"]
            raise ValueError(f"{loaded.path} holds a policy of algo={name}; agents need one of algo=ppo")
        return policy.requires_grad_(False)


class _Distribution(nn.Module):
    """A policy as a function from observations to the parameters of its action distribution."""

    def __init__(self, policy: ActorCritic) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observation: Observation) -> tuple[Tensor, ...]:
        return self.policy.distribution(self.policy.features(observation), observation)


NOT_ACTING = ("critic.", "value_norm.")  # the parts of a policy that do not act; a network's own layers may

Weights = dict[str, Tensor]


class PolicyPool:
    """`capacity` sets of weights of one network: each tensor is [capacity, ...]."""

    def __init__(self, template: ActorCritic, capacity: int) -> None:
        self.network = copy.deepcopy(template).requires_grad_(False).eval()
        self.network.bf16 = False
        self._distribution = _Distribution(self.network)
        weights = {name: x for name, x in self.network.state_dict().items() if not name.startswith(NOT_ACTING)}
        self.members = {name: x.new_zeros(capacity, *x.shape) for name, x in weights.items()}
        self.capacity = capacity
        self.device = next(iter(weights.values())).device

    @torch.no_grad()
    def put(self, member: int, policy: nn.Module) -> None:
        """Store a copy of the policy's weights as `member`."""
        state = policy.state_dict()
        for name, mine in self.members.items():
            mine[member].copy_(state[name])

    @torch.no_grad()
    def act(self, weights: Weights, observation: Observation, sampled: bool) -> Tensor:
        """Return the actions [N, dims] of policies with stacked `weights` [seats, ...], in one batched pass: the first
        N / seats duels belong to the first policy, and so on."""
        seats = len(next(iter(weights.values())))
        runs = {name: observation[name].unflatten(0, (seats, -1)) for name in self.network.keys}
        named = {f"policy.{name}": x for name, x in weights.items()}
        parameters = vmap(lambda w, seen: functional_call(self._distribution, w, (seen,)))(named, runs)
        parameters = tuple(x.flatten(0, 1) for x in parameters)
        return self.network.actor.sample(parameters) if sampled else self.network.actor.mean(parameters)

    def state_dict(self) -> Weights:
        """Return copies of the members."""
        return {name: x.clone() for name, x in self.members.items()}

    def load_state_dict(self, state: Weights) -> None:
        """Copy `state` into the members."""
        for name, mine in self.members.items():
            if mine.shape != state[name].shape:
                sizes = f"{len(state[name])} policies, this one {self.capacity}"
                raise ValueError(f"the saved pool has {sizes}: use the saved run's league.* settings")
            mine.copy_(state[name])


Seat = str | int  # a scripted agent by name, a member of the pool by number


class SeatedOpponent(BaseAgent):
    """Fly N duels with the agents of its seats, N / seats duels each.

    Every scripted agent and the pool act on all duels, and each duel uses the action of its seat: shapes are fixed. The
    weights of past policies are copied into place where seats change, so that captured graphs stay valid.
    """

    def __init__(self, names: Sequence[str], pool: PolicyPool, seats: int, num_envs: int, sampled: bool) -> None:
        super().__init__(num_envs, pool.device)
        if num_envs % seats:
            rule = f"must be a multiple of league.seats={seats}"
            raise ValueError(f"env.num_envs={num_envs} {rule}: choose another number of seats")
        self.names = tuple(names)
        self.pool, self.sampled = pool, sampled
        self.seats: list[Seat] = [self.names[0]] * seats
        self._scripted = [create_agent(name, num_envs, self.device) for name in names]
        self._weights = {name: x.new_zeros(seats, *x.shape[1:]) for name, x in pool.members.items()}
        # [seats]: the number of a scripted agent, or len(names) for the pool
        self._kind = torch.zeros(seats, dtype=torch.int64, device=self.device)
        self._uses_pool = self.device.type != "cpu"  # a captured step must not depend on the seats; on a CPU it may

    @torch.no_grad()
    def seat(self, who: Sequence[Seat]) -> None:
        """Seat one agent per seat; members of the pool with their present weights."""
        self.seats = list(who)
        kinds = [self.names.index(name) if isinstance(name, str) else len(self.names) for name in who]
        self._kind.copy_(torch.tensor(kinds))
        index = torch.tensor([0 if isinstance(name, str) else name for name in who], device=self.device)
        for name, mine in self._weights.items():
            mine.copy_(self.pool.members[name].index_select(0, index))
        self._uses_pool = self.device.type != "cpu" or any(not isinstance(name, str) for name in who)

    def act(self, observation: Observation) -> Tensor:
        """Return the action of each duel [N, 3], by the agent of its seat."""
        actions = [action_of(agent, observation) for agent in self._scripted]
        if self._uses_pool:
            actions.append(self.pool.act(self._weights, observation, self.sampled))
        duels, width = actions[0].shape
        kind = self._kind[:, None].expand(-1, duels // len(self._kind)).reshape(1, duels, 1)
        return torch.stack(actions).gather(0, kind.expand(-1, -1, width))[0]

    def reset(self, env_mask: Tensor | None = None) -> None:
        """Reset the scripted agents in the mask."""
        for agent in self._scripted:
            agent.reset(env_mask)

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the state of the scripted agents."""
        agents = zip(self.names, self._scripted, strict=True)
        return {f"{name}.{key}": x for name, agent in agents for key, x in agent.state_tensors().items()}
