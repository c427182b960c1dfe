"""Settings chosen by measuring: the advisor's trials and questions, and `=auto` for env.num_envs and algo.minibatches.

A trial is the training that `slipstream train` would run, without its logs.
"""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from slipstream.config.compose import flat_settings, load_train, to_dict, with_values
from slipstream.config.help import ConfigError
from slipstream.config.schema import CHOSEN_BY_MEASURING, TrainConfig
from slipstream.monitor.advisor import ADVISED, Advisor, Keep, Question
from slipstream.monitor.gauges import memory_gauges
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.storage.tensor_file import available_memory
from slipstream.training.outputs import ReadBack
from slipstream.training.trainer import Trainer

MIN_ITERATIONS_AHEAD = 6  # of a run: the end of a run costs a collector that runs ahead part of a batch
WARM_UP = {"plain": 1, "graphs": 4, "compiled": 4}  # iterations: set-up, rehearsals, the capture
# A trial logs nothing and starts from fresh weights. Its length stays the user's, because `compile=auto` depends on it.
TRIAL_SETTINGS = {"quiet": True, "resume": None, "init": None, "init_replay": None, "wandb.mode": "disabled"}
FEWEST_MINIBATCHES = 4  # PPO needs several steps per batch

KNEE = 1.10  # a doubled size must bring at least this factor
PAIRS, RUN_S = 3, 0.3  # of runs per size
MEMORY_SHARE = 0.8  # of the free memory may be used
SMALLEST = {"cpu": 64, "cuda": 1024}
LARGEST = {"cpu": 4096, "cuda": 131_072}
MIN_MINIBATCH_FRAMES = 256

Log = Callable[[str], None]


class TrainingTrial:
    """One training: `Trainer.step` again and again, without logs."""

    def __init__(self, config: TrainConfig, log: Log = lambda text: None) -> None:
        self.device = resolve_device(config.device)
        before_mb = self._used_mb()
        self.trainer = Trainer(config)
        self._threads = torch.get_num_threads()  # without those that a collector beside the learner has taken
        self._readings = ReadBack(self.device)
        self.trainer.capture(log)
        self._iterate(WARM_UP[self.trainer.execution_mode()])
        self._wait()
        self.memory_mb = max(self._used_mb() - before_mb, 0.0)

    def setting(self, key: str) -> Any:
        """Return the value of a dotted key; None if there is no such key."""
        return flat_settings(to_dict(self.trainer.cfg)).get(key)

    def run(self, seconds: float) -> float:
        """Train for about `seconds`; return the frames per second. Nothing is under way before or after, so the gain of
        a pipeline is rather underestimated."""
        set_threads(self._threads)
        fewest = MIN_ITERATIONS_AHEAD if self.trainer.collector.runs_ahead else 1
        began, iterations = time.perf_counter(), 0
        while iterations < fewest or time.perf_counter() - began < seconds:
            self._iterate(1)
            iterations += 1
        self._wait()
        return iterations * self.trainer.frames_per_batch / (time.perf_counter() - began)

    def close(self) -> None:
        """Stop its threads and free its memory."""
        self.trainer.close()
        if self.trainer.execution_mode() == "compiled":
            torch.compiler.reset()
        del self.trainer
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def free_mb(self) -> float:
        """Return the free memory of the device, in MB."""
        return (torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else available_memory()) / 2**20

    def _used_mb(self) -> float:
        gauges = memory_gauges(self.device)
        return (gauges.get("gpu_reserved_mb") or gauges.get("rss_mb") or (lambda: 0.0))()

    def _iterate(self, count: int) -> None:
        for _ in range(count):
            self._readings.send(None, self.trainer.step().metrics)
            self._readings.take(wait=False)

    def _wait(self) -> None:
        self.trainer.collector.settle()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


# -- advice ------------------------------------------------------------------------------------------------------------


def load_trial(words: Sequence[str], changes: Mapping[str, Any]) -> TrainConfig:
    """Return the config of a trial of `words` (key=value, as for `slipstream train`) with changes."""
    config: TrainConfig = with_values(load_train(words), TRIAL_SETTINGS | dict(changes))
    if hasattr(config.algo, "warmup"):
        config.algo.warmup = min(config.algo.warmup, 1)  # learn from the first iteration on
    return config


