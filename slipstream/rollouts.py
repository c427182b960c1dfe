"""`slipstream rollouts`: look at saved batches, check them, draw their episodes, write them for others."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slipstream.codec.chunk import CodecError
from slipstream.codec.frameformat import codec_name, read_header
from slipstream.runs.flight import COLLISION, SUCCESS, TIMEOUT
from slipstream.runs.rollout_picture import draw_curves, draw_paths, paths_to_goal
from slipstream.store.files import DamagedFileError
from slipstream.store.rollout_episodes import EpisodeRef, find_episodes, outcome_key, read_episode
from slipstream.store.rollout_export import FORMATS, export
from slipstream.store.rollout_reader import RolloutFile
from slipstream.store.rollouts import RolloutError, RolloutStorage, iteration_of, rollout_files
from slipstream.subcommands import run_command

MOST_EPISODES = 96  # drawn, unless they are named


def main(argv: list[str]) -> int:
    """Run one `slipstream rollouts` command; the exit code: 0 good, 1 broken, 2 could not be done."""
    return run_command(_parser(), argv, (RolloutError, DamagedFileError, OSError, KeyError, ValueError, ImportError))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="slipstream rollouts", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=function)
        command.add_argument("path", type=Path, help="a folder of rollouts, a run folder, or one rollout file")
        return command

    add("ls", _ls, "the batches of a folder")
    show = add("show", _show, "what a batch holds: keys, sizes, codecs, episodes; with --picture, its episodes drawn")
    show.add_argument("iteration", type=int, nargs="?", help="which batch (default: the last)")
    show.add_argument("--picture", type=Path, metavar="PNG", help="draw episodes: flown paths of navigation, curves of any other task")
    show.add_argument("--episodes", help="which of them, as numbers and ranges: 0,3,10-20 (default: the first 96, or 6 as curves)")
    show.add_argument("--all", action="store_true", help="count and draw the episodes of all batches, joined where one goes on in the next")
    show.add_argument("--keys", help="keys to draw as curves, by commas: reward,observation.state")
    show.add_argument("--curves", action="store_true", help="curves for navigation too")
    add("verify", _verify, "check every byte of a file or folder; names each broken file, the key and the place")
    out = add("export", _export, "write batches for others: HDF5 by batch, Parquet by step, Minari by episode")
    out.add_argument("--to", choices=tuple(FORMATS), required=True)
    out.add_argument("--out", type=Path, help="where to (default: beside the rollouts)")
    out.add_argument("--iterations", help="which batches, as numbers and ranges: 0,100-500 (default: all)")
    out.add_argument("--keys", help="which keys, by commas (default: all)")
    return parser


def _find(path: Path) -> tuple[RolloutStorage, list[int]]:
    """The storage and the iterations that `path` names."""
    if path.is_file():
        return RolloutStorage(path.parent), [iteration_of(path)]
    for folder in (path, path / "rollouts"):
        if files := rollout_files(folder):
            return RolloutStorage(folder), [iteration_of(file) for file in files]
    raise FileNotFoundError(f"{path} holds no rollouts: give a folder with rollout_000000.slip files, or a run that was saved with "
                            "rollout_save_interval")  # fmt: skip


def _numbers(text: str | None, among: list[int], what: str) -> list[int]:
    """`0,3,10-20` as numbers, those of `among`."""
    if text is None:
        return among
    found: list[int] = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not low.strip().isdigit() or (high and not high.strip().isdigit()):
            raise ValueError(f"--{what} {text}: write numbers and ranges, as 0,3,10-20")
        inside = [n for n in among if int(low) <= n <= int(high or low)]
        if not inside:
            raise ValueError(f"--{what} {part}: there is none; there are {among[0]} to {among[-1]}" if among else f"there are no {what}")
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
        except DamagedFileError as error:
            broken += 1
            size = f"{path.stat().st_size / 1e6:.2f}"
            table.add_row(str(iteration_of(path)), "", "", size, "", "", "", f"[red]broken[/red]: {escape(str(error))}")
    console.print(table)
    of = f" ({broken} of them broken)" if broken else ""
    console.print(f"{len(files)} batches{of}, {sum(path.stat().st_size for path in files) / 1e6:.2f} MB")
    return 0


def _row(path: Path, file: RolloutFile) -> list[str]:
    number, size = str(iteration_of(path)), path.stat().st_size
    lead = f"{file.envs:,} x {file.steps:,}" if file.lead else "-"
    raw = file.tensor_bytes
    saved = datetime.fromtimestamp(file.saved).strftime("%m-%d %H:%M:%S")
    note = ", ".join(f"{k} {v}" for k, v in file.note.items())
    return [number, lead, str(len(file.columns)), f"{size / 1e6:.2f}", f"{raw / 1e6:.2f}", f"{raw / size:.1f}", saved, escape(note)]


def _show(args: argparse.Namespace, console: Console) -> int:
    storage, iterations = _find(args.path)
    iteration = iterations[-1] if args.iteration is None else args.iteration
    file = storage.file(iteration)
    lead = f", {file.envs:,} environments x {file.steps:,} steps" if file.lead else ""
    table = Table(title=f"{file.path}: iteration {iteration}{lead}")
    for title in ("key", "dtype", "a step", "MB", "stored MB", "codec", "what"):
        table.add_column(title, justify="right" if "MB" in title else "left", no_wrap=title == "key")
    for i, column in enumerate(file.columns):
        what, shape = ("", column.shape[len(file.lead) :]) if column.steps else ("no steps", column.shape)
        if column.follows is not None:
            what = f"{column.key[-1]} one step on, but {column.geometry.frames:,}"
        sizes = f"{column.tensor_bytes / 1e6:.3f}", f"{file.stored_bytes(i) / 1e6:.3f}"
        table.add_row(escape(_name(column.key)), column.dtype, " x ".join(map(str, shape)) or "1", *sizes, _codecs(file, i), escape(what))
    console.print(table)
    episodes = find_episodes(storage, iterations if args.all else [iteration]) if file.lead else []
    if episodes:
        console.print(_episode_line(episodes, len(iterations) if args.all else 1))
    if args.picture is not None:
        console.print(f"drew {_picture(args, storage, episodes, file)}")
    return 0


def _codecs(file: RolloutFile, i: int) -> str:
    """The codecs of a column's blocks, the most frequent first."""
    names: dict[str, int] = {}
    for offset, nbytes in file.columns[i].places:
        try:
            name = codec_name(read_header(file.data[offset : offset + nbytes]).codec)
        except CodecError:
            name = "[red]damaged[/red]"
        names[name] = names.get(name, 0) + 1
    return ", ".join(sorted(names, key=lambda name: -names[name]))


