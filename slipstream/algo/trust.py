"""What a compiler made is compared with what it was made from, once, before it is trusted.

A kernel that fails is heard; one that is wrong is not, and a policy learns from it for hours. torch 2.11 wrote such a one for our
own env: nearly every frame of 64 drones was stored as a collision, while the drones flew on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from slipstream.specs import Observation

Rows = list[tuple[list[tuple[str, ...]], list[Tensor]]]  # keys of a frame, and the memory they are written to
Step = Callable[[Observation, Rows], None]  # of all environments, from what they show, written to rows

_ROUNDING = 0.02  # two orders of the same sums, in bf16 too, differ by less than this, relative to 1 + |x|
_MOST_DIFFERENT = 0.02  # or a threshold is crossed, in so few of all numbers
_FAR_APART = 6.0  # standard errors between two means
_MOST_OFF = 0.1  # of a gradient's length; and a tenth of that of all gradients', since what nearly cancels out is rounding only


class Miscompiled(RuntimeError):
    """The compiled function gives other numbers than the plain one."""


class Env(Protocol):
    """What a comparison needs of an env: `TensorEnv` has it."""

    device: torch.device
    can_go_back: bool

    def state_tensors(self) -> dict[str, Tensor]:
        """The tensors that make up the state, by name."""


class CheckedStep:
    """`made`, a compiled form of `plain`, a step of `env` written to rows: its first call is compared with two plain ones.

    A compiler may draw random numbers of its own, or in another order. What is another one with other random numbers in the plain
    step too is judged by its mean over the environments; what even so differs from one plain step to the next is not judged.
    """

    def __init__(self, plain: Step, made: Step, env: Env) -> None:
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
        for step, draw_again in ((self._plain, False), (self._plain, False), (self._made, True)):
            go_back(draw_again)
            step(observation, rows)
            seen.append([x.clone() for _, targets in rows for x in targets])
        for key, once, otherwise, made in zip([key for keys, _ in rows for key in keys], *seen, strict=True):
            share = _differing(made, once)
            if share <= _MOST_DIFFERENT:
                continue
            name = ".".join(key)
            if _differing(otherwise, once) <= _MOST_DIFFERENT:
                raise Miscompiled(f"compiled, '{name}' is another one in {share:.0%} of its numbers")
            if _means_apart(made, once) > _FAR_APART >= _means_apart(otherwise, once):
                mine, theirs = (float(x.float().mean()) for x in (made, once))
                raise Miscompiled(f"compiled, '{name}' has a mean of {mine:.3g}, not {theirs:.3g}")


def compare_gradients(made: Sequence[Tensor], plain: Sequence[Tensor]) -> None:
    """Raises `Miscompiled` where a gradient or a loss is not the plain one, rounding aside."""
    lengths = [float(torch.linalg.vector_norm(x.float())) for x in plain]
    for i, (mine, theirs, length) in enumerate(zip(made, plain, lengths, strict=True)):
        off = float(torch.linalg.vector_norm((mine - theirs).float()))
        if math.isfinite(length) and not off <= _MOST_OFF * (length + 0.1 * math.hypot(*filter(math.isfinite, lengths))):
            raise Miscompiled(f"compiled, result {i} of {len(plain)} is off by {off:.3g} of {length:.3g}")


def _bookmark(env: Env) -> Callable[[bool], None]:
    """Takes `env` back to where it is now, and the random numbers too if asked to."""
    before = {name: x.clone() for name, x in env.state_tensors().items()}
    cuda = env.device.type == "cuda"
    host, device = torch.get_rng_state(), torch.cuda.get_rng_state(env.device) if cuda else None

    def go_back(random_numbers: bool) -> None:
        for name, x in env.state_tensors().items():
            x.copy_(before[name])
        if random_numbers:
            torch.set_rng_state(host)
        if random_numbers and device is not None:
            torch.cuda.set_rng_state(device, env.device)

    return go_back


def _differing(mine: Tensor, theirs: Tensor) -> float:
    """The share of numbers that are not the same, rounding aside."""
    if not mine.is_floating_point():
        return float((mine != theirs).float().mean())
    same = (mine - theirs).abs() <= _ROUNDING * (1 + theirs.abs())
    return 1 - float((same | (mine.isnan() & theirs.isnan())).float().mean())


def _means_apart(mine: Tensor, theirs: Tensor) -> float:
    """The distance of two means over N environments, in standard errors: of the worst of an environment's numbers."""
    mine, theirs = (x.float().reshape(len(x), -1).nan_to_num(1e6, 1e6, -1e6) for x in (mine, theirs))
    error = ((mine.var(0) + theirs.var(0)) / len(mine)).sqrt()
    return float(((mine.mean(0) - theirs.mean(0)).abs() / (error + 1e-6)).max())
