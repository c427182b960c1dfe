"""slipstream bench train: frames a second of rollout, update and whole iterations, plain, captured and compiled, and TorchRL's.

    slipstream bench train                           256 to 65,536 drones on a GPU, 64 to 1,024 on a CPU
    slipstream bench train sizes=1024,16384          those only
    slipstream bench train forms=plain,compiled      of plain, graphs, compiled, torchrl
    slipstream bench train algo.bf16=true            any key of `slipstream train`; the defaults are NavRL's settings
    slipstream bench train out=FOLDER                writes train.md, train.json and train.png too

Every form runs in this process, one after the other, each with its own env, policy and memory. TorchRL is its Collector, GAE and
ClipPPOLoss over the same env and the same network (pip install torchrl).
"""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from slipstream.algorithms.execution.capture import EXECUTION_MODES
from slipstream.config import registry
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.config.overrides import split_keys
from slipstream.config.schema import TrainConfig
from slipstream.sim.devices import resolve_device, set_threads
from slipstream.tasks.tables import render
from slipstream.training.trainer import Trainer

GPU_SIZES, CPU_SIZES = (256, 1024, 4096, 16384, 65536), (64, 256, 1024)
WARM_UP = 4  # iterations: set-up, two rehearsals, the capture
HEADER = ("drones", "form", "rollout", "update", "end to end", "kernels", "memory", "set-up")


@dataclass
class Iteration:
    """One form of training, ready to be measured."""

    collect: Callable[[], Any]
    learn: Callable[[Any], Any]
    step: Callable[[], Any]  # both, as a training runs them
    frames: int  # per iteration


@dataclass
class Result:
    """What was measured of one form at one size."""

    drones: int
    form: str
    rollout: float  # frames/s
    update: float  # frames/s
    end_to_end: float  # frames/s
    kernels: float  # launched on a GPU in one iteration; 0 on a CPU
    memory_gb: float  # the most that was reserved on a GPU; 0 on a CPU
    setup_s: float  # until the first replay


