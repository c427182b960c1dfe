"""slipstream bench: measure frames per second of rollout, update and complete iterations of PPO, at NavRL's settings.

    slipstream bench train                           256 to 65,536 environments on a GPU, 64 to 1,024 on a CPU
    slipstream bench train sizes=1024,16384          only these
    slipstream bench train forms=plain,compiled      of plain, graphs, compiled
    slipstream bench train algo.bf16=true            any key of `slipstream train`
    slipstream bench train out=train.md              write the table as Markdown too

Every form runs in this process, one after the other, each with its own env, policy and memory. From a clone,
`python benchmarks/train_torchrl.py` takes the same words and measures TorchRL's PPO too, and `benchmarks/env.py`
measures how fast an env steps.
"""

from __future__ import annotations

import argparse
import gc
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from slipstream.config.help import ConfigError, unknown
from slipstream.config.overrides import split_keys
from slipstream.config.schema import TrainConfig
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.training.trainer import Trainer
from slipstream.ui.tables import TextTable

Peer = Callable[[TrainConfig, torch.device], Any]  # makes a training with the methods of `Trainer` used here
GPU_SIZES, CPU_SIZES = "256,1024,4096,16384,65536", "64,256,1024"
WARM_UP = 4  # iterations: set-up, two rehearsals, the capture
MEASURED_S = 1.5
HEADER = {"envs": 7, "form": 9, "rollout": 11, "update": 11, "end to end": 11, "kernels": 8, "memory": 8, "set-up": 6}


def run(args: argparse.Namespace) -> int:
    """`slipstream bench train [key=value ...]`."""
    if args.words[:1] != ["train"]:
        raise ConfigError("slipstream bench measures training: slipstream bench train; benchmarks/env.py measures envs")
    return measure_training(args.words[1:])


def measure_training(argv: Sequence[str], peers: Mapping[str, Peer] = MappingProxyType({})) -> int:
    """Print how fast a training is, with `peers`, other trainings by the name of the form."""
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
    sizes = own.get("sizes", GPU_SIZES if cuda else CPU_SIZES).split(",")
    if not all(size.isdigit() and int(size) for size in sizes):
        raise ConfigError(f"sizes={own['sizes']} are not numbers of environments: use sizes=1024,16384")
    known = (*EXECUTION_MODES, *peers)
    forms = own.get("forms", ",".join(form for form in known if cuda or form != "graphs")).split(",")
    for form in forms:
        if form not in known:
            raise unknown("form", form, known)
    makers = {form: peers.get(form, partial(_make_training, form)) for form in forms}
    algo = cfg.algo
    steps = f"{algo.rollout_steps} steps, {algo.epochs} x {algo.minibatches} minibatches"
    precision = "bf16" if algo.bf16 else "float32"
    title = f"PPO on {describe_device(device)}, frames per second: {steps}, {precision}; task={cfg.task}"
    table = TextTable(title, list(HEADER), list(measure_all(cfg, device, list(map(int, sizes)), makers)))
    print(table.render(140))
    if "out" in own:
        Path(own["out"]).write_text(f"{date.today()}, torch {torch.__version__}. {title}\n\n{table.markdown()}")
    return 0


def measure_all(
    cfg: TrainConfig, device: torch.device, sizes: list[int], makers: Mapping[str, Peer]
) -> Iterator[list[str]]:
    """Yield a row for each size and form. A form that is not installed or does not fit is printed and left out."""
    for size in sizes:
        for form, make in makers.items():
            here = replace(cfg, env=replace(cfg.env, num_envs=size))
            try:
                row = [f"{size:,}", form, *measure(here, make, device)]
            except (torch.OutOfMemoryError, ImportError) as error:
                print(f"{size:>7,} {form:10} left out: {str(error).splitlines()[0]}", flush=True)
                continue
            finally:
                torch.compiler.reset()
                gc.collect()
                if device.type == "cuda":
                    torch.cuda.empty_cache()
            cells = zip(row, HEADER.values(), strict=True)
            print("  ".join(f"{cell:>{width}}" for cell, width in cells), flush=True)
            yield row


def measure(cfg: TrainConfig, make: Peer, device: torch.device) -> list[str]:
    """Return frames per second of collecting, of learning, and of iterations as they follow one another in a run; on a
    GPU the kernels of an iteration and the memory reserved; and the time to the first replay."""
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    began = time.perf_counter()
    training = make(cfg, device)
    for _ in range(WARM_UP):
        training.step()
    if cuda:
        torch.cuda.synchronize(device)
    setup_s = time.perf_counter() - began
    batch = training.collect()
    update_s = _seconds(lambda: training.learn(batch, 0.0))  # first: collecting overwrites the batch
    times = _seconds(training.collect), update_s, _seconds(training.step)
    rates = [f"{training.frames_per_batch / seconds:,.0f}" for seconds in times]
    kernels = f"{_count_kernels(training.step):,}" if cuda else "–"
    memory = f"{torch.cuda.max_memory_reserved(device) / 2**30:.1f} GB" if cuda else "–"
    training.close()
    return [*rates, kernels, memory, f"{setup_s:.0f} s"]


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


def describe_device(device: torch.device) -> str:
    """Return the name of a device for a title."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} CPU threads ({platform.machine()})"
