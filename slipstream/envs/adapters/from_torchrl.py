"""TorchRL's environments for our collectors and algorithms: `FromTorchRL(env)` is a TensorEnv."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.data import Bounded, Categorical, OneHot, TensorSpec, Unbounded
from torchrl.envs import EnvBase
from torchrl.envs.batched_envs import BatchedEnvBase
from torchrl.envs.utils import step_mdp

from slipstream.envs.base import Outcome, TensorEnv
from slipstream.envs.specs import Box, Discrete, Observation, Spec

FINAL = "final "  # prefix of the observations before a reset, where resets happen in the same step


class FromTorchRL(TensorEnv):
    """A TorchRL env of batch size [] or [N] as a TensorEnv.

    The observation `("agents", "lidar")` is named `agents.lidar`. Float64 becomes float32. The state of the env is not
    saved: a resumed training starts new episodes.

    Args:
        env: the TorchRL env.
        seed: given to `env.set_seed`; not with `same_step`.
        keys: names of the observations to use; all by default.
        same_step: reset in the step that ends an episode, as TorchRL does, and pass actions on as they are. The
            observations before the reset are then named "final NAME".
    """

    def __init__(self, env: EnvBase, seed: int = 0, keys: list[str] | None = None, same_step: bool = False) -> None:
        if len(env.batch_size) > 1:
            raise ValueError(f"a TorchRL env must have the batch size [] or [N], not {list(env.batch_size)}")
        super().__init__(env.batch_size.numel(), env.device or "cpu", seed)
        self.torchrl, self.same_step = env, same_step
        self._single = not env.batch_size
        self._skips = isinstance(env, BatchedEnvBase)  # it can leave single environments out of a step
        if not same_step:
            env.set_seed(seed % 2**31)
        specs = {".".join(as_tuple(key)): (key, spec) for key, spec in env.observation_spec.items(True, True)}
        unknown = [name for name in keys or () if name not in specs]
        if unknown:
            raise ValueError(f"the env has no observation '{unknown[0]}' (there are: {', '.join(specs)})")
        self.keys = {name: as_tuple(key) for name, (key, _) in specs.items() if not keys or name in keys}
        self.observation_spec = {name: self._observation_spec(name, specs[name][1]) for name in self.keys}
        if same_step:
            self.observation_spec |= {FINAL + name: spec for name, spec in self.observation_spec.items()}
        self.action_spec, self._to_torchrl = self._action_spec(env.full_action_spec[env.action_key])
        self._root = self._record = env.fake_tensordict().exclude("next")
        self._reward = torch.zeros(self.num_envs, device=self.device)
        self._terminated = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        self._truncated = self._terminated.clone()

    def _transition(self, action: Tensor, resetting: Tensor) -> None:
        some = bool(resetting.any())
        if not (some and self._single):
            self._advance(action, ~resetting if some and self._skips else None)
        if self.same_step:
            resetting = self._terminated | self._truncated
        if bool(resetting.any()):
            self._reset(resetting)

    def _advance(self, action: Tensor, stepping: Tensor | None = None) -> None:
        root = self._root.copy()
        root.set(self.torchrl.action_key, self._to_torchrl(action))
        if stepping is not None:
            root.set("_step", stepping)
        stepped = self.torchrl.step(root)
        self._record = stepped["next"]
        reward = self._record.get(self.torchrl.reward_key)
        if reward.numel() != self.num_envs:
            raise ValueError(f"the reward of a step must be one number per environment, not {list(reward.shape)}")
        self._reward = reward.reshape(self.num_envs).float()
        self._terminated, self._truncated = (self._flag(name) for name in ("terminated", "truncated"))
        self._root = step_mdp(stepped).exclude("_step")

    def _reset(self, mask: Tensor) -> None:
        if bool(mask.all()):
            self._root = self.torchrl.reset()
        else:
            self._root.set("_reset", mask.reshape(self._root.get("done").shape))
            self._root = self.torchrl.reset(self._root).exclude("_reset")

    def _observe(self) -> Observation:
        found = {name: self._row(self._root, key, name) for name, key in self.keys.items()}
        if self.same_step:
            found |= {FINAL + name: self._row(self._record, key, name) for name, key in self.keys.items()}
        return found

    def _outcome(self) -> Outcome:
        return Outcome(self._reward, self._terminated, self._truncated & ~self._terminated, {})

    def step(self, action: Tensor) -> Any:
        """Step as `TensorEnv.step`; with `same_step` ended environments are reset already."""
        record = super().step(action)
        if self.same_step:
            self._pending.zero_()
        return record

    def _safe_action(self, action: Tensor) -> Tensor:
        return action if self.same_step else super()._safe_action(action)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the seed and start new episodes at the next step."""
        super().load_state_dict(state)
        self._pending.fill_(True)

    def _row(self, data: TensorDictBase, key: tuple[str, ...], name: str) -> Tensor:
        spec = self.observation_spec[name]
        return data.get(key).reshape(self.num_envs, *spec.shape).to(self.device, spec.dtype)

    def _flag(self, name: str) -> Tensor:
        """Return one of TorchRL's end flags as bool [N]; False if the env has no such flag, as some have no
        `truncated`."""
        flag = self._record.get(name, torch.zeros(self.num_envs, dtype=torch.bool))
        return flag.reshape(self.num_envs, -1).any(-1).to(self.device)

    def one_shape(self, spec: TensorSpec) -> tuple[int, ...]:
        """Return the shape of one environment."""
        return tuple(spec.shape) if self._single else tuple(spec.shape[1:])

    def _observation_spec(self, name: str, spec: TensorSpec) -> Spec:
        shape = self.one_shape(spec)
        if isinstance(spec, Categorical) and not isinstance(spec, OneHot) and not shape:
            return Discrete(int(spec.space.n))
        if spec.dtype is None or not isinstance(spec.dtype, torch.dtype):
            raise ValueError(f"observation '{name}' is no tensor: name those to use with keys")
        dtype = torch.float32 if spec.dtype.is_floating_point else spec.dtype
        low, high = _bounds(spec)
        return Box(shape, float(low.min()), float(high.max()), dtype)

    def _action_spec(self, spec: TensorSpec) -> tuple[Spec, Callable[[Tensor], Tensor]]:
        """Return our action spec, and a function that converts our actions [N, ...] to TorchRL's."""
        shape, full = self.one_shape(spec), tuple(spec.shape)
        if self.same_step:
            return Box(shape, dtype=spec.dtype), lambda action: action.reshape(full)
        if isinstance(spec, OneHot):
            count = int(spec.space.n)
            return Discrete(count), lambda a: nn.functional.one_hot(a, count).to(spec.dtype).reshape(full)
        if isinstance(spec, Categorical):
            return Discrete(int(spec.space.n)), lambda action: action.to(spec.dtype).reshape(full)
        if not isinstance(spec, Bounded | Unbounded) or not spec.dtype.is_floating_point:
            raise ValueError(f"actions must be one-hot, categorical or real, not {type(spec).__name__}")
        size = math.prod(shape)
        low, high = _bounds(spec)
        if low.isinf().all() and high.isinf().all():
            return Box((size,)), lambda action: action.to(spec.dtype).reshape(full)
        if not (low.isfinite().all() and high.isfinite().all()):
            raise ValueError("the actions have infinite bounds on some dimensions: bound all of them, or none")
        half, middle = (high - low) / 2, (high + low) / 2
        return Box((size,), -1.0, 1.0), lambda action: (action.reshape(full) * half + middle).to(spec.dtype)


def _bounds(spec: TensorSpec) -> tuple[Tensor, Tensor]:
    no_end = torch.tensor(torch.inf)
    space = None if isinstance(spec, Unbounded) else getattr(spec, "space", None)  # theirs ends at the largest number
    return getattr(space, "low", -no_end), getattr(space, "high", no_end)


def as_tuple(key: Any) -> tuple[str, ...]:
    """Return a key of a TensorDict as a tuple."""
    return (key,) if isinstance(key, str) else tuple(key)
