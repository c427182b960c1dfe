"""Parts that all adapters share: specs as Gymnasium spaces, checked actions, new seeds, and resets in the same step."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from slipstream.envs.base import BadActionError, StepRecord, TensorEnv
from slipstream.envs.specs import Box, Discrete, Hybrid, Observation, Spec

Arrays = dict[str, np.ndarray]  # observations by name
ROUNDING = 1e-3  # share of the span by which an action may exceed its bounds (rounding), as in TensorEnv


def to_space(spec: Spec) -> gymnasium.Space[Any]:
    """Return the Gymnasium space of one environment's observation or action."""
    if isinstance(spec, Discrete):
        return spaces.MultiDiscrete(np.full(spec.shape, spec.n)) if spec.shape else spaces.Discrete(spec.n)
    low, high = bounds_of(spec)
    return spaces.Box(low, high, spec.shape, numpy_dtype(spec.dtype))


@cache
def bounds_of(spec: Box | Hybrid) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds, of the spec's shape. A switch is in [-1, 1], on above 0."""
    dtype = numpy_dtype(spec.dtype)
    if isinstance(spec, Hybrid):
        ends = [*zip(spec.low, spec.high, strict=True), *[(-1.0, 1.0)] * spec.switches]
        low, high = np.array(ends, dtype).T
        return low, high
    return np.full(spec.shape, spec.low, dtype), np.full(spec.shape, spec.high, dtype)


def observation_space(env: TensorEnv) -> spaces.Dict:
    """Return the observation space of one environment: a Dict, by name."""
    return spaces.Dict({name: to_space(spec) for name, spec in env.observation_spec.items()})


def numpy_dtype(dtype: torch.dtype) -> Any:
    """Return the NumPy dtype of a torch dtype."""
    return torch.empty(0, dtype=dtype).numpy().dtype.type


def to_arrays(observation: Observation, copy: bool) -> Arrays:
    """Return the observation as arrays: on a CPU and without `copy`, views of the env's tensors."""
    return {name: to_array(tensor, copy) for name, tensor in observation.items()}


def row(arrays: Arrays, i: int) -> Arrays:
    """Return a copy of row `i` of the observation."""
    return {name: array[i, ...].copy() for name, array in arrays.items()}


def to_array(tensor: Tensor, copy: bool = False) -> np.ndarray:
    """Return the tensor as an array; on a CPU and without `copy`, the same memory."""
    array = tensor.detach().cpu().numpy()
    return array.copy() if copy and tensor.device.type == "cpu" else array


def one_sided(env: TensorEnv, adapter: str) -> TensorEnv:
    """Return `env`. Raises ValueError if both of its sides act."""
    if env.sides != 1:
        raise ValueError(f"{adapter} flies one side: build the env with sides=1, or use PettingZooEnv for both sides")
    return env


def to_action(env: TensorEnv, action: Any) -> Tensor:
    """Convert an array-like action [N, ...] or [2, N, ...] to the env's tensor. Raises, before the env moves, if it is
    bad."""
    spec = env.action_spec
    array = np.asarray(action)
    shape = (*env.batch_shape, *spec.shape)
    if array.shape != shape:
        raise ValueError(f"the action must have shape {list(shape)}, not {list(array.shape)}")
    if array.dtype.kind not in "fiu" or (isinstance(spec, Discrete) and array.dtype.kind == "f"):
        raise ValueError(f"the action must have dtype {numpy_dtype(spec.dtype).__name__}, not {array.dtype}")
    if isinstance(spec, Discrete):
        bad, bounds = (array < 0) | (array >= spec.n), f"in [0, {spec.n})"
    else:
        low, high = bounds_of(spec)
        slack = np.where(np.isfinite(high - low), ROUNDING * (high - low), ROUNDING)
        bad = ~((array >= low - slack) & (array <= high + slack) & np.isfinite(array))  # NaN compares false
        bounds = f"finite and in {_shown(low, high)}"
    if bad.any():
        where = tuple(np.argwhere(bad)[0][: len(env.batch_shape)])
        row = array[where]
        raise BadActionError(
            f"the action of environment {where[-1]} is {row.tolist()}; each number must be {bounds}. "
            "Clip it to the action space (gymnasium.wrappers.ClipAction); if it is NaN, look for NaN in the policy's weights."
        )
    tensor = torch.from_numpy(np.ascontiguousarray(array, numpy_dtype(spec.dtype)))
    return switched(spec, tensor.to(env.device))


def switched(spec: Spec, action: Tensor) -> Tensor:
    """Convert the switches of an action from signs to the env's 0 and 1."""
    if not isinstance(spec, Hybrid) or not spec.switches:
        return action
    real = len(spec.low)
    return torch.cat((action[..., :real], (action[..., real:] > 0).to(action.dtype)), -1)


def _shown(low: np.ndarray, high: np.ndarray) -> str:
    """Format bounds: [-1, 1], or [-1, 1] x [0, 1] x ... where components differ."""
    pairs = list(zip(low.ravel().tolist(), high.ravel().tolist(), strict=True))
    return " x ".join(f"[{a:g}, {b:g}]" for a, b in (pairs[:1] if len(set(pairs)) == 1 else pairs))


def reseeded(env: TensorEnv, seed: int) -> TensorEnv:
    """Return a new env of the same kind with another seed.

    Other arguments of its constructor (such as an opponent) are taken from attributes of the same names.
    """
    given: dict[str, Any] = {"num_envs": env.num_envs, "device": env.device, "seed": seed}
    kept = [name for name in inspect.signature(type(env)).parameters if name not in given]
    missing = [name for name in kept if not hasattr(env, name)]
    if missing:
        raise TypeError(f"{type(env).__name__} cannot be rebuilt: store its argument {missing[0]} as self.{missing[0]}")
    return type(env)(**given, **{name: getattr(env, name) for name in kept})


def step_and_reset(env: TensorEnv, action: Tensor) -> tuple[StepRecord, Observation, Tensor]:
    """Step, and reset ended environments at once. A step that ends an episode costs a second observation of all.

    Returns:
        The record with the final observations of ended environments, the next input of the policy, and `done` [N] bool.
    """
    record = env.step(action)
    done = record.terminated | record.truncated
    if not bool(done.any()):
        return record, record.observation, done
    record.info = {name: fact.clone() for name, fact in record.info.items()}  # the reset may overwrite them
    final = {name: tensor.clone() for name, tensor in record.observation.items()}
    fresh = env.reset(done)
    masks = {name: done.view(-1, *(1,) * (tensor.dim() - 1)) for name, tensor in fresh.items()}
    observation = {name: torch.where(masks[name], tensor, final[name]) for name, tensor in fresh.items()}
    record.observation = final
    return record, observation, done
