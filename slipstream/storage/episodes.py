"""Where a batch has the rewards and ends of its steps, and which rows are the same, bit for bit."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.storage.schema import Key, show

END_KEYS: tuple[Key, ...] = (("terminated",), ("truncated",), ("done",))
REWARD: Key = ("reward",)
VALID: Key = ("valid",)
OUTCOMES: tuple[Key, ...] = (REWARD, *END_KEYS)


def rows_differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return bool [n]: which rows of `a` and `b`, [n, ...] of one shape and dtype, differ in any bit (NaN equals
    NaN)."""
    if not len(a):
        return np.zeros(0, bool)
    a, b = (np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8) for x in (a, b))
    words = np.int64 if a.shape[1] % 8 == 0 else np.uint8
    return (a.view(words) != b.view(words)).any(1)


def same_bits(a: Tensor, b: Tensor, axes: int) -> Tensor:
    """Return bool, of the first `axes` axes: where two tensors of one shape and dtype are equal in every bit (NaN
    too)."""
    bits = (x.contiguous().unsqueeze(-1).view(torch.uint8).flatten(axes) for x in (a, b))
    return torch.eq(*bits).all(-1)


def find_outcomes(keys: Container[Key]) -> dict[Key, Key]:
    """Return under which of `keys` the reward and the flags of each step are: {("reward",): ("next", "reward")}.

    TorchRL has them under "next"; its flags at the top are those before the step.
    """
    under_next = [key for key in OUTCOMES if ("next", *key) in keys]
    before = END_KEYS if set(under_next) & set(END_KEYS) else ()
    at_top = {key: key for key in OUTCOMES if key in keys and key not in before}
    return at_top | {key: ("next", *key) for key in under_next}


def outcomes_at_top(flat: dict[Key, Any]) -> dict[Key, Any]:
    """Return the keys with the outcome of each step at the top, see `find_outcomes`."""
    under_next = {key: name for key, name in find_outcomes(flat).items() if key != name}
    if not under_next:
        return flat
    if REWARD in under_next and REWARD in flat:
        raise KeyError("there are 'reward' and ('next', 'reward'): leave out the one that is not of this step")
    ends_too = under_next.keys() != {REWARD}
    moved = {key: value for key, value in flat.items() if not (ends_too and key in END_KEYS)}
    for key, name in under_next.items():
        moved[key] = moved.pop(name)
    return moved


def find_ends(flags: Mapping[Key, Any], check: bool = True) -> tuple[Any, Any] | None:
    """Return (ended, terminated) of some of the flags `done`, `terminated` and `truncated`: bool arrays or tensors of
    one shape. Without flags return None.

    Without `terminated`, an end that is not `truncated` is a termination.

    Raises:
        ValueError: if `check`, and the flags contradict each other.
    """
    terminated, truncated, done = (flags.get(key) for key in END_KEYS)
    given = [flag for flag in (terminated, truncated, done) if flag is not None]
    if not given:
        return None
    ended = functools.reduce(operator.or_, given)
    if check and done is not None:
        known = functools.reduce(operator.or_, given[:-1], done & ~done)
        wrong = done ^ known if len(given) == 3 else known & ~done
        if wrong.any():
            raise ValueError(
                f"'done' contradicts {' or '.join(show(key) for key in END_KEYS[:2] if key in flags)} in {int(wrong.sum())} steps: "
                "done must be terminated | truncated"
            )
    if terminated is None:
        terminated = truncated & ~ended if done is None else done if truncated is None else done & ~truncated
    return ended, terminated


def read_flags(flat: Mapping[Key, Any], keys: Iterable[Key], shape: Sequence[int]) -> dict[Key, Tensor]:
    """Return those of the flags `keys` that `flat` has, as bool tensors of `shape`."""
    flags = {}
    for key in (key for key in keys if key in flat):
        value = torch.as_tensor(flat[key])
        if value.numel() != math.prod(shape):
            expected = f"{list(shape)} or {[*shape, 1]}"
            raise ValueError(f"{show(key)} has the shape {list(value.shape)}: give one value per step, {expected}")
        if value.is_floating_point() and value.isnan().any():
            raise ValueError(f"{show(key)} holds NaN: give True or False for each step")
        flags[key] = value.reshape(tuple(shape)) != 0
    return flags
