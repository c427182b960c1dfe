"""Record, show, check, draw and convert saved batches. The exit code is 1 if a file is broken."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slipstream.cli import add_subcommands
from slipstream.config import registry
from slipstream.config.help import ConfigError
from slipstream.config.overrides import split_keys
from slipstream.config.values import read
from slipstream.rollouts.episodes import EpisodeRef, find_episodes, outcome_key, read_episode
from slipstream.rollouts.export import FORMATS, export
from slipstream.rollouts.reader import BROKEN, RolloutFile, find_keys
from slipstream.rollouts.storage import OnBroken, RolloutStorage, iteration_of, rollout_files
from slipstream.storage.codec.registry import CodecError, codec_name, read_header
from slipstream.storage.files import default_output
from slipstream.ui.figures import draw_curves

MOST_CURVES = 6  # episodes drawn as curves, unless they are named
REMEDY = ("A broken file cannot be repaired: copy it again from where it came, or delete it or move it away. Until then `show` and "
          "`export` skip it, and so does RolloutStorage(folder, on_broken='skip').")  # fmt: skip
IN_PLACES = ("If only some places are damaged, other keys and environments can be read: load(iteration, keys=[...]), "
             "load_slice(iteration, envs=[...]).")  # fmt: skip
RECORD_KEYS = {"frames": 100_000, "envs": 64, "steps": 32, "actions": "mean", "out": ""}
RECORD_HELP = """Fly a policy and save every batch, as rollout_save_interval does in a training.

  checkpoint=runs/NAME  the policy: a run, a checkpoint or a policy file; the shipped one of task= by default
  frames=100000         at least so many; complete batches are saved
  envs=64 steps=32      the size of a batch
  actions=mean          as in an evaluation; sampled: as in a training
  out=FOLDER            by default `recorded` in the folder of the run, or here

Other keys are those of slipstream eval: task=, env.*, seed=, device=, threads=. The env is that of the policy's training.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    add_command = add_subcommands(parser, __doc__)

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command: argparse.ArgumentParser = add_command(name, function, text)
        command.add_argument("path", type=Path, help="a folder of rollouts, a run folder, or one rollout file")
        return command

    add("ls", _ls, "list the batches of a folder")
    show = add("show", _show, "show the keys, sizes, codecs and episodes of a batch; with --picture, draw its episodes")
    show.add_argument("iteration", type=int, nargs="?", help="which batch (default: the last readable one)")
    show.add_argument("--picture", type=Path, metavar="PNG", help="draw episodes as curves")
    show.add_argument("--episodes", help="which ones: 0,3,10-20 (default: 6, evenly spread)")
    show.add_argument("--all", action="store_true", help="use the episodes of all batches, joined across batches")
    show.add_argument("--keys", help="keys to draw as curves, by commas: reward,observation.state")
    add("verify", _verify, "check every byte of a file or folder; print each broken file, the key and the place")
    out = add("export", _export, "export batches: HDF5 by batch, Parquet by step, Minari by episode")
    out.add_argument("--to", choices=tuple(FORMATS), required=True)
    out.add_argument("--out", type=Path, help="where to (default: beside the rollouts)")
    out.add_argument("--iterations", help="which batches, as numbers and ranges: 0,100-500 (default: all)")
    out.add_argument("--keys", help="which keys, by commas (default: all)")
    record = add_command("record", _record, "fly a policy and save its batches: record checkpoint=RUN frames=100000")
    record.description = RECORD_HELP
    record.add_argument("words", nargs="*", metavar="key=value")


