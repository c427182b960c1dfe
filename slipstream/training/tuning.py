"""Settings chosen by measuring: short trainings of a configuration, and `=auto` for env.num_envs and algo.minibatches.

A trial is the training that `slipstream train` would run, without its logs. The advisor opens trials through
`TrainingProbe`, and `choose_sizes` doubles a size until a larger one does not pay.
"""

from __future__ import annotations

import functools
import gc
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from slipstream.checkpoint import AsyncCheckpointSaver
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.config.schema import CHOSEN_BY_MEASURING, TrainConfig
from slipstream.monitor import PerformanceMonitor
from slipstream.monitor.advisor import Sample
from slipstream.monitor.gauges import memory_gauges
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.storage.reader import available_memory
from slipstream.training.readback import ReadBack
from slipstream.training.trainer import Trainer

MIN_ITERATIONS = 1  # per run
MIN_ITERATIONS_AHEAD = 6  # the end of a run costs a collector that runs ahead part of a batch
WARM_UP = {"plain": 1, "graphs": 4, "compiled": 4}  # iterations: set-up, rehearsals, the capture
SAVES = 3  # per measurement of a checkpoint
# A trial logs nothing and starts from fresh weights. Its length stays the user's, because `compile=auto` depends on it.
TRIAL_SETTINGS = {"quiet": True, "resume": None, "init": None, "init_replay": None, "wandb.mode": "disabled"}

KNEE = 1.10  # a doubled size must bring at least this factor
MEMORY_SHARE = 0.8  # of the free memory may be used
MEASURE_S, RUNS = 1.0, 3  # per size
SMALLEST = {"cpu": 64, "cuda": 1024}
LARGEST = {"cpu": 4096, "cuda": 131_072}
MIN_MINIBATCH_FRAMES = 256

OpenTrial = Callable[[TrainConfig], Any]
Log = Callable[[str], None]


# -- trials ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SaveCost:
    """The cost of one checkpoint."""

    lost_s: float  # of training
    write_s: float  # of the writing thread
    bytes: int


class TrainingProbe:
    """Opens trainings of the configuration that `words` (key=value, as for `slipstream train`) describe, with
    changes."""

    def __init__(self, words: Iterable[str] = (), log: Log = lambda text: None) -> None:
        self.words = list(words)
        self.config = self.load({})
        self._log = log
        self._threads = torch.get_num_threads()
        device = resolve_device(self.config.device)
        free_mb, all_mb = free_memory_mb(device)
        cuda = device.type == "cuda"
        self._facts = {
            "device": device.type,
            "name": torch.cuda.get_device_name(device) if cuda else f"{self._threads} CPU threads",
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            "threads": self._threads,
            "free_mb": free_mb,
            "all_mb": all_mb,
            "bf16": cuda and torch.cuda.is_bf16_supported(),
        }

    def load(self, overrides: Mapping[str, Any]) -> TrainConfig:
        """Return the configuration with `overrides`."""
        return load_train([*self.words, *(f"{key}={format_value(value)}" for key, value in overrides.items())])

    def open(self, overrides: Mapping[str, Any]) -> TrainingTrial:
        """Return a training that is set up and warm."""
        config = self.load({**overrides, **TRIAL_SETTINGS})
        if hasattr(config.algo, "warmup"):
            config.algo.warmup = min(config.algo.warmup, 1)  # learn from the first iteration on
        set_threads(config.threads or self._threads)
        return TrainingTrial(config, self._log)

    def facts(self) -> dict[str, Any]:
        """Return device, cores and memory."""
        return self._facts

    def setting(self, key: str) -> Any:
        """Return the user's value of a dotted key; None if there is no such key."""
        config: Any = self.config
        return functools.reduce(lambda part, name: getattr(part, name, None), key.split("."), config)

    def close(self) -> None:
        """Restore the number of threads."""
        set_threads(self._threads)


