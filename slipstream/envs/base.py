"""TensorEnv: the contract between an environment and everything that learns from it.

Auto-reset happens on the next step. The record that ends an episode holds its final observation; the following step
ignores the action, resets that environment, and is marked `valid=False`. So the observation at t + 1 is always the next
observation of step t, sensing runs once per step with fixed shapes, and nothing is stored twice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from slipstream.config.validation import check_range
from slipstream.envs.specs import Discrete, Hybrid, Observation, Spec


@dataclass
class StepRecord:
    """The result of one step of all N environments. Valid until the env's next step; clone what you keep.

    In an env with two acting sides, every [N] is [2, N].
    """

    observation: Observation  # each [N, ...]
    reward: Tensor  # [N] float32, 0 on invalid frames
    terminated: Tensor  # [N] bool: the episode reached a terminal state
    truncated: Tensor  # [N] bool: the episode was cut off; bootstrap from the final observation
    valid: Tensor  # [N] bool: False where this step only reset the environment
    info: dict[str, Tensor]  # each [N] float32, such as success; logged where an episode ends


@dataclass
class Outcome:
    """The return value of `TensorEnv._outcome`: reward and ends of the last step."""

    reward: Tensor  # [N] float32
    terminated: Tensor  # [N] bool
    truncated: Tensor  # [N] bool
    info: dict[str, Tensor]  # each [N]


class BadActionError(ValueError):
    """Actions were NaN, infinite or outside the action space."""


class TensorEnv(ABC):
    """N environments as batched tensors on one device.

    A subclass sets `observation_spec` and `action_spec`, and implements four methods, each over all N environments with
    fixed shapes and without host synchronization:

    - `_reset(mask)`: start a new episode where `mask` is True, leave the others unchanged (`torch.where`,
      `Tensor.copy_`);
    - `_advance(action)`: move every environment by one step;
    - `_observe()`: return the observation of the present state, a dict of [N, ...] tensors;
    - `_outcome()`: return reward and ends of the last step.

    An env that does a step and resets in one pass may override `_transition` instead of the first two.

    The constructor of a subclass takes (num_envs, device, seed, config); `Config` is the dataclass of its settings,
    which become the keys `env.*` of `slipstream train`.

    Args:
        num_envs: the number of environments N.
        device: of all tensors.
        seed: the root seed of the env.
    """

    Config: ClassVar[type[Any]]
    spec_settings: ClassVar[tuple[str, ...]] = ()  # of Config: those that observations and actions depend on
    episode_settings: ClassVar[dict[str, Any]] = {}  # of Config, for Gymnasium: episodes from their start, no two alike
    scheduled_settings: ClassVar[tuple[str, ...]] = ()  # of Config: those that `set_numbers` can change
    observation_spec: dict[str, Spec]
    action_spec: Spec
    state_names: tuple[str, ...] = ()  # the tensor attributes that make up the state
    sides: int = 1  # acting sides per environment; with 2, actions, observations and records are [2, N, ...]

    def __init__(self, num_envs: int, device: torch.device | str = "cpu", seed: int = 0) -> None:
        self.num_envs = num_envs
        check_range(self, "num_envs", minimum=1, maximum=1 << 24)  # more would fill the memory for minutes
        self.device = torch.device(device)
        self.seed = seed
        self.sync_is_cheap = self.device.type == "cpu"  # elsewhere reading a value waits for the device
        self._pending = torch.zeros(num_envs, dtype=torch.bool, device=self.device)  # ended at the last step
        self._bad_action = torch.zeros(num_envs, dtype=torch.bool, device=self.device)  # sticky until `check`

    def render(self, env_idx: int = 0) -> np.ndarray:
        """Return a picture of one environment, uint8 [height, width, 3]; a task may override it."""
        raise NotImplementedError(f"{type(self).__name__} draws no pictures: leave render_mode out")

    # -- public ------------------------------------------------------------------------------------------------------

    def reset(self, env_mask: Tensor | None = None) -> Observation:
        """Start new episodes now.

        Args:
            env_mask: [N] bool, the environments to reset (default: all). Their pending resets are cleared.

        Returns:
            The observation of all environments.
        """
        if env_mask is None:
            env_mask = torch.ones_like(self._pending)
        self._check_tensor("env_mask", env_mask, (self.num_envs,), torch.bool)
        self._reset(env_mask)
        self._pending.logical_and_(~env_mask)
        self.check_specs()
        observation = self._observe()
        self._check_observation(observation)
        return observation

    def retire(self, mask: Tensor) -> None:  # noqa: B027 (most are alone)
        """Take environments [N] out of the space that they share with others, until they are reset."""

    def set_numbers(self, values: Mapping[str, Any]) -> None:
        """Change settings, dotted, from `scheduled_settings`; the next step follows them."""
        raise NotImplementedError(f"{type(self).__name__} has no setting that can follow the training")

    def step(self, action: Tensor) -> StepRecord:
        """Move every environment by one step; those that ended at the last step are reset instead.

        Args:
            action: [N, ...] of `action_spec`. Bad values are replaced on the device; `check` raises for them.
        """
        action = self._safe_action(action)
        resetting = self._pending.clone()
        self._transition(action, resetting)
        observation = self._observe()
        self._check_observation(observation)
        outcome = self._outcome()
        reward, n = outcome.reward, (self.num_envs,)
        converts = isinstance(reward, Tensor) and not reward.is_floating_point()  # integers and booleans, to float32
        self._check_tensor("reward", reward, self.batch_shape, reward.dtype if converts else torch.float32)
        self._check_tensor("terminated", outcome.terminated, n, torch.bool)
        self._check_tensor("truncated", outcome.truncated, n, torch.bool)
        valid = ~resetting
        terminated = outcome.terminated & valid
        truncated = outcome.truncated & valid & ~terminated
        self._pending.copy_(terminated | truncated)
        reward = torch.where(resetting, 0.0, reward)
        if self.sides > 1:
            terminated, truncated, valid = (x.expand(self.batch_shape) for x in (terminated, truncated, valid))
        return StepRecord(observation, reward, terminated, truncated, valid, outcome.info)

    def check(self) -> None:
        """Raise BadActionError if an action since the last check was bad. Synchronizes with the device: call it once
        per iteration."""
        bad = self._bad_action.nonzero().flatten().tolist()
        if bad:
            self._bad_action.zero_()
            shown = ", ".join(map(str, bad[:8])) + (", ..." if len(bad) > 8 else "")
            raise BadActionError(
                f"the policy gave NaN, infinite or out-of-range actions in {len(bad)} of {self.num_envs} environments ({shown}); "
                "they were replaced and the env is still usable. Look for NaN in the weights or observations; then continue from earlier "
                "weights with a lower learning rate (slipstream train: init=CHECKPOINT algo.learning_rate=…), or clip your actions."
            )

    def check_specs(self) -> None:
        """Raise ValueError if a spec is empty: no network can be built for it."""
        for name, spec in {**self.observation_spec, "action": self.action_spec}.items():
            what = "the action" if spec is self.action_spec else f"observation {name!r}"
            if 0 in spec.shape or (isinstance(spec, Discrete) and spec.n < 1):
                raise ValueError(f"{what} of {type(self).__name__} is empty: {spec}. Leave it out, or give it a size")

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The leading dimensions of actions and observations: [N], or [2, N] with two acting sides."""
        return (self.num_envs,) if self.sides == 1 else (self.sides, self.num_envs)

    @property
    def bad_actions(self) -> Tensor:
        """The environments [N] with a bad action since the last check; still on the device."""
        return self._bad_action

    @property
    def supports_state_restore(self) -> bool:
        """Whether restoring `state_tensors()` undoes a step: an env that names state tensors must name all of them."""
        return len(self.state_tensors()) > 2  # more than the two of every env

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the tensors that make up the state, by name."""
        return {name: getattr(self, name) for name in ("_pending", "_bad_action", *self.state_names)}

    def state_dict(self) -> dict[str, Any]:
        """Return copies of everything that the next steps depend on."""
        return {"seed": self.seed, **{name: tensor.clone() for name, tensor in self.state_tensors().items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state`, bit for bit. Raises ValueError, before anything is changed, if it does not fit."""
        mine = self.state_tensors()
        for name, tensor in mine.items():
            if name not in state or state[name].shape != tensor.shape:
                raise ValueError(
                    f"the saved env has no {name} of shape {list(tensor.shape)}, as this one: build it with the num_envs and "
                    "world of the saved one"
                )
        for name, tensor in mine.items():
            tensor.copy_(state[name])
        self.seed = state["seed"]

    # -- implemented by a subclass -----------------------------------------------------------------------------------

    @abstractmethod
    def _reset(self, mask: Tensor) -> None:
        """Start a new episode where `mask` [N] is True."""

    @abstractmethod
    def _advance(self, action: Tensor) -> None:
        """Move every environment by one step."""

    @abstractmethod
    def _observe(self) -> Observation:
        """Return the observation of the present state."""

    @abstractmethod
    def _outcome(self) -> Outcome:
        """Return reward, ends and info of the last step."""

    # -- internal ----------------------------------------------------------------------------------------------------

    def _transition(self, action: Tensor, resetting: Tensor) -> None:
        """Step every environment; those of `resetting` [N] start a new episode instead."""
        self._advance(action)
        if not self.sync_is_cheap or bool(resetting.any()):
            self._reset(resetting)

    def _safe_action(self, action: Tensor) -> Tensor:
        """Return the action with bad values replaced on the device, and flag the environments that had them."""
        spec = self.action_spec
        self._check_shape(action)
        if isinstance(spec, Discrete):
            if action.is_floating_point() or action.dtype == torch.bool:
                raise ValueError(f"actions must be integers in [0, {spec.n}), not {action.dtype}")
            bad = (action < 0) | (action >= spec.n)
            safe = action.clamp(0, spec.n - 1).to(spec.dtype)  # indexing with uint8 would be a mask
        else:
            if not action.is_floating_point():
                raise ValueError(f"actions must be {spec.dtype}, not {action.dtype}")
            low, high, slack = self._bounds
            bad = ~torch.isfinite(action) | (action < low - slack) | (action > high + slack)
            safe = torch.nan_to_num(action, 0.0, 0.0, 0.0).clamp(low, high)
        bad = bad.reshape(*self.batch_shape, -1).any(-1)
        self._bad_action.logical_or_(bad if self.sides == 1 else bad.any(0))
        return safe

    def _check_shape(self, action: Tensor) -> None:
        shape = (*self.batch_shape, *self.action_spec.shape)
        if not isinstance(action, Tensor) or action.shape != shape:
            given = list(action.shape) if isinstance(action, Tensor) else type(action).__name__
            raise ValueError(f"action must be a torch tensor of shape {list(shape)}, not {given}")

    def _check_observation(self, observation: Observation) -> None:
        """Raise ValueError if the observation does not match `observation_spec`, from which networks are built."""
        if not isinstance(observation, Mapping):
            raise ValueError(f"_observe must return a dict of tensors, not {type(observation).__name__}")
        for name, (shape, dtype) in self._expected.items():
            self._check_tensor(name, observation.get(name), shape, dtype)

    def _check_tensor(self, name: str, x: Any, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        """Raise ValueError if a part of a step is not the tensor that it must be: it would be broadcast, or lose
        precision, silently."""
        if not isinstance(x, Tensor):
            given = "missing" if x is None else f"a {type(x).__name__}"
        elif x.shape == shape and x.dtype == dtype and x.device.type == self.device.type:
            return
        else:
            given = f"{x.dtype} {list(x.shape)} on {x.device}"
        spec = ", as its spec says" if name in self.observation_spec else ""
        raise ValueError(f"'{name}' must be a tensor: {dtype} {list(shape)} on {self.device}{spec}; it is {given}")

    @cached_property
    def _expected(self) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Shape and dtype of every observation."""
        return {name: ((*self.batch_shape, *spec.shape), spec.dtype) for name, spec in self.observation_spec.items()}

    @cached_property
    def _bounds(self) -> tuple[Any, Any, Any]:
        """Lower and upper bounds of continuous actions, and the excess that is accepted as rounding."""
        spec = self.action_spec
        if isinstance(spec, Hybrid):
            low, high = torch.tensor(spec.bounds, device=self.device).unbind(-1)
            return low, high, 1e-3 * (high - low)
        assert not isinstance(spec, Discrete)
        span = spec.high - spec.low
        return spec.low, spec.high, 1e-3 * span if math.isfinite(span) else 1e-3
