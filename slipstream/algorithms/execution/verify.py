"""What a compiler made is compared with what it was made from before it is trusted.

A kernel that fails is heard; one that is wrong is not, and a policy learns from it for hours. torch 2.11 wrote two such: nearly every
frame of 64 drones was stored as a collision, while the drones flew on; and the critic's weights got a gradient thousands of times too long,
while the policy, which learned around it, looked well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from slipstream.algorithms.execution.sync import waiting_allowed
from slipstream.envs.specs import Observation, Rows, Step

Gradients = Callable[[Any], tuple[Sequence[Tensor | None], Tensor]]  # of the rows of a minibatch, with facts about it
_Made = TypeVar("_Made")
_Taken = TypeVar("_Taken")

_ROUNDING = 0.02  # two orders of the same sums, in bf16 too, differ by less than this, relative to 1 + |x|
_FEW = 0.02  # or a threshold is crossed, in so few of an environment's numbers, or of the environments
_ROOTS_APART = 3.0  # between two counts, whose roots have a standard error of a half
_FAR_APART = 6.0  # standard errors between two means
_ENOUGH = 16  # environments for a mean to be judged
_MOST_OFF = (
    0.3  # of a gradient's length and a hundredth of all gradients'; bf16 and float32 differ by up to two thirds of that
)
_FACT_OFF, _FACT_NEAR_NOTHING = 0.2, 0.003  # of a fact, and where it is nearly 0


class Miscompiled(RuntimeError):
    """The compiled function gives other numbers than the plain one."""


def first_line(error: BaseException) -> str:
    """What to tell of a failed compilation, which may take pages; where the first line only announces a traceback, its last line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    told = lines[0]
    if told.endswith(":"):
        raised = [line for line in lines[1:] if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
        told = f"{told} {(raised or lines)[-1]}"
    return f"{type(error).__name__}: {told[:300]}"


class Env(Protocol):
    """What a comparison needs of an env: `TensorEnv` has it."""

    device: torch.device

    @property
    def supports_state_restore(self) -> bool:
        """Whether putting `state_tensors()` back takes back a step."""

    def state_tensors(self) -> dict[str, Tensor]:
        """The tensors that make up the state, by name."""


class TrustedStep:
    """A step of `env` written to rows: the first of `compiled` that gives what `plain` gives, or else `plain` itself.

    The first call chooses, by two plain steps from the same state, and takes the step. A compiler may draw random numbers of its own, or
    in another order: what is another one with other random numbers in the plain step too may differ as much as there, and is judged by
    its mean over the environments.
    """

    def __init__(self, plain: Step, compiled: Iterable[Step], env: Env, tell: Callable[[str], None]) -> None:
        self._plain, self._compiled, self._env, self._tell = plain, compiled, env, tell
        self._chosen: Step | None = None

    def __call__(self, observation: Observation, rows: Rows) -> None:
        """One step."""
        if self._chosen is not None:
            self._chosen(observation, rows)
        else:
            with waiting_allowed(self._env.device):
                self._chosen = self._choose(observation, rows)

    def _choose(self, observation: Observation, rows: Rows) -> Step:
        go_back = _bookmark(self._env)
        seen = []
        for _ in range(2):  # with the random numbers that come, and with those after
            self._plain(observation, rows)
            seen.append([x.clone() for _, targets in rows for x in targets])
            go_back(False)

        def take(made: Step) -> None:
            go_back(True)
            made(observation, rows)
            compare_rows(rows, *seen)

        found = _first_right(self._compiled, take, lambda why: self._tell(f"the env's step {why}"))
        if found is not None:
            return found[0]
        go_back(True)
        self._plain(observation, rows)
        return self._plain


class TrustedGradients:
    """Gradients of a minibatch, and facts about them: the first of `compiled` that gives what `plain` gives, or else `plain` itself.

    Compared with it at the first call, the second, the fourth and so on: the first minibatch clips nothing yet, and what a kernel reads
    before it was written may be right by chance. A graph that is being captured cannot be compared.
    """

    def __init__(self, plain: Gradients, compiled: Iterator[Gradients], tell: Callable[[str], None]) -> None:
        self._plain, self._compiled, self._tell = plain, compiled, tell
        self._chosen: Gradients | None = None
        self._calls = 0

    def __call__(self, rows: Any) -> tuple[Sequence[Tensor | None], Tensor]:
        """The gradients, and the facts."""
        self._calls += 1
        again = self._calls & (self._calls - 1) == 0 and self._chosen is not self._plain
        if self._chosen is not None and (not again or _capturing()):
            return self._chosen(rows)
        with waiting_allowed(tree_leaves(rows)[0].device):
            return self._choose(rows)

    def _choose(self, rows: Any) -> tuple[Sequence[Tensor | None], Tensor]:
        gradients, facts = self._plain(rows)  # an error of its own is not the compiler's

        def take(made: Gradients) -> tuple[Sequence[Tensor | None], Tensor]:
            found = made(rows)
            compare_gradients(found[0], gradients)
            compare_facts(found[1], facts)
            return found

        present = [] if self._chosen is None else [self._chosen]
        found = _first_right(chain(present, self._compiled), take, lambda why: self._tell(f"the update {why}"))
        self._chosen, result = found or (self._plain, (gradients, facts))
        return result


def _first_right(
    candidates: Iterable[_Made], take: Callable[[_Made], _Taken], tell: Callable[[str], None]
) -> tuple[_Made, _Taken] | None:
    """The first candidate that `take` takes, and what it gave; None where none is left.

    `take` does what plain code has just done: whatever is raised, also while a candidate is made, is the compiler's, and is told.
    """
    left = iter(candidates)
    while True:
        try:
            made = next(left, None)
            return None if made is None else (made, take(made))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            tell(f"cannot be compiled ({first_line(error)}): another form is tried, which is slower")


def _capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def compare_rows(made: Rows, once: Sequence[Tensor], otherwise: Sequence[Tensor]) -> None:
    """Raises `Miscompiled` where a compiled step wrote what no plain one does; `otherwise` is plain with other random numbers."""
    keyed = [(key, x) for keys, targets in made for key, x in zip(keys, targets, strict=True)]
    for (key, mine), theirs, again in zip(keyed, once, otherwise, strict=True):
        name, number = ".".join(key), len(mine)
        if mine.is_floating_point() and bool(mine.isnan().any() & ~theirs.isnan().any() & ~again.isnan().any()):
            raise Miscompiled(f"compiled, '{name}' is not a number")
        off, natural = _environments_off(mine, theirs), _environments_off(again, theirs)
        many = off > _FEW * number and math.sqrt(off) - math.sqrt(natural) > _ROOTS_APART
        if many or (off == number and not natural):
            raise Miscompiled(f"compiled, '{name}' is another one in {off:,} of {number:,} environments")
        if natural and number >= _ENOUGH and _means_apart(mine, theirs) > _FAR_APART >= _means_apart(again, theirs):
            means = [float(x.float().mean()) for x in (mine, theirs)]
            raise Miscompiled(f"compiled, '{name}' has a mean of {means[0]:.3g}, not {means[1]:.3g}")


def compare_gradients(made: Sequence[Tensor | None], plain: Sequence[Tensor | None]) -> None:
    """Raises `Miscompiled` where a gradient is not the plain one, rounding aside; None where a parameter has none."""
    lengths = [0.0 if x is None else float(torch.linalg.vector_norm(x.float())) for x in plain]
    overall = math.hypot(*filter(math.isfinite, lengths))
    for i, (mine, theirs, length) in enumerate(zip(made, plain, lengths, strict=True)):
        if mine is None or theirs is None:
            if mine is not theirs:
                raise Miscompiled(f"compiled, there is {'no ' if mine is None else 'a '}gradient {i} of {len(lengths)}")
            continue
        off = float(torch.linalg.vector_norm((mine - theirs).float()))
        if math.isfinite(length) and not off <= _MOST_OFF * (length + 0.01 * overall):
            raise Miscompiled(f"compiled, gradient {i} of {len(lengths)} is off by {off:.3g} of {length:.3g}")


def compare_facts(made: Tensor, plain: Tensor) -> None:
    """Raises `Miscompiled` where one of the numbers told of a minibatch is not the plain one, rounding aside."""
    for i, (mine, theirs) in enumerate(zip(made.tolist(), plain.tolist(), strict=True)):
        if math.isfinite(theirs) and not abs(mine - theirs) <= _FACT_OFF * abs(theirs) + _FACT_NEAR_NOTHING:
            raise Miscompiled(f"compiled, fact {i} of a minibatch is {mine:.3g}, not {theirs:.3g}")


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


def _environments_off(mine: Tensor, theirs: Tensor) -> int:
    """In how many environments more than a few numbers are not the same, rounding aside."""
    mine, theirs = mine.reshape(len(mine), -1), theirs.reshape(len(theirs), -1)
    same = mine == theirs
    if mine.is_floating_point():
        same |= ((mine - theirs).abs() <= _ROUNDING * (1 + theirs.abs())) | (mine.isnan() & theirs.isnan())
    return int(((~same).float().sum(1) > _FEW * mine.shape[1]).sum())


def _means_apart(mine: Tensor, theirs: Tensor) -> float:
    """The distance of two means over N environments, in standard errors: of the worst of an environment's numbers."""
    mine, theirs = (x.float().reshape(len(x), -1).nan_to_num(1e6, 1e6, -1e6) for x in (mine, theirs))
    error = ((mine.var(0) + theirs.var(0)) / len(mine)).sqrt()
    return float(((mine.mean(0) - theirs.mean(0)).abs() / (error + 1e-6)).max())