def run(argv: list[str]) -> int:
    """`slipstream bench train [key=value ...]`."""
    own, words = split_keys(argv, ("sizes", "forms", "out"))
    cfg = load_train(words)
    measured_here = registry.DEFAULT_TASK, registry.DEFAULT_ALGORITHM
    if (cfg.task, cfg.algo.name) != measured_here:
        raise ConfigError("slipstream bench train measures task={} algo={}".format(*measured_here))
    device = resolve_device(cfg.device)
    set_threads(cfg.threads)
    cuda = device.type == "cuda"
    sizes = (
        [_number(text) for text in own["sizes"].split(",")]
        if "sizes" in own
        else list(GPU_SIZES if cuda else CPU_SIZES)
    )
    forms = (
        own["forms"].split(",")
        if "forms" in own
        else [f for f in (*EXECUTION_MODES, "torchrl") if cuda or f != "graphs"]
    )
    for form in forms:
        if form not in (*EXECUTION_MODES, "torchrl"):
            raise ConfigError(f"unknown form '{form}': use {', '.join((*EXECUTION_MODES, 'torchrl'))}")
    results = list(measured(cfg, device, sizes, forms))
    print(render(_table(results, device, cfg), 140))
    if "out" in own:
        folder = Path(own["out"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "train.md").write_text(markdown(results, device, cfg))
        (folder / "train.json").write_text(json.dumps([asdict(result) for result in results], indent=1))
        print(f"wrote {folder / 'train.md'} and {draw(results, folder / 'train.png', _where(device))}")
    return 0


def measured(cfg: TrainConfig, device: torch.device, sizes: list[int], forms: list[str]) -> Iterator[Result]:
    """A result for each size and form; what cannot be built or does not fit is told and left out."""
    for drones in sizes:
        for form in forms:
            here = replace(cfg, env=replace(cfg.env, num_envs=drones, num_worlds=min(cfg.env.num_worlds, drones)))
            try:
                result = measure(here, form, device)
            except (torch.OutOfMemoryError, ImportError) as error:
                print(f"{drones:>7,} {form:10} left out: {str(error).splitlines()[0]}", flush=True)
                continue
            finally:
                torch.compiler.reset()
                gc.collect()
                if device.type == "cuda":
                    torch.cuda.empty_cache()
            print(
                "  ".join(
                    f"{text:>{width}}" for text, width in zip(_row(result), (7, 9, 11, 11, 11, 8, 8, 6), strict=True)
                ),
                flush=True,
            )
            yield result


def measure(cfg: TrainConfig, form: str, device: torch.device) -> Result:
    """One form at one size: its parts, and whole iterations as they follow one another in training."""
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats(device)
    began = time.perf_counter()
    iteration = _torchrl(cfg, device) if form == "torchrl" else _ours(cfg, form)
    for _ in range(WARM_UP):
        iteration.step()
    _wait(device)
    setup = time.perf_counter() - began
    batch = iteration.collect()
    learn_s = _seconds(lambda: iteration.learn(batch), device)
    collect_s = _seconds(iteration.collect, device)
    whole_s = _seconds(iteration.step, device)
    kernels = _kernels(iteration.step) if cuda else 0
    memory = torch.cuda.max_memory_reserved(device) / 2**30 if cuda else 0.0
    rollout, update, end_to_end = (iteration.frames / seconds for seconds in (collect_s, learn_s, whole_s))
    return Result(cfg.env.num_envs, form, rollout, update, end_to_end, kernels, memory, setup)


def _seconds(call: Callable[[], Any], device: torch.device) -> float:
    """Of one call, as they follow one another: the median over three rounds of about half a second each."""
    start = time.perf_counter()
    call()
    _wait(device)
    calls = max(1, min(100, int(0.5 / (time.perf_counter() - start))))
    rounds = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        _wait(device)
        rounds.append((time.perf_counter() - start) / calls)
    return statistics.median(rounds)


def _ours(cfg: TrainConfig, form: str) -> Iteration:
    trainer = Trainer(cfg)
    trainer.capture(print, form)
    return Iteration(trainer.collect, lambda batch: trainer.learn(batch, 0.0), trainer.step, trainer.frames_per_batch)


def _torchrl(cfg: TrainConfig, device: torch.device) -> Iteration:
    from slipstream.cli.bench.torchrl import torchrl_training

    collect, learn = torchrl_training(cfg, device)
    return Iteration(collect, learn, lambda: learn(collect()), cfg.env.num_envs * cfg.algo.training_frame_num)


def _kernels(iteration: Callable[[], Any]) -> int:
    """Kernels that one iteration runs, those inside of graphs too."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        iteration()
        torch.cuda.synchronize()
    cuda = torch.autograd.DeviceType.CUDA
    return sum(
        event.device_type == cuda and not event.name.startswith(("Memcpy", "Memset")) for event in profiler.events()
    )


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# -- what is shown ---------------------------------------------------------------------------------------------------


def _row(result: Result) -> list[str]:
    rates = [f"{rate:,.0f}" for rate in (result.rollout, result.update, result.end_to_end)]
    memory = f"{result.memory_gb:.1f} GB" if result.memory_gb else "–"
    kernels = f"{result.kernels:,.0f}" if result.kernels else "–"
    return [f"{result.drones:,}", result.form, *rates, kernels, memory, f"{result.setup_s:.0f} s"]


def _settings(cfg: TrainConfig) -> str:
    algo = cfg.algo
    world = registry.find_task(cfg.task).describe_env(cfg.env)
    return f"{algo.training_frame_num} steps, {algo.epochs} x {algo.minibatches} minibatches, {'bf16' if algo.bf16 else 'float32'}; {world}"


def _where(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"{torch.get_num_threads()} CPU threads"


def _table(results: list[Result], device: torch.device, cfg: TrainConfig) -> Table:
    table = Table(title=f"PPO on {_where(device)}, frames a second: {_settings(cfg)}", title_justify="left")
    for name in HEADER:
        table.add_column(name, justify="right")
    for i, result in enumerate(results):
        table.add_row(*_row(result), end_section=i + 1 < len(results) and results[i + 1].drones != result.drones)
    return table


def markdown(results: list[Result], device: torch.device, cfg: TrainConfig) -> str:
    """The table for a file."""
    lines = [f"{date.today()}, {_where(device)}, torch {torch.__version__}: {_settings(cfg)}. Frames a second.", ""]
    lines += ["| " + " | ".join(HEADER) + " |", "|" + "---:|" * len(HEADER)]
    return "\n".join([*lines, *("| " + " | ".join(_row(result)) + " |" for result in results)]) + "\n"


def draw(results: list[Result], path: Path, title: str) -> Path:
    """Frames a second against the number of drones, a line a form."""
    from slipstream.tasks.figures import rates_over_size

    forms = list(dict.fromkeys(result.form for result in results))
    series = {form: [(r.drones, r.end_to_end) for r in results if r.form == form] for form in forms}
    return rates_over_size(path, series, f"PPO training on {title}, end to end", "drones", "frames a second")


def _number(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"sizes= takes numbers of drones, as sizes=1024,16384, not '{text}'")
    return int(text)
