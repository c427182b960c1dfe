"""`env.num_envs=auto`, `algo.minibatches=auto`, and with them `device=auto`: chosen by a few short trainings, told in one line each."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from slipstream.config.help import ConfigError
from slipstream.config.schema import CHOSEN_BY_MEASURING, TrainConfig
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.training.tuning.probe import TrainingTrial, free_memory_mb, used_memory_mb

KNEE = 1.10  # twice the environments must bring at least this much more
ROOM = 0.8  # of the free memory may be taken
STRETCH_S = 1.0
SMALLEST = {"cpu": 64, "cuda": 1024}
LARGEST = {"cpu": 4096, "cuda": 131_072}
FEWEST_MINIBATCHES, SMALLEST_MINIBATCH = 4, 256


@dataclass(frozen=True)
class Measured:
    """One size, as it ran."""

    size: int
    rate: float  # frames a second
    memory_mb: float  # taken for it


@dataclass(frozen=True)
class Choice:
    """The size that was chosen, and why."""

    size: int
    why: str
    seen: tuple[Measured, ...]


def grow(sizes: Iterable[int], measure: Callable[[int], Measured], room_mb: float) -> Choice:
    """The last of `sizes` (growing) that was worth it: stops at the knee of the rate, or where memory ends or would end."""
    seen: list[Measured] = []
    why = "the largest that was asked for"
    for size in sizes:
        if seen and _expected_mb(seen, size) > room_mb:
            why = f"{size:,} would take {_expected_mb(seen, size) / 1024:.1f} GB of {room_mb / 1024:.1f} GB"
            break
        try:
            found = measure(size)
        except (MemoryError, torch.OutOfMemoryError):
            if not seen:
                raise
            why = f"{size:,} did not fit into memory"
            break
        if seen and found.rate < KNEE * seen[-1].rate:
            why = f"{size:,} brings only {found.rate / seen[-1].rate:.2f} × the frames/s"
            best = found if found.rate > seen[-1].rate * math.sqrt(KNEE) else seen[-1]
            return Choice(best.size, why, (*seen, found))
        seen.append(found)
    return Choice(seen[-1].size, why, tuple(seen))


def _expected_mb(seen: list[Measured], size: int) -> float:
    """Memory that `size` will take: in a straight line through the last two, or in proportion to the only one."""
    last = seen[-1]
    if len(seen) == 1:
        return last.memory_mb * size / last.size
    before = seen[-2]
    slope = max(last.memory_mb - before.memory_mb, 0.0) / (last.size - before.size)
    return last.memory_mb + slope * (size - last.size)


def choose_sizes(
    config: TrainConfig, tell: Callable[[str], None] = print, open_trial: Callable[[TrainConfig], Any] | None = None
) -> TrainConfig:
    """The configuration with a number for every key of `config.auto`, each told in one line."""
    open_trial = open_trial or (
        lambda config: TrainingTrial(config, tell)
    )  # which says when it compiles: that takes a while
    asked = list(config.auto)
    unknown = [key for key in asked if key not in CHOSEN_BY_MEASURING]
    if unknown:
        raise ConfigError(
            f"{unknown[0]}=auto: only env.num_envs, algo.minibatches and device can be chosen by measuring"
        )
    if "algo.minibatches" in asked and not hasattr(config.algo, "minibatches"):
        raise ConfigError(f"algo.minibatches=auto: algo={config.algo.name} has no minibatches; leave it out")
    config = replace(config, auto=[])
    for key in sorted(asked, reverse=True):  # the environments first: minibatches are cut from what they bring
        with _quiet_threads():
            config = (
                _choose_num_envs(config, tell, open_trial)
                if key == "env.num_envs"
                else _choose_minibatches(config, tell, open_trial)
            )
    return config


def _choose_num_envs(
    config: TrainConfig, tell: Callable[[str], None], open_trial: Callable[[TrainConfig], Any]
) -> TrainConfig:
    choices: dict[str, Choice] = {}
    both = config.device == "auto" and torch.cuda.is_available()
    for name in ("cuda", "cpu") if both else (config.device if config.device != "auto" else "cpu",):
        device = resolve_device(name)
        here = replace(config, device=name)
        sizes = list(_sizes(config, SMALLEST[device.type], LARGEST[device.type]))
        choices[name] = grow(sizes, lambda n, here=here: _measure(_with_envs(here, n), n, open_trial), _room_mb(device))  # type: ignore[misc]
    name = max(choices, key=lambda name: _rate(choices[name]))
    choice = choices[name]
    tell(f"env.num_envs={choice.size} on {name}: {_rate(choice):,.0f} frames/s; {choice.why} (tried {_told(choice)})")
    if both:
        other = next(n for n in choices if n != name)
        tell(f"device={name}: {_rate(choice):,.0f} frames/s, {other} {_rate(choices[other]):,.0f}")
        config = replace(config, device=name)
    return _with_envs(config, choice.size)


def _choose_minibatches(
    config: TrainConfig, tell: Callable[[str], None], open_trial: Callable[[TrainConfig], Any]
) -> TrainConfig:
    frames = config.env.num_envs * config.algo.training_frame_num
    counts = [
        n
        for n in (64, 32, 16, 8, 4, 2, 1)
        if frames % n == 0 and frames // n >= SMALLEST_MINIBATCH and n >= FEWEST_MINIBATCHES
    ]
    if not counts:
        counts = [max(n for n in (4, 2, 1) if frames % n == 0)]
    device = resolve_device(config.device)

    def measure(size: int) -> Measured:
        return _measure(_with_minibatches(config, frames // size), size, open_trial)

    choice = grow([frames // n for n in counts], measure, _room_mb(device))
    count = frames // choice.size
    tell(
        f"algo.minibatches={count} ({choice.size:,} frames each): {_rate(choice):,.0f} frames/s; {choice.why} (tried {_told(choice)})"
    )
    return _with_minibatches(config, count)


def _measure(config: TrainConfig, size: int, open_trial: Callable[[TrainConfig], Any]) -> Measured:
    device = resolve_device(config.device)
    before = used_memory_mb(device)
    trial = open_trial(replace(config, quiet=True, init=None))  # as long as the user's: `compile=auto` goes by that
    try:
        samples = [trial.run(STRETCH_S / 3)]
        while len(samples) < 3 and sum(sample.seconds for sample in samples) < 2 * STRETCH_S:
            samples.append(trial.run(STRETCH_S / 3))
        rate = statistics.median(sample.rate for sample in samples)
        return Measured(size, rate, max(used_memory_mb(device) - before, 0.0))
    finally:
        trial.close()


def _sizes(config: TrainConfig, smallest: int, largest: int) -> Iterator[int]:
    """Numbers of environments, doubling, that hold all maps and divide into the minibatches."""
    step = getattr(config.algo, "minibatches", 1)
    step //= math.gcd(step, config.algo.training_frame_num)
    size = step
    while size < max(smallest, getattr(config.env, "num_worlds", 1)):
        size *= 2
    while size <= max(largest, step):
        yield size
        size *= 2


def _with_envs(config: TrainConfig, number: int) -> TrainConfig:
    return replace(config, env=replace(config.env, num_envs=number))


def _with_minibatches(config: TrainConfig, number: int) -> TrainConfig:
    return replace(config, algo=replace(config.algo, minibatches=number))


def _rate(choice: Choice) -> float:
    return next(one.rate for one in choice.seen if one.size == choice.size)


def _told(choice: Choice) -> str:
    return ", ".join(f"{one.size:,}: {one.rate:,.0f}" for one in choice.seen)


def _room_mb(device: torch.device) -> float:
    return ROOM * free_memory_mb(device)[0]


@contextmanager
def _quiet_threads() -> Iterator[None]:
    """A trial may set the process's threads: they are put back."""
    before = torch.get_num_threads()
    yield
    set_threads(before)
