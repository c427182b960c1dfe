"""Short trainings of a configuration, as `slipstream train` would run it, for whoever wants to compare settings."""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from slipstream.checkpoint import AsyncCheckpointSaver
from slipstream.config.compose import load_train
from slipstream.config.schema import TrainConfig
from slipstream.monitor import PerformanceMonitor
from slipstream.monitor.asking import Sample, Trial
from slipstream.monitor.comparing import in_turns
from slipstream.monitor.gauges import memory_gauges
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.training.clock import Clock
from slipstream.training.readback import ReadBack
from slipstream.training.trainer import Trainer

FEWEST = 1  # iterations of a stretch
FEWEST_PIPELINED = 6  # the standstill at the end costs such a stretch part of one batch
WARM_UP = {"plain": 1, "graphs": 4, "compiled": 4}  # iterations: set-up, rehearsals, the capture

# What a short training must not do, whatever the user's own does. Its length stays the user's: `compile=auto` goes by it.
QUIET = {"quiet": True, "resume": None, "init": None, "wandb.mode": "disabled"}


@dataclass(frozen=True)
class SaveCost:
    """Of one checkpoint."""

    lost_s: float  # of training
    write_s: float  # of the writing thread
    bytes: int


class TrainingProbe:
    """Opens the configuration that `words` (key=value, as for `slipstream train`) describe, changed as asked."""

    def __init__(self, words: Iterable[str] = (), tell: Callable[[str], None] = lambda text: None) -> None:
        self.words = list(words)
        self.config = self.load({})
        self.device = resolve_device(self.config.device)
        self._tell = tell
        self._all_threads = torch.get_num_threads()
        self._facts = machine_facts(self.device, self._all_threads)

    def load(self, overrides: Mapping[str, Any]) -> TrainConfig:
        """The configuration with `overrides`."""
        return load_train([*self.words, *(f"{key}={as_word(value)}" for key, value in overrides.items())])

    def open(self, overrides: Mapping[str, Any]) -> TrainingTrial:
        """A training, set up and warm."""
        config = self.load({**overrides, **QUIET})
        if hasattr(config.algo, "warmup"):
            config.algo.warmup = min(config.algo.warmup, 1)  # learning from the first iteration on
        set_threads(config.threads or self._all_threads)
        return TrainingTrial(config, self._tell, overrides)

    def facts(self) -> dict[str, Any]:
        """Device, cores and memory."""
        return self._facts

    def gain_over_half(self, trial: Trial) -> float | None:
        """How many times as many frames a second `trial` makes as one with half the environments; None where half cannot be."""
        assert isinstance(trial, TrainingTrial)
        try:
            half = self.open({**trial.overrides, "env.num_envs": trial.trainer.env.num_envs // 2})
        except ValueError:
            return None
        try:
            return in_turns(lambda: half.run(0.0).rate, lambda: trial.run(0.0).rate, 3).ratio
        finally:
            half.close()

    def setting(self, key: str) -> Any:
        """The user's own value of a dotted key; None where there is no such key."""
        value: Any = self.config
        for name in key.split("."):
            value = getattr(value, name, None)
        return value

    def close(self) -> None:
        """Leaves the process's threads as they were."""
        set_threads(self._all_threads)


class TrainingTrial:
    """One training: `Trainer.step` again and again, without logs. `overrides` are what was changed for it."""

    def __init__(
        self,
        config: TrainConfig,
        tell: Callable[[str], None] = lambda text: None,
        overrides: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.overrides = dict(overrides)
        self._monitor = PerformanceMonitor()
        self.trainer = Trainer(config, self._monitor)
        self.device = self.trainer.env.device
        self._threads = torch.get_num_threads()  # a collector beside the learner has taken its share
        self.form = self.trainer.execution_mode()
        self.trainer.capture(tell)
        self._readings = ReadBack(self.device)
        self._iterate(WARM_UP[self.form])
        self._settle()

    def run(self, seconds: float) -> Sample:
        """Trains for about that long, from a standstill to a standstill: a batch begun beforehand does not count as free.

        So the gain of a pipeline is rather told too small than too large.
        """
        set_threads(self._threads)
        fewest = FEWEST_PIPELINED if self.trainer.collector.runs_ahead else FEWEST
        self._monitor.reset()
        self._monitor.tick()
        began = time.perf_counter()
        iterations = 0
        while iterations < fewest or time.perf_counter() - began < seconds:
            self._iterate(1)
            iterations += 1
        self._settle()
        gone = time.perf_counter() - began
        if self.device.type == "cuda":  # only now have the last iterations' device times arrived
            self._monitor.tick()
        exposed = {name: wait["share"] for name, wait in self._monitor.get_exposed(iterations + 1).items()}
        return Sample(iterations * self.trainer.frames_per_batch, gone, exposed, iterations)

    def cost_of_a_save(self, level: int, compress: bool | str, rounds: int = 2) -> SaveCost:
        """What one checkpoint takes: iterations while it is copied and written, against as many without."""
        set_threads(self._threads)
        lost, sizes = [], []
        with tempfile.TemporaryDirectory() as folder, AsyncCheckpointSaver(compression_level=level) as saver:
            for number in range(rounds + 1):  # the first one makes the buffers
                began, iterations = time.perf_counter(), 0
                saver.save_async(
                    self.trainer.state_dict(number, Clock(0.0)), Path(folder) / f"{number}.pt", compress, step=number
                )
                while iterations < 1 or saver.get_stats()["total_saved"] <= number:
                    self._iterate(1)
                    iterations += 1
                self._settle()
                between = time.perf_counter()
                self._iterate(iterations)
                self._settle()
                lost.append((between - began) - (time.perf_counter() - between))
                sizes.append(max(file.stat().st_size for file in Path(folder).glob(f"{number}.pt*")))
            stats = saver.get_stats()
        return SaveCost(
            max(statistics.median(lost[1:]), stats["blocking_ms_median"] / 1e3),
            stats["background_ms_median"] / 1e3,
            sizes[-1],
        )

    def close(self) -> None:
        """Ends its threads and gives its memory back."""
        self.trainer.close()
        compiled = self.form == "compiled"
        del self.trainer
        if compiled:
            torch.compiler.reset()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _iterate(self, count: int) -> None:
        for _ in range(count):
            self._readings.send(None, self.trainer.step().metrics)
            with self._monitor.timer("read back"):
                self._readings.take(wait=False)
            self._monitor.tick()

    def _settle(self) -> None:
        self.trainer.collector.settle()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def machine_facts(device: torch.device, threads: int) -> dict[str, Any]:
    """Where it runs: device and its name, cores, threads, free and all memory in MB."""
    free_mb, all_mb = free_memory_mb(device)
    cuda = device.type == "cuda"
    return {
        "device": device.type,
        "name": torch.cuda.get_device_name(device) if cuda else f"{threads} CPU threads",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "threads": threads,
        "free_mb": free_mb,
        "all_mb": all_mb,
        "bf16": cuda and torch.cuda.is_bf16_supported(),
    }


def free_memory_mb(device: torch.device) -> tuple[float, float]:
    """Memory that can be had, and all there is, in MB: the device's, or the machine's."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return free / 2**20, total / 2**20
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) / 1024, int(lines["MemTotal"].split()[0]) / 1024
    except (OSError, KeyError):
        return float("inf"), float("inf")


def used_memory_mb(device: torch.device) -> float:
    """What this process holds there, in MB: what torch has reserved on a device, or the resident memory."""
    gauges = memory_gauges(device)
    read = gauges.get("gpu_reserved_mb") or gauges.get("rss_mb")
    return read() if read else 0.0


def as_word(value: Any) -> str:
    """A value as it is written in key=value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(as_word, value)) + "]"
    return "null" if value is None else str(value)