def training_questions() -> list[Question]:
    """Return all questions: changes of speed alone first."""
    return [
        Question("collect.pipeline", _pipeline, "data are one update old"),
        Question("algo.bf16", _bf16, "the network in bf16"),
        Question("algo.minibatches", _minibatches, "fewer, larger gradient steps", only_shown=True),
        Question("env.num_envs", lambda now, trial: 2 * now, "fewer updates per frame", only_shown=True),
    ]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pipeline(now: str, trial: TrainingTrial) -> str:
    controller = trial.trainer.controller
    if now != "off":
        return Keep(f"it is {now}")
    if controller is not None:
        return Keep(f"the {controller.name} changes the env between iterations: collecting cannot run ahead")
    alone = trial.device.type == "cpu" and _cores() < 2
    return Keep("one core: nothing can run beside the learning") if alone else "on"


def _bf16(now: bool | None, trial: TrainingTrial) -> Any:
    if now is None:
        return Keep("this algorithm has no bf16")
    if trial.device.type == "cpu" or not torch.cuda.is_bf16_supported():
        return Keep("a CPU gains nothing by it" if trial.device.type == "cpu" else "this GPU has no bf16")
    return Keep("it is on") if now else True


def _minibatches(now: int | None, trial: TrainingTrial) -> Any:
    if now is None:
        return Keep("this algorithm has no minibatches")
    few = now % 2 or now // 2 < FEWEST_MINIBATCHES
    return Keep(f"{now} gradient steps per epoch are few already") if few else now // 2


# -- sizes -------------------------------------------------------------------------------------------------------------


def choose_sizes(config: TrainConfig, log: Log = print, open_trial: Any = TrainingTrial) -> TrainConfig:
    """Return the config with a number for every key of `config.auto`.

    Raises:
        ConfigError: A key cannot be chosen by measuring.
    """
    asked, config = config.auto, replace(config, auto=[])
    for key in asked:
        if key not in CHOSEN_BY_MEASURING:
            raise ConfigError(f"{key}=auto: only env.num_envs and algo.minibatches can be chosen by measuring")
    if "algo.minibatches" in asked and not hasattr(config.algo, "minibatches"):
        raise ConfigError(f"algo.minibatches=auto: algo={config.algo.name} has no minibatches; leave it out")
    if "env.num_envs" in asked:  # first: the minibatches are cut from its frames
        config = _grow(config, "env.num_envs", _env_sizes(config), log, open_trial)
    if "algo.minibatches" in asked:
        frames = config.env.num_envs * config.algo.rollout_steps
        counts = [n for n in (64, 32, 16, 8, 4) if frames % n == 0 and frames // n >= MIN_MINIBATCH_FRAMES]
        counts = counts or [max(n for n in (4, 2, 1) if frames % n == 0)]
        config = _grow(config, "algo.minibatches", counts, log, open_trial)
    return config


def _env_sizes(config: TrainConfig) -> list[int]:
    """Return doubled numbers of environments that hold all maps and divide into the minibatches."""
    device = resolve_device(config.device).type
    step = getattr(config.algo, "minibatches", 1)
    step //= math.gcd(step, config.algo.rollout_steps)
    least = max(SMALLEST[device], getattr(config.env, "num_worlds", 1))
    smallest = step * 2 ** max(0, math.ceil(math.log2(least / step)))
    return [smallest * 2**k for k in range(int(math.log2(max(LARGEST[device] / smallest, 1))) + 1)]


def _grow(config: TrainConfig, key: str, values: list[int], log: Log, open_trial: Any) -> TrainConfig:
    """Return the config with the last of `values` that pays. Each makes batches or minibatches twice as large."""

    def larger(now: int, trial: Any) -> int | Keep:
        if now == values[-1]:
            return Keep("the largest size allowed")
        if 2 * trial.memory_mb > MEMORY_SHARE * trial.free_mb():
            return Keep(f"twice as much would not fit into {trial.free_mb() / 1024:.1f} GB")
        return values[values.index(now) + 1]

    def open_size(changes: Mapping[str, int]) -> Any:
        # as long as the run: `compile=auto` depends on it
        return open_trial(with_values(config, {key: values[0], "quiet": True, "init": None} | dict(changes)))

    question = Question(key, larger, min_gain=KNEE, repeat=True)
    report = Advisor(open_size, [question], math.inf, pairs=PAIRS, run_s=RUN_S).advise()
    value, last = report.overrides.get(key, values[0]), report.findings[-1]
    gains = ", ".join(f"{f.value:,}: {f.gain:.2f} ×" for f in report.findings if f.verdict == ADVISED)
    why = last.why or f"{last.value:,} brings only {last.gain:.2f} × the frames/s"
    log(f"{key}={value}: {why} (from {values[0]:,} on, {gains or 'none'})")
    chosen: TrainConfig = with_values(config, {key: value})
    return chosen