class _Skipped:
    """Warns once, on stderr, of every broken thing that a command skips."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def __call__(self, path: Path, error: Exception) -> None:
        self.warn(path.name, f"skipped a broken file ({error})")

    def warn(self, name: str, text: str) -> None:
        """Print a warning, unless `name` had one."""
        if name not in self._warned:
            self._warned.add(name)
            print(f"warning: {text}", file=sys.stderr)

    @property
    def exit_code(self) -> int:
        """1 if something was skipped: scripts should notice."""
        return 1 if self._warned else 0


def _find(path: Path, on_broken: OnBroken = "raise") -> tuple[RolloutStorage, list[int]]:
    """Return the storage and the iterations that `path` names, broken ones too."""
    if path.is_file():
        return RolloutStorage(path.parent, on_broken=on_broken), [iteration_of(path)]
    for folder in (path, path / "rollouts"):
        if files := rollout_files(folder):
            return RolloutStorage(folder, on_broken=on_broken), [iteration_of(file) for file in files]
    raise FileNotFoundError(f"{path} has no rollouts: give a folder with rollout_000000.slip files, or a run that was saved with "
                            "rollout_save_interval")  # fmt: skip


def _numbers(text: str | None, among: list[int], what: str) -> list[int]:
    """Parse `0,3,10-20`; return those numbers of `among`."""
    if text is None:
        return among
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not low.strip().isdigit() or (high and not high.strip().isdigit()):
            raise ValueError(f"--{what} {text}: write numbers and ranges, as 0,3,10-20")
        inside = [n for n in among if int(low) <= n <= int(high or low)]
        if not inside:
            there = f"there are {among[0]} to {among[-1]}" if among else f"there are no {what}"
            raise ValueError(f"--{what} {part}: there is none; {there}")
        found += inside
    return found


def _ls(args: argparse.Namespace, console: Console) -> int:
    storage, iterations = _find(args.path)
    table = Table(title=str(storage.save_dir))
    for column in ("iteration", "envs x steps", "keys", "file MB", "tensors MB", "ratio", "saved at", "note"):
        table.add_column(column, justify="left" if column in ("saved at", "note") else "right")
    files = [storage.path_of(i) for i in iterations]
    broken = 0
    for path in files:
        try:
            table.add_row(*_row(path, RolloutFile(path)))
        except BROKEN as error:
            broken += 1
            size = f"{path.stat().st_size / 1e6:.2f}"
            table.add_row(str(iteration_of(path)), "", "", size, "", "", "", f"broken: {error}")
    console.print(table)
    of = f" ({broken} of them broken)" if broken else ""
    console.print(f"{len(files)} batches{of}, {sum(path.stat().st_size for path in files) / 1e6:.2f} MB")
    return 0


def _row(path: Path, file: RolloutFile) -> list[str]:
    size, raw = path.stat().st_size, file.tensor_bytes
    lead = f"{file.envs:,} x {file.steps:,}" if file.lead else "-"
    sizes = f"{size / 1e6:.2f}", f"{raw / 1e6:.2f}", f"{raw / size:.1f}"
    saved = datetime.fromtimestamp(file.saved).strftime("%m-%d %H:%M:%S")
    note = ", ".join(f"{k} {v}" for k, v in file.note.items())
    return [str(iteration_of(path)), lead, str(len(file.columns)), *sizes, saved, note]


def _show(args: argparse.Namespace, console: Console) -> int:
    skipped = _Skipped()
    storage, iterations = _find(args.path, skipped)
    readable = (i for i in reversed(iterations) if storage.readable([i]))
    iteration = next(readable, None) if args.iteration is None else args.iteration
    if iteration is None:
        raise ValueError(f"{args.path}: no batch can be read; `slipstream rollouts verify` shows what is wrong")
    file = storage.file(iteration)
    find_keys(file.keys, args.keys.split(",") if args.keys else None)  # raises before anything is printed
    episodes = find_episodes(storage, iterations if args.all else [iteration]) if file.lead else []
    numbers = _episode_numbers(args, len(episodes))
    _print_keys(file, iteration, console)
    if episodes:
        console.print(_episode_line(episodes))
    if args.picture is not None:
        console.print(f"drew {_picture(args, storage, episodes, numbers, file, skipped)}")
    return skipped.exit_code


def _print_keys(file: RolloutFile, iteration: int, console: Console) -> None:
    lead = f", {file.envs:,} environments x {file.steps:,} steps" if file.lead else ""
    console.print(f"{file.path}: iteration {iteration}{lead}", soft_wrap=True)
    table = Table()
    for title in ("key", "dtype", "per step", "MB", "stored MB", "codec", "note"):
        table.add_column(title, justify="right" if "MB" in title else "left", no_wrap=title == "key")
    for i, column in enumerate(file.columns):
        what, shape = ("", column.shape[len(file.lead) :]) if column.steps else ("no steps", column.shape)
        if column.follows is not None:
            what = f"{column.key[-1]} one step later, except {column.geometry.frames:,}"
        sizes = f"{column.nbytes / 1e6:.3f}", f"{sum(map(len, file.blocks(i))) / 1e6:.3f}"
        per_step = " x ".join(map(str, shape)) or "1"
        table.add_row(_name(column.key), column.dtype, per_step, *sizes, _codecs(file, i), what)
    console.print(table)


def _codecs(file: RolloutFile, i: int) -> str:
    """Return the codecs of a column's blocks, the most frequent first."""
    names: dict[str, int] = {}
    for block in file.blocks(i):
        try:
            name = codec_name(read_header(block).codec)
        except CodecError:
            name = "damaged"
        names[name] = names.get(name, 0) + 1
    return ", ".join(sorted(names, key=lambda name: -names[name]))


