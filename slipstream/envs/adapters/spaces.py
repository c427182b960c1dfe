"""Our specs as Gymnasium's spaces, and actions from outside as tensors: checked before anything moves."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from slipstream.envs.base import BadActionError, TensorEnv
from slipstream.specs import Discrete, Observation, Spec

ROUNDING = 1e-3  # of the span: how far out of its bounds an action may lie and still be taken for rounding, as in TensorEnv


def to_space(spec: Spec) -> gymnasium.Space[Any]:
    """The space of one environment's observation or action."""
    if isinstance(spec, Discrete):
        return spaces.MultiDiscrete(np.full(spec.shape, spec.n)) if spec.shape else spaces.Discrete(spec.n)
    return spaces.Box(spec.low, spec.high, spec.shape, numpy_dtype(spec.dtype))


def observation_space(env: TensorEnv) -> spaces.Dict:
    """The observations of one environment, by name."""
    return spaces.Dict({name: to_space(spec) for name, spec in env.observation_spec.items()})


def numpy_dtype(dtype: torch.dtype) -> Any:
    """NumPy's name for a dtype of torch."""
    return torch.empty(0, dtype=dtype).numpy().dtype.type


def to_arrays(observation: Observation, copy: bool) -> dict[str, np.ndarray]:
    """The observation as arrays: views of the env's tensors where these lie on a CPU, unless they are to be copied."""
    return {name: to_array(tensor, copy) for name, tensor in observation.items()}


def to_array(tensor: Tensor, copy: bool = False) -> np.ndarray:
    """The tensor as an array; without `copy`, and on a CPU, it is the same memory."""
    array = tensor.detach().cpu().numpy()
    return array.copy() if copy and tensor.device.type == "cpu" else array


def sides_of(env: TensorEnv) -> int:
    """How many sides of it the caller flies: 2 where all its tensors are [2, N, ...], else 1."""
    return getattr(env, "sides", 1)


def one_sided(env: TensorEnv, adapter: str) -> TensorEnv:
    """`env`, which must be of one side."""
    if sides_of(env) != 1:
        raise ValueError(f"{adapter} flies one side: build the env with an opponent and sides=1, or use PettingZooEnv for both sides")
    return env


def to_action(env: TensorEnv, action: Any, batch: tuple[int, ...] | None = None) -> Tensor:
    """`action`, array-like [N, ...], as the tensor that `env` takes. One that is no action raises, and the env has not moved."""
    spec = env.action_spec
    array = np.asarray(action)
    shape = (*(batch or (env.num_envs,)), *spec.shape)
    if array.shape != shape:
        raise ValueError(f"the action must have shape {list(shape)}, not {list(array.shape)}")
    if array.dtype.kind not in "fiu" or (isinstance(spec, Discrete) and array.dtype.kind == "f"):
        raise ValueError(f"the action must be of numbers like {numpy_dtype(spec.dtype).__name__}, not {array.dtype}")
    if isinstance(spec, Discrete):
        bad = (array < 0) | (array >= spec.n)
        bounds = f"in [0, {spec.n})"
    else:
        span = spec.high - spec.low
        slack = ROUNDING * span if math.isfinite(span) else ROUNDING
        bad = ~((array >= spec.low - slack) & (array <= spec.high + slack) & np.isfinite(array))  # NaN compares false
        bounds = f"finite and in [{spec.low:g}, {spec.high:g}]"
    if bad.any():
        where = np.argwhere(bad)[0]
        raise BadActionError(
            f"the action of environment {where[0]} is {array[where[0]].tolist()}; each number must be {bounds}. "
            "Clip it to the action space (gymnasium.wrappers.ClipAction); if it is NaN, look for NaN in the policy's weights."
        )
    tensor = torch.from_numpy(np.ascontiguousarray(array, numpy_dtype(spec.dtype)))
    return tensor.to(env.device)
