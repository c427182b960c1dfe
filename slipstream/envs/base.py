"""TensorEnv: the one contract between a simulated world and everything that learns from it.

Auto-reset comes on the next step. The record that ends an episode holds its final observation; the step that follows
ignores the action, resets that environment, and its frame is marked `valid=False`. So the observation at t + 1 is always
the next observation of step t, sensing runs once a step with fixed shapes, and nothing is stored twice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from slipstream.envs.specs import Discrete, Hybrid, Observation, Spec


@dataclass
class StepRecord:
    """What one step of all N environments gave. The tensors belong to the env and live until its next step.

    Where an env has two sides that act, every [N] is [2, N].
    """

    observation: Observation  # each [N, ...]
    reward: Tensor  # [N] float32, 0 on invalid frames
    terminated: Tensor  # [N] bool: the episode ended for good, nothing follows
    truncated: Tensor  # [N] bool: the episode was cut; a value beyond it exists
    valid: Tensor  # [N] bool: False where this step only reset the environment
    info: dict[str, Tensor]  # each [N] float32; read where an episode ends (success, collision, ...)


@dataclass
class Outcome:
    """What `TensorEnv._outcome` says of the state just reached."""

    reward: Tensor  # [N] float32
    terminated: Tensor  # [N] bool
    truncated: Tensor  # [N] bool
    info: dict[str, Tensor]  # each [N]


class BadActionError(ValueError):
    """The policy gave actions that are not numbers, or are out of the action space."""


class TensorEnv(ABC):
    """N environments as batched tensors on one device.

    A subclass sets `observation_spec` and `action_spec`, and writes four steps, each over all N environments with fixed
    shapes and without reading a tensor back to the host:

    - `_reset(mask)`: draw a new episode where `mask` is True, leave the others alone (`torch.where`, `Tensor.copy_`);
    - `_advance(action)`: move every environment by one step;
    - `_observe()`: the observation of the present state, a dict of [N, ...] tensors;
    - `_outcome()`: reward and end of the step that led here.

    An env whose hot loop does it all in one pass may write `_transition` instead of the first two.

    The constructor of a subclass takes (num_envs, device, seed, config); `Config` names the dataclass of its settings,
    which become the keys `env.*` of `slipstream train`.
    """

    Config: ClassVar[type[Any]]
    episode_settings: ClassVar[dict[str, Any]] = {}  # of Config, for Gymnasium: episodes from their start, no two alike
    observation_spec: dict[str, Spec]
    action_spec: Spec
    state_names: tuple[str, ...] = ()  # the attributes that make up the state, tensors all
    sides: int = 1  # that act in one environment; with 2, actions, observations and records are [2, N, ...]

    def __init__(self, num_envs: int, device: torch.device | str = "cpu", seed: int = 0) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, not {num_envs}")
        self.num_envs = num_envs
        self.device = torch.device(device)
        self.seed = seed
        self.sync_is_cheap = self.device.type == "cpu"  # elsewhere reading a value back waits for the device
        self._pending = torch.zeros(num_envs, dtype=torch.bool, device=self.device)  # ended at the last step
        self._bad_action = torch.zeros(num_envs, dtype=torch.bool, device=self.device)  # sticky until `check`
        self._observation_checked = False  # against the spec: once, at the first reset

    # -- what users call ---------------------------------------------------------------------------------------------

    def reset(self, env_mask: Tensor | None = None) -> Observation:
        """Starts a new episode at once in the masked environments (all by default) and clears their pending resets."""
        if env_mask is None:
            env_mask = torch.ones_like(self._pending)
        elif not isinstance(env_mask, Tensor):
            raise ValueError(
                f"env_mask must be a bool tensor of shape [{self.num_envs}], not {type(env_mask).__name__}"
            )
        elif env_mask.shape != (self.num_envs,) or env_mask.dtype != torch.bool:
            raise ValueError(
                f"env_mask must be bool of shape [{self.num_envs}], not {env_mask.dtype} {list(env_mask.shape)}"
            )
        self._reset(env_mask)
        self._pending.logical_and_(~env_mask)
        observation = self._observe()
        if not self._observation_checked:
            self._check_observation(observation)
            self._observation_checked = True
        return observation

    def step(self, action: Tensor) -> StepRecord:
        """Moves every environment one step; those that ended before it are reset instead."""
        action = self._safe_action(action)
        resetting = self._pending.clone()
        self._transition(action, resetting)
        observation = self._observe()
        outcome = self._outcome()
        valid = ~resetting
        terminated = outcome.terminated & valid
        truncated = outcome.truncated & valid & ~terminated
        self._pending.copy_(terminated | truncated)
        reward = torch.where(resetting, 0.0, outcome.reward)
        if self.sides > 1:
            terminated, truncated, valid = (x.expand(self.batch_shape) for x in (terminated, truncated, valid))
        return StepRecord(observation, reward, terminated, truncated, valid, outcome.info)

    def check(self) -> None:
        """Raises if an action since the last check was not a number (the one read-back; call it once an iteration)."""
        bad = self._bad_action.nonzero().flatten().tolist()
        if bad:
            self._bad_action.zero_()
            shown = ", ".join(map(str, bad[:8])) + (", ..." if len(bad) > 8 else "")
            raise BadActionError(
                f"the policy gave NaN, infinite or out-of-range actions in {len(bad)} of {self.num_envs} environments ({shown}); "
                "they flew a safe action instead and the env is still usable. Look for NaN in the weights or observations; then go on from "
                "earlier weights with a lower learning rate (slipstream train: init=CHECKPOINT algo.learning_rate=…), or clip your actions."
            )

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """What stands before an action's or observation's own shape: [N], or [2, N] where two sides act."""
        return (self.num_envs,) if self.sides == 1 else (self.sides, self.num_envs)

    @property
    def bad_actions(self) -> Tensor:
        """Where [N] an action since the last check was not a number or out of range; still on the device."""
        return self._bad_action

    @property
    def supports_state_restore(self) -> bool:
        """Whether putting `state_tensors()` back takes back a step: an env that names tensors as its state names all of them."""
        return len(self.state_tensors()) > 2  # those of every env

    def state_tensors(self) -> dict[str, Tensor]:
        """The tensors that make up the state, by name."""
        return {name: getattr(self, name) for name in ("_pending", "_bad_action", *self.state_names)}

    def state_dict(self) -> dict[str, Any]:
        """All that the next steps depend on, as copies."""
        return {"seed": self.seed, **{name: tensor.clone() for name, tensor in self.state_tensors().items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from `state`, bit for bit; a state that does not fit is refused before anything is written."""
        mine = self.state_tensors()
        for name, tensor in mine.items():
            if name not in state:
                raise ValueError(f"the saved env has no {name}: build this one with the same settings as the saved one")
            if tensor.shape != state[name].shape:
                raise ValueError(
                    f"the saved env has {name} of shape {list(state[name].shape)}, this one {list(tensor.shape)}: "
                    "build it with the same num_envs and world as the saved one"
                )
        for name, tensor in mine.items():
            tensor.copy_(state[name])
        self.seed = state["seed"]

    # -- what a subclass writes --------------------------------------------------------------------------------------

    @abstractmethod
    def _reset(self, mask: Tensor) -> None:
        """Draws a new episode where `mask` [N] is True."""

    @abstractmethod
    def _advance(self, action: Tensor) -> None:
        """Moves every environment by one step."""

    @abstractmethod
    def _observe(self) -> Observation:
        """The observation of the present state."""

    @abstractmethod
    def _outcome(self) -> Outcome:
        """Reward, ends and episode facts of the state just reached."""

    # -- inside ------------------------------------------------------------------------------------------------------

    def _transition(self, action: Tensor, resetting: Tensor) -> None:
        """One step of every environment; those of `resetting` [N] begin a new episode instead."""
        self._advance(action)
        if not self.sync_is_cheap or bool(resetting.any()):
            self._reset(resetting)

    def _safe_action(self, action: Tensor) -> Tensor:
        """The action with bad values replaced on the device; a sticky flag remembers where they were."""
        spec = self.action_spec
        self._check_shape(action)
        if isinstance(spec, Discrete):
            if action.is_floating_point() or action.dtype == torch.bool:
                raise ValueError(f"this env takes integer actions in [0, {spec.n}), not {action.dtype}")
            bad = (action < 0) | (action >= spec.n)
            safe = action.clamp(0, spec.n - 1).to(spec.dtype)  # a uint8 index would be taken for a mask
        else:
            if not action.is_floating_point():
                raise ValueError(f"this env takes {spec.dtype} actions, not {action.dtype}")
            low, high, slack = self._bounds
            bad = ~torch.isfinite(action) | (action < low - slack) | (action > high + slack)
            safe = torch.nan_to_num(action, 0.0, 0.0, 0.0).clamp(low, high)
        bad = bad.reshape(*self.batch_shape, -1).any(-1)
        self._bad_action.logical_or_(bad if self.sides == 1 else bad.any(0))
        return safe

    def _check_shape(self, action: Tensor) -> None:
        if not isinstance(action, Tensor):
            raise ValueError(
                f"action must be a torch tensor, not {type(action).__name__}: give torch.as_tensor(action)"
            )
        if action.shape != (*self.batch_shape, *self.action_spec.shape):
            raise ValueError(
                f"action must have shape {[*self.batch_shape, *self.action_spec.shape]}, not {list(action.shape)}"
            )

    def _check_observation(self, observation: Observation) -> None:
        """Refuses what the networks built from the spec could not take."""
        if not isinstance(observation, Mapping):
            raise ValueError(
                f"_observe must give a dict of tensors, by name as in observation_spec, not {type(observation).__name__}"
            )
        for name, spec in self.observation_spec.items():
            given = observation.get(name)
            if not isinstance(given, Tensor):
                what = "none of this name" if given is None else f"a {type(given).__name__}"
                raise ValueError(
                    f"observation {name!r}: the spec says a tensor {list(spec.shape)}, _observe gave {what}"
                )
            batch, one = given.shape[: len(self.batch_shape)], given.shape[len(self.batch_shape) :]
            if batch != self.batch_shape:
                raise ValueError(
                    f"observation {name!r} must have shape {[*self.batch_shape, *spec.shape]}, not {list(given.shape)}"
                )
            if one != spec.shape:
                raise ValueError(f"observation {name!r}: the spec says {list(spec.shape)}, _observe gave {list(one)}")
            if given.dtype != spec.dtype:
                raise ValueError(f"observation {name!r}: the spec says {spec.dtype}, _observe gave {given.dtype}")

    @cached_property
    def _bounds(self) -> tuple[Any, Any, Any]:
        """Lower and upper bounds of real actions, and how far beyond them is rounding and no offence."""
        spec = self.action_spec
        if isinstance(spec, Hybrid):
            low, high = torch.tensor(spec.bounds, device=self.device).unbind(-1)
            return low, high, 1e-3 * (high - low)
        assert not isinstance(spec, Discrete)
        span = spec.high - spec.low
        return spec.low, spec.high, 1e-3 * span if math.isfinite(span) else 1e-3
