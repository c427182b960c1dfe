"""slipstream bench train: measure frames per second of rollout, update and complete iterations.

    slipstream bench train                           256 to 65,536 environments on a GPU, 64 to 1,024 on a CPU
    slipstream bench train sizes=1024,16384          only these
    slipstream bench train forms=plain,compiled      of plain, graphs, compiled
    slipstream bench train algo.bf16=true            any key of `slipstream train`; the defaults are NavRL's settings
    slipstream bench train out=train.md              write the table as Markdown too

Every form runs in this process, one after the other, each with its own env, policy and memory.
`python benchmarks/train_torchrl.py` takes the same words and measures TorchRL's PPO too.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch.utils.benchmark import Timer

from slipstream.algorithms.execution.capture import EXECUTION_MODES
from slipstream.config import registry
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.config.overrides import split_keys
from slipstream.config.schema import TrainConfig
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.tasks.bench import describe_device, synchronize
from slipstream.training.trainer import Trainer
from slipstream.ui.tables import TextTable

Peer = Callable[[TrainConfig, torch.device], Any]  # makes a training with the methods of `Trainer` used here
GPU_SIZES, CPU_SIZES = "256,1024,4096,16384,65536", "64,256,1024"
WARM_UP = 4  # iterations: set-up, two rehearsals, the capture
MEASURED_S = 1.5
HEADER = ["envs", "form", "rollout", "update", "end to end", "kernels", "memory", "set-up"]


@dataclass
class Result:
    """One form at one size."""

    num_envs: int
    form: str
    rollout: float  # frames/s
    update: float  # frames/s
    end_to_end: float  # frames/s
    kernels: float  # launched on a GPU in one iteration; 0 on a CPU
    memory_gb: float  # the most that was reserved on a GPU; 0 on a CPU
    setup_s: float  # until the first replay

    def row(self) -> list[str]:
        """Return the cells of the table."""
        rates = [f"{rate:,.0f}" for rate in (self.rollout, self.update, self.end_to_end)]
        memory = f"{self.memory_gb:.1f} GB" if self.memory_gb else "–"
        kernels = f"{self.kernels:,.0f}" if self.kernels else "–"
        return [f"{self.num_envs:,}", self.form, *rates, kernels, memory, f"{self.setup_s:.0f} s"]


def run(argv: list[str], peers: Mapping[str, Peer] = MappingProxyType({})) -> int:
    """`slipstream bench train [key=value ...]`.

    Args:
        peers: Other trainings to measure, by the name of the form.
    """
    own, words = split_keys(argv, ("sizes", "forms", "out"))
    cfg = load_train(words)
    measured_here = registry.DEFAULT_TASK, registry.DEFAULT_ALGORITHM
    if (cfg.task, cfg.algo.name) != measured_here:
        raise ConfigError("slipstream bench train measures task={} algo={}".format(*measured_here))
    if cfg.actors.count:
        raise ConfigError("slipstream bench train measures one process: leave actors.count out")
    device = resolve_device(cfg.device)
    set_threads(cfg.threads)
    cuda = device.type == "cuda"
    sizes = [_number(text) for text in own.get("sizes", GPU_SIZES if cuda else CPU_SIZES).split(",")]
    known = (*EXECUTION_MODES, *peers)
    forms = own.get("forms", ",".join(form for form in known if cuda or form != "graphs")).split(",")
    for form in forms:
        if form not in known:
            raise ConfigError(f"unknown form '{form}': use {', '.join(known)}")
    makers = {form: peers.get(form, partial(_make_training, form)) for form in forms}
    results = list(measure_all(cfg, device, sizes, makers))
    table = make_table(results, device, cfg)
    print(table.render(140))
    if "out" in own:
        title = f"{date.today()}, torch {torch.__version__}. {table.title}"
        Path(own["out"]).write_text(f"{title}\n\n{table.markdown()}")
    return 0


def measure_all(
    cfg: TrainConfig, device: torch.device, sizes: list[int], makers: Mapping[str, Peer]
) -> Iterator[Result]:
    """Yield a result for each size and form. A form that is not installed or does not fit is printed and left out."""
    for size in sizes:
        for form, make in makers.items():
            here = replace(cfg, env=replace(cfg.env, num_envs=size))
            try:
                result = measure(here, form, make, device)
            except (torch.OutOfMemoryError, ImportError) as error:
                print(f"{size:>7,} {form:10} left out: {str(error).splitlines()[0]}", flush=True)
                continue
            finally:
                torch.compiler.reset()
                gc.collect()
                if device.type == "cuda":
                    torch.cuda.empty_cache()
            widths = (7, 9, 11, 11, 11, 8, 8, 6)
            print("  ".join(f"{cell:>{width}}" for cell, width in zip(result.row(), widths, strict=True)), flush=True)
            yield result


def measure(cfg: TrainConfig, form: str, make: Peer, device: torch.device) -> Result:
    """Measure one form at one size: collecting, learning, and iterations as they follow one another in training."""
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    began = time.perf_counter()
    training = make(cfg, device)
    for _ in range(WARM_UP):
        training.step()
    synchronize(device)
    setup_s = time.perf_counter() - began
    batch = training.collect()
    update_s = _seconds(lambda: training.learn(batch, 0.0))  # first: collecting overwrites the batch
    rollout_s, step_s = _seconds(training.collect), _seconds(training.step)
    rollout, update, end_to_end = (training.frames_per_batch / seconds for seconds in (rollout_s, update_s, step_s))
    kernels = _count_kernels(training.step) if cuda else 0
    memory_gb = torch.cuda.max_memory_reserved(device) / 2**30 if cuda else 0.0
    training.close()
    return Result(cfg.env.num_envs, form, rollout, update, end_to_end, kernels, memory_gb, setup_s)


def _make_training(form: str, cfg: TrainConfig, device: torch.device) -> Trainer:
    trainer = Trainer(cfg)
    trainer.capture(print, form)
    return trainer


def _seconds(call: Callable[[], Any]) -> float:
    """Return the time of one call as they follow one another."""
    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    return float(timer.blocked_autorange(min_run_time=MEASURED_S).median)


def _count_kernels(iteration: Callable[[], Any]) -> int:
    """Count the kernels of one iteration, including those inside graphs."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        iteration()
        torch.cuda.synchronize()
    kernels = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return sum(not event.name.startswith(("Memcpy", "Memset")) for event in kernels)


def make_table(results: list[Result], device: torch.device, cfg: TrainConfig) -> TextTable:
    """Return the table, with the settings that matter in its title."""
    algo = cfg.algo
    steps = f"{algo.rollout_steps} steps, {algo.epochs} x {algo.minibatches} minibatches"
    precision = "bf16" if algo.bf16 else "float32"
    title = f"PPO on {describe_device(device)}, frames per second: {steps}, {precision}; task={cfg.task}"
    return TextTable(title, HEADER, [result.row() for result in results])


def _number(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"sizes={text} is not a number of environments: use sizes=1024,16384")
    return int(text)
