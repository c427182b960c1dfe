"""N environments as TorchRL's `EnvBase`: tensors in, tensors out, on the env's own device."""

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
    """A TensorEnv for TorchRL's collectors and losses. Observations lie under ("observation", name), as in our own batches.

    TorchRL resets what has ended itself, with `_reset` masks; the env's own reset on the next step never comes to pass. The
    env's facts that `info` names, as ("success", "collision"), lie under ("info", name), zero at a reset.
    """

    batch_locked = True

    def __init__(self, env: TensorEnv, info: Sequence[str] = ()) -> None:
        n = one_sided(env, "TorchRLEnv").num_envs
        super().__init__(device=env.device, batch_size=torch.Size([n]))
        self.env = env
        self.info_names = tuple(info)
        self._checks_each_step = (
            env.device.type == "cpu"
        )  # elsewhere a look at the flag waits for the device: call env.check() yourself
        shape = torch.Size([n])
        seen = Composite({name: self._to_spec(spec) for name, spec in env.observation_spec.items()}, shape=shape)
        observation = Composite(observation=seen, shape=shape)
        if info:
            facts = {name: Unbounded((n,), device=env.device) for name in self.info_names}
            observation["info"] = Composite(facts, shape=shape)
        self.observation_spec = observation
        self.action_spec = self._to_spec(env.action_spec)
        self.reward_spec = Unbounded((n, 1), device=env.device)
        flags = {
            name: Binary(1, (n, 1), dtype=torch.bool, device=env.device) for name in ("done", "terminated", "truncated")
        }
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
        return self._told(observation, None)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        record = self.env.step(switched(self.env.action_spec, tensordict["action"]))
        if self._checks_each_step:
            self.env.check()
        told = self._told(record.observation, record.info)
        told["reward"] = record.reward.clone()[:, None]
        told["terminated"] = record.terminated.clone()[:, None]
        told["truncated"] = record.truncated.clone()[:, None]
        told["done"] = (record.terminated | record.truncated)[:, None]
        return told

    def _told(self, observation: Observation, info: dict[str, Tensor] | None) -> TensorDict:
        """The observation, copied: a rollout keeps it beyond the env's next step."""
        seen = {name: tensor.clone() for name, tensor in observation.items()}
        content: dict[str, object] = {"observation": TensorDict(seen, self.batch_size, device=self.device)}
        if self.info_names:
            content["info"] = self._facts(info)
        return TensorDict(content, self.batch_size, device=self.device)

    def _facts(self, info: dict[str, Tensor] | None) -> TensorDict:
        if info is None:
            return TensorDict(
                {name: torch.zeros(self.batch_size) for name in self.info_names}, self.batch_size, device=self.device
            )
        unknown = [name for name in self.info_names if name not in info]
        if unknown:
            raise ValueError(
                f"{type(self.env).__name__} tells no {', '.join(unknown)}: its infos are {', '.join(sorted(info))}"
            )
        return TensorDict({name: info[name].clone() for name in self.info_names}, self.batch_size, device=self.device)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self.env = reseeded(self.env, seed)
