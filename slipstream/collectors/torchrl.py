"""TorchRL's envs and policies in our collectors.

The user keeps both as they are: batches have TorchRL's layout, so losses and training code that were written for
TorchRL read them unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor, nn
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType as TorchRLExploration
from torchrl.envs.utils import set_exploration_type

from slipstream.envs.adapters.from_torchrl import FINAL, FromTorchRL, as_tuple
from slipstream.models.exploration import ExplorationType, exploration_type

WRITTEN = "policy "  # prefix of what a TorchRL policy writes besides the action


class TensorDictPolicy(nn.Module):
    """A TorchRL policy (a module over TensorDicts) as a policy of our collectors: names in, names out."""

    def __init__(self, module: Callable[[TensorDictBase], TensorDictBase], env: FromTorchRL) -> None:
        super().__init__()
        self.module = module
        self.keys, self.action_key = env.keys, as_tuple(env.torchrl.action_key)
        self._shape, self._count = env.torchrl.batch_size, env.num_envs
        self._device = env.torchrl.device

    def forward(self, observation: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what the policy writes: `action`, and everything else under its dotted key."""
        data = TensorDict({}, self._shape, device=self._device)
        for name, key in self.keys.items():
            data.set(key, observation[name] if self._shape else observation[name][0])
        with set_exploration_type(TorchRLExploration[exploration_type().name]):
            data = self.module(data)
        seen = set(self.keys.values())
        written = {as_tuple(key): x for key, x in data.items(True, True) if as_tuple(key) not in seen}
        if self.action_key not in written:
            raise TypeError(f"the policy wrote no {self.action_key}, the action of the env: it wrote {list(written)}")
        names = {"action" if key == self.action_key else WRITTEN + ".".join(key): key for key in written}
        return {name: written[key] if self._shape else written[key][None] for name, key in names.items()}


def adapt(env: Any, policy: Any, postproc: Any) -> tuple[Any, Any, Any]:
    """Return env, policy and postproc with which a SyncDataCollector collects TorchRL's batches.

    Args:
        env: a TorchRL env of batch size [] or [N]; for another env everything is returned as it is.
        policy: a module over TensorDicts; None for random actions.
        postproc: the user's own, applied to batches in TorchRL's layout.
    """
    if not isinstance(env, EnvBase):
        return env, policy, postproc
    adapted = FromTorchRL(env, same_step=True)
    acting = TensorDictPolicy(env.rand_action if policy is None else policy, adapted)

    def deliver(batch: TensorDict) -> Any:
        data = torchrl_batch(batch, adapted)
        return data if postproc is None else postproc(data)

    return adapted, acting, deliver


def torchrl_batch(batch: TensorDict, env: FromTorchRL) -> TensorDict:
    """Return a batch [N, T] in TorchRL's layout: the env's and the policy's own keys, and `next`; the memory is
    shared."""
    data = TensorDict({}, batch.batch_size, device=batch.device)
    data.set(env.torchrl.action_key, batch["action"])
    for name in (name for name in batch.keys() if name.startswith(WRITTEN)):  # noqa: SIM118  a TensorDict
        data.set(tuple(name.removeprefix(WRITTEN).split(".")), batch[name])
    for name, key in env.keys.items():
        data.set(key, batch["observation", name])
        data.set(("next", *key), batch["next", "observation", FINAL + name])
    reward = env.one_shape(env.torchrl.full_reward_spec[env.torchrl.reward_key])
    data.set(("next", *as_tuple(env.torchrl.reward_key)), batch["reward"].reshape(*batch.batch_size, *reward))
    for name in ("terminated", "truncated", "done"):
        flag = batch[name].unsqueeze(-1)
        data.set(("next", name), flag)
        data.set(name, torch.zeros_like(flag))  # a step never starts from an ended episode
    return data


def exploration_of(kind: Any) -> Any:
    """Return our exploration type for TorchRL's; anything else unchanged."""
    if not isinstance(kind, TorchRLExploration):
        return kind
    name = {"DETERMINISTIC": "MEAN"}.get(kind.name, kind.name)
    if name not in ExplorationType.__members__:
        raise ValueError(f"exploration_type={kind.name} is not supported: use RANDOM, MEAN, MODE or DETERMINISTIC")
    return ExplorationType[name]
