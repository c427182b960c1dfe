"""Settings chosen by measuring: the advisor's probe and questions, and `=auto` for env.num_envs and algo.minibatches.

A trial is the training that `slipstream train` would run, without its logs.
"""

from __future__ import annotations

import functools
import gc
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.config.schema import CHOSEN_BY_MEASURING, TrainConfig
from slipstream.monitor import PerformanceMonitor
from slipstream.monitor.advisor import Keep, Question, Sample, Situation
from slipstream.monitor.gauges import memory_gauges
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.storage.tensor_file import available_memory
from slipstream.training.readback import ReadBack
from slipstream.training.trainer import Trainer

MIN_ITERATIONS_AHEAD = 6  # of a run: the end of a run costs a collector that runs ahead part of a batch
WARM_UP = {"plain": 1, "graphs": 4, "compiled": 4}  # iterations: set-up, rehearsals, the capture
# A trial logs nothing and starts from fresh weights. Its length stays the user's, because `compile=auto` depends on it.
TRIAL_SETTINGS = {"quiet": True, "resume": None, "init": None, "init_replay": None, "wandb.mode": "disabled"}
FEWEST_MINIBATCHES = 4  # PPO needs several steps per batch

KNEE = 1.10  # a doubled size must bring at least this factor
MEMORY_SHARE = 0.8  # of the free memory may be used
MEASURE_S, RUNS = 1.0, 3  # per size
SMALLEST = {"cpu": 64, "cuda": 1024}
LARGEST = {"cpu": 4096, "cuda": 131_072}
MIN_MINIBATCH_FRAMES = 256

OpenTrial = Callable[[TrainConfig], Any]
Log = Callable[[str], None]


class TrainingProbe:
    """Opens trainings of the configuration that `words` (key=value, as for `slipstream train`) describe, with
    changes."""

    def __init__(self, words: Iterable[str] = (), log: Log = lambda text: None) -> None:
        self.words = list(words)
        self.config = self.load({})
        self._log = log
        self._threads = torch.get_num_threads()

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
        fewest = MIN_ITERATIONS_AHEAD if self.trainer.collector.runs_ahead else 1
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
        return Sample(iterations * self.trainer.frames_per_batch, elapsed_s, exposed)

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