def _episode_line(episodes: list[EpisodeRef]) -> str:
    batches = len({piece.iteration for e in episodes for piece in e.pieces})
    ended = [e for e in episodes if e.ended]
    where = "in this batch" if batches == 1 else f"in all {batches:,} batches, joined where one continues another"
    text = f"{len(episodes):,} episodes {where}: {len(ended):,} complete ({sum(e.terminated for e in ended):,} terminated), "
    return text + f"{np.mean([len(e) for e in episodes]):.1f} steps on average"


def _episode_numbers(args: argparse.Namespace, count: int) -> list[int]:
    """Return which of `count` episodes are drawn."""
    if args.picture is not None and not count:
        raise ValueError("there are no episodes to draw: the batch has no [envs, steps], or their ends are broken")
    if args.episodes is not None:
        return _numbers(args.episodes, list(range(count)), "episodes")
    return evenly_spread(count, MOST_CURVES)


def evenly_spread(count: int, most: int) -> list[int]:
    """Return at most `most` numbers below `count`, the same distance apart, from the first to the last."""
    return list(range(count)) if count <= most else [int(n) for n in np.linspace(0, count - 1, most).round()]


def _picture(
    args: argparse.Namespace,
    storage: RolloutStorage,
    episodes: list[EpisodeRef],
    numbers: list[int],
    file: RolloutFile,
    skipped: _Skipped,
) -> Path:
    reward = outcome_key(file.keys, "reward")
    if args.keys:
        keys: list[Any] = args.keys.split(",")
    else:
        keys = [key for key in file.keys if key == reward or key[0] == "observation"]
    read: dict[int, dict[Any, Any]] = {}
    for n in numbers:
        try:
            read[n] = read_episode(storage, episodes[n], keys or None)
        except BROKEN as error:
            skipped.warn(f"episode {n}", f"left out episode {n} ({error})")
    if not read:
        raise ValueError("none of these episodes can be read: choose others with --episodes, or other --keys")
    spread = ", evenly spread" if args.episodes is None and len(numbers) < len(episodes) else ""
    folder = storage.save_dir
    title = f"{folder.parent.name}/{folder.name}, episodes: {len(read):,} of {len(episodes):,}{spread}"
    curves = [_drawn(data, reward) for data in read.values()]
    return draw_curves(args.picture, curves, [f"episode {n}" for n in read], title)


def _drawn(data: dict[Any, Any], first: Any) -> dict[str, Any]:
    """Return the curves of an episode by name, the reward first."""
    keys = sorted((key for key, value in data.items() if not value.is_complex()), key=lambda key: key != first)
    return {_name(key): (data[key].float() if data[key].is_floating_point() else data[key]).numpy() for key in keys}


