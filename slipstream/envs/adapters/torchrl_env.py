"""TorchRL: N environments as `EnvBase`, with tensors on the env's own device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torchrl.data import Binary, Bounded, Categorical, Composite, TensorSpec, Unbounded
from torchrl.envs import EnvBase

from slipstream.envs.adapters.spaces import bounds_of, one_sided, reseeded, switched
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Discrete, Observation, Spec


class TorchRLEnv(EnvBase):
    """A TensorEnv for TorchRL's collectors and losses. Observations are under ("observation", name), as in our own
    batches.

    TorchRL itself resets ended environments, with `_reset` masks, before the env would on its next step. The infos that
    `info` names, such as ("success", "collision"), are under ("info", name), zero at a reset.
    """

    batch_locked = True

    def __init__(self, env: TensorEnv, info: Sequence[str] = ()) -> None:
        n = one_sided(env, "TorchRLEnv").num_envs
        super().__init__(device=env.device, batch_size=torch.Size([n]))
        self.env = env
        self.info_names = tuple(info)
        self._checks_each_step = env.device.type == "cpu"  # elsewhere it would synchronize: call env.check() yourself
        shape = torch.Size([n])
        seen = Composite({name: self._to_spec(spec) for name, spec in env.observation_spec.items()}, shape=shape)
        observation = Composite(observation=seen, shape=shape)
        if info:
            facts = {name: Unbounded((n,), device=env.device) for name in self.info_names}
            observation["info"] = Composite(facts, shape=shape)
        self.observation_spec = observation
        self.action_spec = self._to_spec(env.action_spec)
        self.reward_spec = Unbounded((n, 1), device=env.device)
        flag = Binary(1, (n, 1), dtype=torch.bool, device=env.device)
        flags = {name: flag.clone() for name in ("done", "terminated", "truncated")}
        self.done_spec = Composite(flags, shape=shape)

    def _to_spec(self, spec: Spec) -> TensorSpec:
        shape, device = (self.env.num_envs, *spec.shape), self.env.device
        if isinstance(spec, Discrete):
            return Categorical(spec.n, shape, device, spec.dtype)
        low, high = (torch.as_tensor(bound.copy(), device=device).expand(shape) for bound in bounds_of(spec))
        if bool((low == -torch.inf).all()) and bool((high == torch.inf).all()):
            return Unbounded(shape, device, spec.dtype)
        return Bounded(low, high, shape, device, spec.dtype)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: object) -> TensorDict:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        observation = self.env.reset(None if mask is None else mask.view(-1))
        return self._result(observation, None)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        record = self.env.step(switched(self.env.action_spec, tensordict["action"]))
        if self._checks_each_step:
            self.env.check()
        result = self._result(record.observation, record.info)
        for name in ("reward", "terminated", "truncated"):
            result[name] = getattr(record, name).clone()[:, None]
        result["done"] = (record.terminated | record.truncated)[:, None]
        return result

    def _result(self, observation: Observation, info: dict[str, Tensor] | None) -> TensorDict:
        """Return a copy of the observation: a rollout keeps it beyond the env's next step."""
        content = {"observation": {name: tensor.clone() for name, tensor in observation.items()}}
        if self.info_names:
            zeros = torch.zeros(self.batch_size, device=self.device)
            facts = dict.fromkeys(self.info_names, zeros) if info is None else info
            unknown = [name for name in self.info_names if name not in facts]
            if unknown:
                known = ", ".join(sorted(facts))
                raise ValueError(f"{type(self.env).__name__} has no info {', '.join(unknown)}: its infos are {known}")
            content["info"] = {name: facts[name].clone() for name in self.info_names}
        return TensorDict(content, self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self.env = reseeded(self.env, seed)
