"""Compare a compiled program with the eager code before it is used.

A kernel that fails raises; a kernel that computes wrong numbers does not, and a policy learns from them for hours.
torch 2.11 produced two: nearly every frame of 64 drones was stored as a collision; and the critic's gradient was
thousands of times too long, while the policy, which learned around it, looked good.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from slipstream.algorithms.execution.graphs import allow_sync
from slipstream.envs.base import TensorEnv
from slipstream.envs.specs import Observation, Rows, Step

Gradients = Callable[[Any], tuple[Sequence[Tensor | None], Tensor]]  # rows of a minibatch -> gradients, diagnostics
_Program = TypeVar("_Program")
_Output = TypeVar("_Output")

_ROUNDING = 0.02  # two summation orders, also in bf16, differ by less than this relative to 1 + |x|
_FEW = 0.02  # share of an environment's numbers, or of environments, that may differ because a threshold was crossed
_MAX_ROOT_DIFFERENCE = 3.0  # between the roots of two counts, whose standard error is a half
_MAX_STANDARD_ERRORS = 6.0  # between two means
_MIN_ENVS_FOR_MEAN = 16
# Of a gradient's length plus 1 % of the length of all; bf16 and float32 differ by up to two thirds of it.
_MAX_GRADIENT_ERROR = 0.3
_MAX_DIAGNOSTIC_ERROR, _DIAGNOSTIC_NEAR_ZERO = 0.2, 0.003  # relative, absolute


class MiscompiledError(RuntimeError):
    """The compiled program computes other numbers than the eager code."""


def summarize_error(error: BaseException) -> str:
    """Return one line about a failed compilation: the first of its text, or the last of the traceback that it
    announces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    text = lines[0]
    if text.endswith(":"):
        raised = [line for line in lines[1:] if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
        text = f"{text} {(raised or lines)[-1]}"
    return f"{type(error).__name__}: {text[:300]}"


class VerifiedStep:
    """Take a step of `env` and write it to rows, with the first of `compiled` that computes what `eager` computes, or
    else with `eager`.

    The first call chooses, by two eager steps from the same state, and takes the step. A compiled step may draw other
    random numbers: outputs that also differ between the two eager steps may differ as much, and their means over the
    environments are compared.
    """

    def __init__(self, eager: Step, compiled: Iterable[Step], env: TensorEnv, log: Callable[[str], None]) -> None:
        self._eager, self._compiled, self._env, self._log = eager, compiled, env, log
        self._chosen: Step | None = None

    def __call__(self, observation: Observation, rows: Rows) -> None:
        """Take one step."""
        if self._chosen is not None:
            self._chosen(observation, rows)
        else:
            with allow_sync(self._env.device):
                self._chosen = self._choose(observation, rows)

    def _choose(self, observation: Observation, rows: Rows) -> Step:
        restore = _save_state(self._env)
        expected = []
        for _ in range(2):  # with the next random numbers, and with those after them
            self._eager(observation, rows)
            expected.append([x.clone() for _, targets in rows for x in targets])
            restore(random_numbers=False)

        def run(program: Step) -> None:
            restore(random_numbers=True)
            program(observation, rows)
            compare_rows(rows, *expected)

        found = _first_correct(self._compiled, run, lambda reason: self._log(f"the env's step {reason}"))
        if found is not None:
            return found[0]
        restore(random_numbers=True)
        self._eager(observation, rows)
        return self._eager


class VerifiedGradients:
    """Compute gradients and diagnostics with the first of `compiled` that computes what `eager` computes, or else with
    `eager`.

    Compares at calls 1, 2, 4, 8 and so on: the first minibatch clips nothing, and memory that a kernel reads before it
    is written may hold the right number by chance. Nothing is compared inside a capture.
    """

    def __init__(self, eager: Gradients, compiled: Iterator[Gradients], log: Callable[[str], None]) -> None:
        self._eager, self._compiled, self._log = eager, compiled, log
        self._chosen: Gradients | None = None
        self._calls = 0

    def __call__(self, rows: Any) -> tuple[Sequence[Tensor | None], Tensor]:
        """Return the gradients and the diagnostics of a minibatch."""
        self._calls += 1
        due = self._calls & (self._calls - 1) == 0 and self._chosen is not self._eager
        if self._chosen is not None and (not due or _is_capturing()):
            return self._chosen(rows)
        with allow_sync(tree_leaves(rows)[0].device):
            return self._choose(rows)

    def _choose(self, rows: Any) -> tuple[Sequence[Tensor | None], Tensor]:
        gradients, diagnostics = self._eager(rows)  # its own errors are not the compiler's

        def run(program: Gradients) -> tuple[Sequence[Tensor | None], Tensor]:
            output = program(rows)
            compare_gradients(output[0], gradients)
            compare_diagnostics(output[1], diagnostics)
            return output

        current = [] if self._chosen is None else [self._chosen]
        found = _first_correct(chain(current, self._compiled), run, lambda reason: self._log(f"the update {reason}"))
        self._chosen, output = found or (self._eager, (gradients, diagnostics))
        return output


def _first_correct(
    programs: Iterable[_Program], run: Callable[[_Program], _Output], log: Callable[[str], None]
) -> tuple[_Program, _Output] | None:
    """Return the first program that `run` accepts, and its output; None if there is none.

    The eager code has just succeeded, so every error here, also while a program is compiled, is the compiler's: it is
    logged.
    """
    remaining = iter(programs)
    while True:
        try:
            program = next(remaining, None)
            return None if program is None else (program, run(program))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            log(f"cannot be compiled ({summarize_error(error)}): trying a slower form")


def _is_capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def compare_rows(compiled: Rows, eager: Sequence[Tensor], eager_again: Sequence[Tensor]) -> None:
    """Raise `MiscompiledError` if a compiled step wrote rows that no eager step writes.

    Args:
        compiled: the rows that the compiled step wrote.
        eager: the tensors that the eager step wrote, from the same state and random numbers.
        eager_again: the same with other random numbers.
    """
    keyed = [(key, x) for keys, targets in compiled for key, x in zip(keys, targets, strict=True)]
    for (key, mine), expected, again in zip(keyed, eager, eager_again, strict=True):
        name, envs = ".".join(key), len(mine)
        if mine.is_floating_point() and bool(mine.isnan().any() & ~expected.isnan().any() & ~again.isnan().any()):
            raise MiscompiledError(f"compiled, '{name}' is NaN")
        wrong, natural = _count_different_envs(mine, expected), _count_different_envs(again, expected)
        many = wrong > _FEW * envs and math.sqrt(wrong) - math.sqrt(natural) > _MAX_ROOT_DIFFERENCE
        if many or (wrong == envs and not natural):
            raise MiscompiledError(f"compiled, '{name}' differs in {wrong:,} of {envs:,} environments")
        if (
            natural
            and envs >= _MIN_ENVS_FOR_MEAN
            and _mean_distance(mine, expected) > _MAX_STANDARD_ERRORS >= _mean_distance(again, expected)
        ):
            means = [float(x.float().mean()) for x in (mine, expected)]
            raise MiscompiledError(f"compiled, '{name}' has a mean of {means[0]:.3g}, not {means[1]:.3g}")


def compare_gradients(compiled: Sequence[Tensor | None], eager: Sequence[Tensor | None]) -> None:
    """Raise `MiscompiledError` if a gradient differs by more than rounding; None is a parameter without a gradient."""
    lengths = [0.0 if x is None else float(torch.linalg.vector_norm(x.float())) for x in eager]
    total = math.hypot(*filter(math.isfinite, lengths))
    for i, (mine, expected, length) in enumerate(zip(compiled, eager, lengths, strict=True)):
        if mine is None or expected is None:
            if mine is not expected:
                some = "no" if mine is None else "a"
                raise MiscompiledError(f"compiled, there is {some} gradient {i} of {len(lengths)}")
            continue
        error = float(torch.linalg.vector_norm((mine - expected).float()))
        if math.isfinite(length) and not error <= _MAX_GRADIENT_ERROR * (length + 0.01 * total):
            raise MiscompiledError(f"compiled, gradient {i} of {len(lengths)} is off by {error:.3g} of {length:.3g}")


def compare_diagnostics(compiled: Tensor, eager: Tensor) -> None:
    """Raise `MiscompiledError` if a diagnostic of a minibatch (loss, KL, ...) differs by more than rounding."""
    for i, (mine, expected) in enumerate(zip(compiled.tolist(), eager.tolist(), strict=True)):
        tolerance = _MAX_DIAGNOSTIC_ERROR * abs(expected) + _DIAGNOSTIC_NEAR_ZERO
        if math.isfinite(expected) and not abs(mine - expected) <= tolerance:
            raise MiscompiledError(f"compiled, diagnostic {i} of a minibatch is {mine:.3g}, not {expected:.3g}")


def _save_state(env: TensorEnv) -> Callable[..., None]:
    """Return a function that restores the present state of `env` and, if asked to, of the global random numbers."""
    before = {name: x.clone() for name, x in env.state_tensors().items()}
    cuda = env.device.type == "cuda"
    host, device = torch.get_rng_state(), torch.cuda.get_rng_state(env.device) if cuda else None

    def restore(random_numbers: bool) -> None:
        for name, x in env.state_tensors().items():
            x.copy_(before[name])
        if random_numbers:
            torch.set_rng_state(host)
        if random_numbers and device is not None:
            torch.cuda.set_rng_state(device, env.device)

    return restore


def _count_different_envs(mine: Tensor, expected: Tensor) -> int:
    """Count the environments in which more than a few numbers differ by more than rounding."""
    mine, expected = mine.reshape(len(mine), -1), expected.reshape(len(expected), -1)
    same = mine == expected
    if mine.is_floating_point():
        same |= ((mine - expected).abs() <= _ROUNDING * (1 + expected.abs())) | (mine.isnan() & expected.isnan())
    return int(((~same).float().sum(1) > _FEW * mine.shape[1]).sum())


def _mean_distance(mine: Tensor, expected: Tensor) -> float:
    """Return the distance of two means over N environments in standard errors, for the worst of an environment's
    numbers."""
    mine, expected = (x.float().reshape(len(x), -1).nan_to_num(1e6, 1e6, -1e6) for x in (mine, expected))
    error = ((mine.var(0) + expected.var(0)) / len(mine)).sqrt()
    return float(((mine.mean(0) - expected.mean(0)).abs() / (error + 1e-6)).max())