class TrainingTrial:
    """One training: `Trainer.step` again and again, without logs."""

    def __init__(self, config: TrainConfig, log: Log = lambda text: None) -> None:
        self.monitor = PerformanceMonitor()
        self.trainer = Trainer(config, self.monitor)
        self.device = self.trainer.env.device
        self._threads = torch.get_num_threads()  # without those that a collector beside the learner has taken
        self._readings = ReadBack(self.device)
        self.trainer.capture(log)
        self._iterate(WARM_UP[self.trainer.execution_mode()])
        self._wait()

    def run(self, seconds: float) -> Sample:
        """Train for about `seconds`. Nothing is under way before or after, so the gain of a pipeline is rather
        underestimated."""
        set_threads(self._threads)
        fewest = MIN_ITERATIONS_AHEAD if self.trainer.collector.runs_ahead else MIN_ITERATIONS
        self.monitor.reset()
        self.monitor.tick()
        began, iterations = time.perf_counter(), 0
        while iterations < fewest or time.perf_counter() - began < seconds:
            self._iterate(1)
            iterations += 1
        self._wait()
        elapsed_s = time.perf_counter() - began
        if self.device.type == "cuda":  # only now have the last iterations' device times arrived
            self.monitor.tick()
        exposed = {name: wait["share"] for name, wait in self.monitor.get_exposed(iterations + 1).items()}
        return Sample(iterations * self.trainer.frames_per_batch, elapsed_s, exposed, iterations)

    def save_cost(self) -> SaveCost:
        """Measure one checkpoint: iterations while it is copied and written, against as many without."""
        set_threads(self._threads)
        cfg, lost = self.trainer.cfg, []
        with (
            tempfile.TemporaryDirectory() as folder,
            AsyncCheckpointSaver(compression_level=cfg.save_compression_level, announce=lambda text: None) as saver,
        ):
            for number in range(SAVES):  # the first one allocates the buffers
                began, iterations = time.perf_counter(), 0
                saver.save_async(self.trainer.state_dict(number), Path(folder, f"{number}.pt"), cfg.compress_checkpoint)
                while iterations < 1 or saver.get_stats()["total_saved"] <= number:
                    self._iterate(1)
                    iterations += 1
                self._wait()
                between = time.perf_counter()
                self._iterate(iterations)
                self._wait()
                lost.append((between - began) - (time.perf_counter() - between))
            stats = saver.get_stats()
        lost_s = max(statistics.median(lost[1:]), stats["blocking_ms_median"] / 1e3)
        return SaveCost(lost_s, stats["background_ms_median"] / 1e3, stats["bytes_out"] // SAVES)

    def close(self) -> None:
        """Stop its threads and free its memory."""
        self.trainer.close()
        if self.trainer.execution_mode() == "compiled":
            torch.compiler.reset()
        del self.trainer
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _iterate(self, count: int) -> None:
        for _ in range(count):
            self._readings.send(None, self.trainer.step().metrics)
            with self.monitor.timer("read back"):
                self._readings.take(wait=False)
            self.monitor.tick()

    def _wait(self) -> None:
        self.trainer.collector.settle()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def free_memory_mb(device: torch.device) -> tuple[float, float]:
    """Return free and total memory in MB: of a GPU, or of the machine."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
    else:
        free = available_memory()
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else free
    return free / 2**20, total / 2**20


def format_value(value: Any) -> str:
    """Return a value as it is written in key=value."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


# -- sizes -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """The chosen size and the reason."""

    size: int
    why: str
    rates: dict[int, float]  # frames per second by size, of all that were measured

    def __str__(self) -> str:
        tried = ", ".join(f"{size:,}: {rate:,.0f}" for size, rate in self.rates.items())
        return f"{self.rates[self.size]:,.0f} frames/s; {self.why} (tried {tried})"


def grow(sizes: Iterable[int], measure: Callable[[int], tuple[float, float]], room_mb: float) -> Choice:
    """Return the last of the growing `sizes` that pays: stop at the knee of the rate, or before memory ends.

    Args:
        sizes: The smallest first.
        measure: Returns the frames per second and the memory in MB of a size.
        room_mb: The memory that may be used.
    """
    rates: dict[int, float] = {}
    last, used_mb, why = 0, 0.0, "the largest size allowed"
    for size in sizes:
        expected_mb = used_mb * size / last if last else 0.0
        if expected_mb > room_mb:
            why = f"{size:,} would take {expected_mb / 1024:.1f} GB of {room_mb / 1024:.1f} GB"
            break
        try:
            rates[size], used_mb = measure(size)
        except (MemoryError, torch.OutOfMemoryError):
            if not last:
                raise
            why = f"{size:,} did not fit into memory"
            break
        gain = rates[size] / rates[last] if last else math.inf
        if gain < KNEE:
            best = size if gain > math.sqrt(KNEE) else last
            return Choice(best, f"{size:,} brings only {gain:.2f} × the frames/s", rates)
        last = size
    return Choice(last, why, rates)


def choose_sizes(config: TrainConfig, log: Log = print, open_trial: OpenTrial | None = None) -> TrainConfig:
    """Return the config with a number for every key of `config.auto`.

    Raises:
        ConfigError: A key cannot be chosen by measuring.
    """
    open_trial = open_trial or (lambda config: TrainingTrial(config, log))
    asked, config = config.auto, replace(config, auto=[])
    for key in asked:
        if key not in CHOSEN_BY_MEASURING:
            raise ConfigError(f"{key}=auto: only env.num_envs and algo.minibatches can be chosen by measuring")
    if "algo.minibatches" in asked and not hasattr(config.algo, "minibatches"):
        raise ConfigError(f"algo.minibatches=auto: algo={config.algo.name} has no minibatches; leave it out")
    if "env.num_envs" in asked:  # first: the minibatches are cut from its frames
        config = _choose_num_envs(config, log, open_trial)
    if "algo.minibatches" in asked:
        config = _choose_minibatches(config, log, open_trial)
    return config


def _choose_num_envs(config: TrainConfig, log: Log, open_trial: OpenTrial) -> TrainConfig:
    device = resolve_device(config.device).type
    step = getattr(config.algo, "minibatches", 1)
    step //= math.gcd(step, config.algo.rollout_steps)  # every size divides into the minibatches
    least = max(SMALLEST[device], getattr(config.env, "num_worlds", 1))  # and holds all maps
    smallest = step * 2 ** max(0, math.ceil(math.log2(least / step)))
    doublings = range(int(math.log2(max(LARGEST[device] / smallest, 1))) + 1)
    configs = {smallest * 2**k: _with(config, "env", num_envs=smallest * 2**k) for k in doublings}
    choice = _measure_sizes(configs, open_trial)
    log(f"env.num_envs={choice.size} on {device}: {choice}")
    return configs[choice.size]


def _choose_minibatches(config: TrainConfig, log: Log, open_trial: OpenTrial) -> TrainConfig:
    frames = config.env.num_envs * config.algo.rollout_steps
    counts = [n for n in (64, 32, 16, 8, 4) if frames % n == 0 and frames // n >= MIN_MINIBATCH_FRAMES]
    counts = counts or [max(n for n in (4, 2, 1) if frames % n == 0)]
    configs = {frames // n: _with(config, "algo", minibatches=n) for n in counts}
    choice = _measure_sizes(configs, open_trial)
    log(f"algo.minibatches={frames // choice.size} ({choice.size:,} frames each): {choice}")
    return configs[choice.size]


def _measure_sizes(configs: dict[int, TrainConfig], open_trial: OpenTrial) -> Choice:
    """Measure configs by size, the smallest first, until a larger one does not pay."""
    device = resolve_device(next(iter(configs.values())).device)
    gauges = memory_gauges(device)
    used_mb = gauges.get("gpu_reserved_mb") or gauges.get("rss_mb") or (lambda: 0.0)

    def measure(size: int) -> tuple[float, float]:
        before_mb, threads = used_mb(), torch.get_num_threads()
        # as long as the run: `compile=auto` depends on it
        trial = open_trial(replace(configs[size], quiet=True, init=None))
        try:
            rates = [trial.run(MEASURE_S / RUNS).rate for _ in range(RUNS)]
            return statistics.median(rates), max(used_mb() - before_mb, 0.0)
        finally:
            trial.close()
            set_threads(threads)  # a trial may change the number

    return grow(configs, measure, MEMORY_SHARE * free_memory_mb(device)[0])


def _with(config: TrainConfig, section: str, **values: Any) -> TrainConfig:
    return replace(config, **{section: replace(getattr(config, section), **values)})