def _verify(args: argparse.Namespace, console: Console) -> int:
    storage, iterations = _find(args.path)
    table = Table("file", "state", "why")
    broken = in_places = 0
    for iteration in iterations:
        path = storage.path_of(iteration)
        try:
            problems = list(RolloutFile(path).damaged())
            in_places += bool(problems)
        except (*BROKEN, OSError) as error:
            problems = [str(error)]
        broken += bool(problems)
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        state = Text("broken", "red") if problems else Text("good", "green")
        table.add_row(path.name, state, "; ".join(problems[:3]) + more)
    console.print(table)
    console.print(f"{len(iterations) - broken} good, {broken} broken")
    if broken:
        console.print(REMEDY, soft_wrap=True)
    if in_places:
        console.print(IN_PLACES, soft_wrap=True)
    return 1 if broken else 0


def _export(args: argparse.Namespace, console: Console) -> int:
    skipped = _Skipped()
    storage, iterations = _find(args.path, skipped)
    chosen = _numbers(args.iterations, iterations, "iterations")
    out = args.out or storage.save_dir.with_name(storage.save_dir.name + FORMATS[args.to][1])
    console.print(export(storage, args.to, out, chosen, args.keys.split(",") if args.keys else None), soft_wrap=True)
    return skipped.exit_code


def _record(args: argparse.Namespace, console: Console) -> int:
    import torch

    from slipstream.models.exploration import ExplorationType
    from slipstream.models.memory import MEMORY, memory_size
    from slipstream.sim.devices import resolve_device, set_threads
    from slipstream.training.evaluate import configure
    from slipstream.ui.tables import progress_bar

    given, words = split_keys(args.words, RECORD_KEYS)
    frames, envs, steps = (_count(name, given) for name in ("frames", "envs", "steps"))
    kinds = {"mean": ExplorationType.MEAN, "sampled": ExplorationType.RANDOM}
    kind = given.get("actions", "mean")
    if kind not in kinds:
        raise ConfigError(f"actions={kind} must be one of {', '.join(kinds)}")
    cfg, trained = configure(words)
    folder = Path(given["out"]) if given.get("out") else default_output(trained.beside("recorded"))
    if rollout_files(folder):
        raise FileExistsError(f"{folder} has rollout files already: name another folder with out=")
    device = resolve_device(cfg.device)
    if cfg.threads or device.type == "cpu":
        set_threads(cfg.threads)
    with progress_bar("building the env"):
        env = registry.find_task(cfg.task).make_env(cfg.env, device, cfg.seed, envs)
    policy = trained.build(env, device)
    note = {"policy": trained.name, "sha256": trained.sha256[:12], "task": cfg.task, "actions": kind}
    make_collector = registry.find("collector", "sync")
    batches, valid = -(-frames // (envs * steps)), 0
    torch.manual_seed(cfg.seed)
    with (
        make_collector(env, policy, envs * steps, return_same_td=True, exploration_type=kinds[kind]) as collector,
        RolloutStorage(folder) as storage,
        progress_bar(f"flying {batches * envs * steps:,} frames") as progress,
    ):
        for i in range(batches):
            batch = collector.rollout()
            valid += int(batch["valid"].sum())
            # a policy's memory has one row per env, which would be repeated for each step
            storage.save(batch.exclude(MEMORY) if memory_size(policy) else batch, i, note=note)
            progress((i + 1) / batches)
        ended = collector.episodes.pop()
    size = sum(path.stat().st_size for path in rollout_files(folder)) / 1e6
    console.print(
        f"{trained.name}: {batches:,} batches, {valid:,} valid frames, {size:.2f} MB in {folder}", soft_wrap=True
    )
    figures = ", ".join(f"{name} {value:.4g}" for name, value in ended.items() if name != "count")
    console.print(f"{ended['count']:,.0f} episodes ended{f': {figures}' if figures else ''}", soft_wrap=True)
    return 0


def _count(name: str, given: dict[str, str]) -> int:
    """Return the number that a key of `record` has: at least 1."""
    try:
        number = int(read(given.get(name, str(RECORD_KEYS[name])), int))
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigError(f"{name}={given[name]} must be a whole number from 1 on")
    return number


def _name(key: tuple[Any, ...]) -> str:
    return ".".join(map(str, key))
