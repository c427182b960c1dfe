"""What a compiler made is compared with what it was made from, once, before it is trusted.

A kernel that fails is heard; one that is wrong is not, and a policy learns from it for hours. torch 2.11 wrote such a one for our
own env: nearly every frame of 64 drones was stored as a collision, while the drones flew on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from slipstream.collect.batch import Rows, Step
from slipstream.envs.base import TensorEnv
from slipstream.specs import Observation

_ROUNDING = 0.02  # two orders of the same sums, in bf16 too, differ by less than this, relative to 1 + |x|
_MOST_DIFFERENT = 0.02  # or a threshold is crossed, in so few of all numbers
_MOST_OFF = 0.1  # of a gradient's length; and a tenth of that of all gradients', since what nearly cancels out is rounding only


class Miscompiled(RuntimeError):
    """The compiled function gives other numbers than the plain one."""


class CheckedStep:
    """`made`, a compiled form of `plain`, a step of `env` written to rows: its first call is compared with two plain ones.

    What the plain step does not repeat itself, from the same state and random numbers, is not judged.
    """

    def __init__(self, plain: Step, made: Step, env: TensorEnv) -> None:
        self._plain, self._made, self._env = plain, made, env
        self._trusted = not env.can_go_back

    def __call__(self, observation: Observation, rows: Rows) -> None:
        """One step."""
        if self._trusted:
            self._made(observation, rows)
        else:
            self._compare(observation, rows)
            self._trusted = True

    def _compare(self, observation: Observation, rows: Rows) -> None:
        go_back = _bookmark(self._env)
        seen: list[list[Tensor]] = []
        for step in (self._plain, self._plain, self._made):
            go_back()
            step(observation, rows)
            seen.append([x.clone() for _, targets in rows for x in targets])
        for key, once, again, made in zip([key for keys, _ in rows for key in keys], *seen, strict=True):
            share = _differing(made, once)
            if share > _MOST_DIFFERENT and _differing(again, once) <= _MOST_DIFFERENT:
                raise Miscompiled(f"compiled, '{'.'.join(key)}' is another one in {share:.0%} of its numbers")


def compare_gradients(made: Sequence[Tensor], plain: Sequence[Tensor]) -> None:
    """Raises `Miscompiled` where a gradient or a loss is not the plain one, rounding aside."""
    lengths = [float(torch.linalg.vector_norm(x.float())) for x in plain]
    for i, (mine, theirs, length) in enumerate(zip(made, plain, lengths, strict=True)):
        off = float(torch.linalg.vector_norm((mine - theirs).float()))
        if math.isfinite(length) and not off <= _MOST_OFF * (length + 0.1 * math.hypot(*filter(math.isfinite, lengths))):
            raise Miscompiled(f"compiled, result {i} of {len(plain)} is off by {off:.3g} of {length:.3g}")


def _bookmark(env: TensorEnv) -> Callable[[], None]:
    """Takes `env` and the random numbers back to where they are now."""
    before = {name: x.clone() for name, x in env.state_tensors().items()}
    cuda = env.device.type == "cuda"
    host, device = torch.get_rng_state(), torch.cuda.get_rng_state(env.device) if cuda else None

    def go_back() -> None:
        for name, x in env.state_tensors().items():
            x.copy_(before[name])
        torch.set_rng_state(host)
        if device is not None:
            torch.cuda.set_rng_state(device, env.device)

    return go_back


def _differing(mine: Tensor, theirs: Tensor) -> float:
    """The share of numbers that are not the same, rounding aside."""
    if not mine.is_floating_point():
        return float((mine != theirs).float().mean())
    same = (mine - theirs).abs() <= _ROUNDING * (1 + theirs.abs())
    return 1 - float((same | (mine.isnan() & theirs.isnan())).float().mean())