def format_value(value: Any) -> str:
    """Return a value as it is written in key=value."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


# -- questions ---------------------------------------------------------------------------------------------------------


def training_questions() -> list[Question]:
    """Return all questions: changes of speed alone first."""
    return [
        Question("collect.pipeline", _pipeline, "data are one update old"),
        Question("threads", _threads),
        Question("algo.bf16", _bf16, "the network in bf16"),
        Question("compile", _compile, set_up_s=40.0),
        Question("algo.minibatches", _minibatches, "fewer, larger gradient steps", only_shown=True),
        Question("env.num_envs", _num_envs, "larger batches: fewer updates per frame", only_shown=True),
    ]


def _trainer(s: Situation) -> Trainer:
    trial: Any = s.trial
    return trial.trainer


def _on_gpu(s: Situation) -> bool:
    return _trainer(s).env.device.type == "cuda"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pipeline(s: Situation) -> Any:
    controller = _trainer(s).controller
    if s.setting("collect.pipeline") != "off":
        return Keep(f"it is {s.setting('collect.pipeline')}")
    if controller is not None:
        return Keep(f"the {controller.name} changes the env between iterations: collecting cannot run ahead")
    return Keep("one core: nothing can run beside the learning") if not _on_gpu(s) and _cores() < 2 else "on"


def _threads(s: Situation) -> Any:
    now, cores = s.setting("threads") or torch.get_num_threads(), _cores()
    if _on_gpu(s) or now == cores == 1:
        return Keep("the work is on the GPU" if _on_gpu(s) else "one core, one thread")
    return now // 2 if now == cores else cores  # small work can be faster on fewer threads


def _bf16(s: Situation) -> Any:
    now = s.setting("algo.bf16")
    if now is None:
        return Keep(f"algo={s.setting('algo.name')} has no bf16")
    if not _on_gpu(s) or not torch.cuda.is_bf16_supported():
        return Keep("a CPU gains nothing by it" if not _on_gpu(s) else "this GPU has no bf16")
    return Keep("it is on") if now else True


def _compile(s: Situation) -> Any:
    if not _trainer(s).learner.supports_capture:
        return Keep(f"the update of algo={s.setting('algo.name')} cannot be compiled")
    if not _on_gpu(s):
        return Keep("it gains nothing on a CPU (1.04 × where it was measured)")
    if _trainer(s).execution_mode() == "compiled":
        return Keep("it is on" if s.setting("compile") == "on" else "auto compiles a run this long")
    return "on"


def _minibatches(s: Situation) -> Any:
    now = s.setting("algo.minibatches")
    if now is None:
        return Keep(f"algo={s.setting('algo.name')} has no minibatches")
    few = now % 2 or now // 2 < FEWEST_MINIBATCHES
    return Keep(f"{now} gradient steps per epoch are few already") if few else now // 2


def _num_envs(s: Situation) -> int:
    return 2 * s.setting("env.num_envs")


# -- sizes -------------------------------------------------------------------------------------------------------------


def grow(
    sizes: Iterable[int], measure: Callable[[int], tuple[float, float]], room_mb: float
) -> tuple[int, str, dict[int, float]]:
    """Return the last of the growing `sizes` that pays, the reason, and the frames per second of all that were tried.

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
            return best, f"{size:,} brings only {gain:.2f} × the frames/s", rates
        last = size
    return last, why, rates


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
        sizes = _env_sizes(config)
        config = _choose("env.num_envs", {n: (n, _with(config, "env", num_envs=n)) for n in sizes}, log, open_trial)
    if "algo.minibatches" in asked:
        frames = config.env.num_envs * config.algo.rollout_steps
        counts = [n for n in (64, 32, 16, 8, 4) if frames % n == 0 and frames // n >= MIN_MINIBATCH_FRAMES]
        counts = counts or [max(n for n in (4, 2, 1) if frames % n == 0)]
        configs = {frames // n: (n, _with(config, "algo", minibatches=n)) for n in counts}
        config = _choose("algo.minibatches", configs, log, open_trial)
    return config


def _env_sizes(config: TrainConfig) -> list[int]:
    """Return doubled numbers of environments that hold all maps and divide into the minibatches."""
    device = resolve_device(config.device).type
    step = getattr(config.algo, "minibatches", 1)
    step //= math.gcd(step, config.algo.rollout_steps)
    least = max(SMALLEST[device], getattr(config.env, "num_worlds", 1))
    smallest = step * 2 ** max(0, math.ceil(math.log2(least / step)))
    return [smallest * 2**k for k in range(int(math.log2(max(LARGEST[device] / smallest, 1))) + 1)]


def _choose(key: str, configs: dict[int, tuple[int, TrainConfig]], log: Log, open_trial: OpenTrial) -> TrainConfig:
    """Measure `configs` (size: value, config), the smallest first, until a larger one does not pay."""
    device = resolve_device(next(iter(configs.values()))[1].device)
    gauges = memory_gauges(device)
    used_mb = gauges.get("gpu_reserved_mb") or gauges.get("rss_mb") or (lambda: 0.0)

    def measure(size: int) -> tuple[float, float]:
        before_mb, threads = used_mb(), torch.get_num_threads()
        # as long as the run: `compile=auto` depends on it
        trial = open_trial(replace(configs[size][1], quiet=True, init=None))
        try:
            rates = [trial.run(MEASURE_S / RUNS).rate for _ in range(RUNS)]
            return statistics.median(rates), max(used_mb() - before_mb, 0.0)
        finally:
            trial.close()
            set_threads(threads)  # a trial may change the number

    free_mb = (torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available_memory()) / 2**20
    size, why, rates = grow(configs, measure, MEMORY_SHARE * free_mb)
    value, config = configs[size]
    tried = ", ".join(f"{size:,}: {rate:,.0f}" for size, rate in rates.items())
    log(f"{key}={value} (size {size:,}): {rates[size]:,.0f} frames/s; {why} (tried {tried})")
    return config


def _with(config: TrainConfig, section: str, **values: Any) -> TrainConfig:
    return replace(config, **{section: replace(getattr(config, section), **values)})