def _episode_line(episodes: list[EpisodeRef], batches: int) -> str:
    ended = [e for e in episodes if e.ended]
    where = "in this batch" if batches == 1 else f"in all {batches:,} batches, joined where one goes on in the next"
    text = f"{len(episodes):,} episodes {where}: {len(ended):,} to their end ({sum(e.terminated for e in ended):,} terminated), "
    return text + f"{np.mean([len(e) for e in episodes]):.1f} steps on the average"


def _picture(args: argparse.Namespace, storage: RolloutStorage, episodes: list[EpisodeRef], file: RolloutFile) -> Path:
    if not episodes:
        raise ValueError("there are no episodes to draw: the batch has no [envs, steps]")
    flies = not args.curves and args.keys is None and _is_navigation(file)
    numbers = _numbers(args.episodes, list(range(len(episodes))), "episodes")
    if args.episodes is None:
        numbers = numbers[: MOST_EPISODES if flies else 6]
    chosen = [episodes[n] for n in numbers]
    title = f"{storage.save_dir.parent.name}/{storage.save_dir.name}: {len(chosen)} of {len(episodes):,} episodes"
    if flies:
        paths, outcomes = [], []
        for episode in chosen:
            data = read_episode(storage, episode, [("observation", "state"), ("observation", "direction"), *_info(file)])
            paths.append(paths_to_goal(data["observation", "state"].numpy(), data["observation", "direction"].numpy()))
            outcomes.append(_outcome(episode, data))
        return draw_paths(args.picture, paths, outcomes, f"{title}, their goals in the middle")
    reward = outcome_key(file.keys, "reward")
    keys = args.keys.split(",") if args.keys else [*([reward] if reward else []), *(k for k in file.keys if k[0] == "observation")]
    read = [_drawn(read_episode(storage, e, keys or None), reward) for e in chosen]
    return draw_curves(args.picture, read, [f"episode {n}" for n in numbers], title)


def _drawn(data: dict[Any, Any], first: Any) -> dict[str, Any]:
    """What is drawn of an episode, the reward first."""
    keys = sorted((key for key, value in data.items() if not value.is_complex()), key=lambda key: key != first)
    return {_name(key): (data[key].float() if data[key].is_floating_point() else data[key]).numpy() for key in keys}


def _is_navigation(file: RolloutFile) -> bool:
    shapes = {column.key: column.shape[len(file.lead) :] for column in file.columns}
    return shapes.get(("observation", "state")) == (8,) and shapes.get(("observation", "direction"), ())[-1:] == (3,)


def _info(file: RolloutFile) -> list[Any]:
    return [key for key in (("info", "success"), ("info", "collision")) if key in file.keys]


def _outcome(episode: EpisodeRef, data: dict[Any, Any]) -> int:
    """How a flight ended, as the picture of an evaluation tells it; one that goes on counts as not yet there."""
    if episode.terminated or bool(data.get(("info", "collision"), np.zeros(1)).any()):
        return COLLISION
    return SUCCESS if bool(data.get(("info", "success"), np.zeros(1)).any()) else TIMEOUT


def _verify(args: argparse.Namespace, console: Console) -> int:
    storage, iterations = _find(args.path)
    table = Table("file", "state", "why")
    broken = 0
    for iteration in iterations:
        path = storage.path_of(iteration)
        try:
            problems = list(RolloutFile(path).damaged())
        except (DamagedFileError, OSError) as error:
            problems = [str(error)]
        broken += bool(problems)
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        table.add_row(path.name, "[red]broken[/red]" if problems else "[green]good[/green]", escape("; ".join(problems[:3]) + more))
    console.print(table)
    console.print(f"{len(iterations) - broken} good, {broken} broken")
    return 1 if broken else 0


def _export(args: argparse.Namespace, console: Console) -> int:
    storage, iterations = _find(args.path)
    chosen = _numbers(args.iterations, iterations, "iterations")
    out = args.out or storage.save_dir.with_name(storage.save_dir.name + FORMATS[args.to][1])
    console.print(export(storage, args.to, out, chosen, args.keys.split(",") if args.keys else None), soft_wrap=True)
    return 0


def _name(key: tuple[Any, ...]) -> str:
    return ".".join(map(str, key))
