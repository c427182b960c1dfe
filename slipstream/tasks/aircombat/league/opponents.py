"""SeatedOpponent: many agents as one. Each run of duels has a seat, and each seat an agent, scripted or of the pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from slipstream.envs.specs import Observation
from slipstream.tasks.aircombat.agents import BaseAgent, action_of, create_agent
from slipstream.tasks.aircombat.league.pool import PolicyPool, SeatedPolicies

Seat = str | int  # a scripted agent by its name, a member of the pool by its number


class SeatedOpponent(BaseAgent):
    """Flies N duels with the agents of its seats, N / seats duels each.

    Every scripted agent and the pool act on all duels, and each duel takes what its seat says: fixed shapes, whoever sits there.
    """

    def __init__(self, names: Sequence[str], pool: PolicyPool, seats: int, num_envs: int, sampled: bool) -> None:
        super().__init__(num_envs, pool.device)
        if num_envs % seats:
            raise ValueError(
                f"{num_envs} duels do not divide among league.seats={seats}: choose a divisor of env.num_envs"
            )
        self.names = tuple(names)
        self.sampled = sampled
        self.seats: list[Seat] = [self.names[0]] * seats
        self._scripted = [create_agent(name, num_envs, self.device) for name in names]
        self._policies = SeatedPolicies(pool, seats)
        self._kind = torch.zeros(
            seats, dtype=torch.int64, device=self.device
        )  # which scripted agent, or, beyond them, the pool
        self._asks_pool = self.device.type != "cpu"  # a captured step does the same whoever sits; on a CPU it need not

    def seat(self, who: Sequence[Seat]) -> None:
        """One agent a seat, the pool's members as they are now."""
        if len(who) != len(self.seats):
            raise ValueError(f"{len(who)} agents for {len(self.seats)} seats")
        self.seats = list(who)
        self._kind.copy_(
            torch.tensor([self.names.index(name) if isinstance(name, str) else len(self.names) for name in who])
        )
        self._policies.seat([0 if isinstance(name, str) else name for name in who])
        self._asks_pool = self.device.type != "cpu" or any(not isinstance(name, str) for name in who)

    def act(self, observation: Observation) -> Tensor:
        """The action of each duel [N, 3] by the agent of its seat."""
        actions = [action_of(agent, observation) for agent in self._scripted]
        if self._asks_pool:
            actions.append(self._policies.act(observation, self.sampled))
        duels, width = actions[0].shape
        kind = self._kind[:, None].expand(-1, duels // len(self._kind)).reshape(1, duels, 1)
        return torch.stack(actions).gather(0, kind.expand(-1, -1, width))[0]

    def reset(self, env_mask: Tensor | None = None) -> None:
        """New duels begin there, whoever flies them."""
        for agent in self._scripted:
            agent.reset(env_mask)

    def to(self, device: torch.device | str) -> Self:
        """Stays where its pool is."""
        if torch.device(device) != self.device:
            raise ValueError("the opponents of a league live where their pool does: build them on that device")
        return self

    def state_tensors(self) -> dict[str, Tensor]:
        """What the scripted agents remember."""
        agents = zip(self.names, self._scripted, strict=True)
        return {f"{name}.{key}": x for name, agent in agents for key, x in agent.state_tensors().items()}
