"""PolicyPool: past selves as stacked weights on the device, and seats from which many of them fly in one batched pass."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from slipstream.envs.specs import Observation
from slipstream.models.policy import ActorCritic

ACTING = ("encoder.", "actor.")  # the parts of a policy that act; its critic is left out

Weights = dict[str, Tensor]


class PolicyPool:
    """`capacity` sets of weights of one network: each tensor is [capacity, ...]."""

    def __init__(self, template: ActorCritic, capacity: int) -> None:
        self.network = copy.deepcopy(template).requires_grad_(False).eval()
        self.network.bf16 = False
        weights = {name: x for name, x in self.network.state_dict().items() if name.startswith(ACTING)}
        self.members = {name: x.new_zeros(capacity, *x.shape) for name, x in weights.items()}
        self.capacity = capacity
        self.device = next(iter(weights.values())).device

    @torch.no_grad()
    def put(self, member: int, policy: nn.Module) -> None:
        """Keeps a copy of the policy's weights as `member`."""
        state = policy.state_dict()
        for name, mine in self.members.items():
            mine[member].copy_(state[name])

    def state_dict(self) -> Weights:
        """The members, as copies."""
        return {name: x.clone() for name, x in self.members.items()}

    def load_state_dict(self, state: Weights) -> None:
        """Takes over `state`, in place."""
        for name, mine in self.members.items():
            if mine.shape != state[name].shape:
                raise ValueError(
                    f"the saved pool holds {len(state[name])} policies, this one {self.capacity}: keep league.* as it was"
                )
            mine.copy_(state[name])


class SeatedPolicies:
    """Members of a pool who fly: the duels are cut into `seats` runs of equal length, each flown by one member.

    One pass of matrix products over stacked weights, whoever the members are. Who sits where changes by copying in place, so
    that a captured step follows.
    """

    def __init__(self, pool: PolicyPool, seats: int) -> None:
        self.pool = pool
        self.seats = seats
        self._network = _Distribution(pool.network)
        self._seated = {name: x.new_zeros(seats, *x.shape[1:]) for name, x in pool.members.items()}

    @torch.no_grad()
    def seat(self, members: Sequence[int]) -> None:
        """Lets these members fly as they are now, one a seat."""
        index = torch.tensor(list(members), device=self.pool.device)
        for name, mine in self._seated.items():
            mine.copy_(self.pool.members[name].index_select(0, index))

    @torch.no_grad()
    def act(self, observation: Observation, sampled: bool) -> Tensor:
        """The actions [N, dims] of those who sit: the first N / seats duels are the first seat's, and so on."""
        actor = self.pool.network.actor
        runs = {name: observation[name].unflatten(0, (self.seats, -1)) for name in self.pool.network.keys}
        weights = {f"policy.{name}": x for name, x in self._seated.items()}
        parameters = vmap(lambda w, seen: functional_call(self._network, w, (seen,)))(weights, runs)
        parameters = tuple(x.flatten(0, 1) for x in parameters)
        return actor.sample(parameters) if sampled else actor.mean(parameters)


class _Distribution(nn.Module):
    """A policy as a function of observations to the parameters of its actions' distribution."""

    def __init__(self, policy: ActorCritic) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observation: Observation) -> tuple[Tensor, ...]:
        return self.policy.distribution(self.policy.features(observation), observation)
