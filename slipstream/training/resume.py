"""Resume a run: its state, what may change, who may write; and how to recover if it cannot save."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any

from slipstream.algorithms.policy_file import check_config
from slipstream.checkpoint.errors import reading_state
from slipstream.checkpoint.load import load_checkpoint, newest_good, number_of
from slipstream.config import registry
from slipstream.config.compose import flat_settings, from_dict, to_dict
from slipstream.config.help import ConfigError, show
from slipstream.config.schema import TrainConfig
from slipstream.storage.errors import SaveError
from slipstream.storage.files import WriterLock
from slipstream.training.run_folder import RunFolder
from slipstream.training.trainer import Trainer

# What a resumed run may change: how long it runs, where, what it saves and shows, but not what it computes.
_OVERRIDABLE = """
    total_frames max_time_s device gpus threads compile quiet headless summary_interval resume resume_envs root name
    init init_replay algo.data algo.teacher eval_interval save_interval save_minutes keep_checkpoints
    compress_checkpoint async_checkpoint_queue_size save_compression_level checkpoint_full_every checkpoint_moments
    rollout_save_interval rollout_compression_level rollout_keep record_minutes collect.prefetch_count collect.threads
    actors.address actors.cpus actors.timeout_s distributed.timeout_s distributed.capture
"""
RESUME_OVERRIDABLE = frozenset(_OVERRIDABLE.split())


def saved_config(run: str | PathLike[str]) -> dict[str, Any]:
    """Return the config in the newest checkpoint of a run that can be read."""
    folder = RunFolder.open(run)
    try:
        return newest_good(folder.checkpoints, _read_config)[1]
    except FileNotFoundError:
        with sole_writer(folder):  # if a training is running here that has not saved yet, this error says so
            raise


def _read_config(path: Path) -> dict[str, Any]:
    with reading_state(path):
        return check_config(load_checkpoint(path, keys=["config"])["config"], path)


def load_resume_state(cfg: TrainConfig, folder: RunFolder, ranks: int = 1) -> dict[str, Any]:
    """Return the newest good state of a run; raise ConfigError if `cfg` differs from the run's own config, or the state
    is of another number of ranks.

    """
    path, state = newest_good(folder.checkpoints, log=lambda text: print(text, file=sys.stderr))
    check_config(state.get("config") if isinstance(state, dict) else None, path)
    # a league or the like learns by its evaluations
    refuse_changes(cfg, state["config"], folder.path, () if state.get("controller") is None else ("eval_interval",))
    with reading_state(path):
        saved = 1 + len(state.get("ranks", ()))
    if saved != ranks and cfg.resume_envs == "saved":
        raise ConfigError(
            f"{folder.path} has the envs of {saved} {'ranks' if saved > 1 else 'process'}, and {ranks} would continue: "
            f"give gpus={saved}, or resume_envs=fresh, which keeps what is learned and starts new episodes"
        )
    return state


def refuse_changes(cfg: TrainConfig, saved: dict[str, Any], folder: Path, fixed: Iterable[str] = ()) -> None:
    """Raise ConfigError if `cfg` is not the config of the run in `folder`, but for what a resumed run may change.

    Args:
        cfg: What was typed; it is trusted, so code that it names may be named in the run folder too.
        saved: The config in the run's checkpoint.
        fixed: More keys that may not change.
    """
    given = to_dict(continued_config(cfg, saved))
    trusted = [name for names in registry.unregistered_names(given).values() for name in names]
    registry.refuse_unregistered(saved, trusted, str(folder))
    with reading_state(folder):
        theirs = to_dict(from_dict(saved))
    may_change = RESUME_OVERRIDABLE - {*fixed}
    sections = ("wandb.", "actors.") if cfg.resume_envs == "fresh" else ("wandb.",)
    changed = [key for key in changed_keys(given, theirs) if key not in may_change and not key.startswith(sections)]
    if changed:
        values = flat_settings(theirs)
        has = ", ".join(f"{key}={show(values.get(key))}" for key in changed)
        raise ConfigError(
            f"a resumed run keeps its configuration; {', '.join(changed)} cannot change ({folder} has {has}): start a "
            f"new run with {_command_with_changes(cfg, folder, changed)}"
        )


def _command_with_changes(cfg: TrainConfig, folder: Path, changed: list[str]) -> str:
    """Return the command of a new run with the changed settings of `cfg`, from the weights of the run if they fit."""
    values, words = flat_settings(to_dict(cfg)), [f"config={folder}"]
    of_network = ("model.", *(f"env.{name}" for name in registry.find_task(cfg.task).env.spec_settings))
    if not any(key.startswith(of_network) for key in changed):
        words.append(f"init={folder}")
    for key in changed:
        words.append(f"{key}={show(values.get(key))}")
    return f"slipstream train {shlex.join(words)}"


def continued_config(cfg: TrainConfig, saved: dict[str, Any]) -> TrainConfig:
    """Return the config with which a run continues: without what only a new run starts from, and with the numbers that
    `=auto` chose for it."""
    given = to_dict(cfg) | {"init": None, "init_replay": None}
    if cfg.resume == "auto":
        for section, _, name in (key.partition(".") for key in cfg.auto):
            given[section][name] = saved[section].get(name)
        given["auto"] = []
    return from_dict(given)


def is_finished(cfg: TrainConfig, folder: RunFolder, state: dict[str, Any], report: bool) -> bool:
    """Return whether nothing is left to train of a run, and `report` that: in status.json too if the run was killed
    just before its end."""
    frames, used_s = state.get("frames"), state.get("trained_s")
    out_of_time = cfg.max_time_s and type(used_s) is float and used_s >= cfg.max_time_s
    if not out_of_time and not (type(frames) is int and frames >= cfg.total_frames):
        return False
    if report:
        print(f"nothing left to do: this run has {frames:,} frames; give a larger total_frames or max_time_s")
    if report and folder.status().get("state") != "finished":
        folder.write_status("finished", state["iteration"], state["frames"])
    return True


def restore(trainer: Trainer, state: dict[str, Any], folder: RunFolder, fresh_envs: bool) -> int:
    """Continue from `state`, which was read from `folder`; return the iteration that comes next."""
    with reading_state(folder.path):
        return trainer.load_state_dict(state, fresh_envs)


def changed_keys(given: dict[str, Any], saved: dict[str, Any]) -> list[str]:
    """Return the dotted keys that differ between two configs."""
    mine, theirs = flat_settings(given), flat_settings(saved)
    return [key for key in mine | theirs if mine.get(key) != theirs.get(key)]


def resume_command(cfg: TrainConfig, folder: RunFolder) -> str:
    """Return the command that continues a run."""
    return f"slipstream train {shlex.quote(f'resume={folder.path}')}{registry.trusting_words(to_dict(cfg))}"


def sole_writer(folder: RunFolder) -> WriterLock:
    """Return the lock that lets one training at a time write a run folder; it ends with the process."""
    again = f"slipstream train {shlex.quote(f'init={folder.path}')}"
    return WriterLock(
        folder.path, f"wait until it ends or stop it; another run that starts from this one's policy: {again}"
    )


@contextmanager
def explain_save_errors(cfg: TrainConfig, folder: RunFolder) -> Iterator[None]:
    """Add to an error of saving, or of a full disk, which state is good, and how to continue."""
    try:
        yield
    except (SaveError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        state, then = "There is no checkpoint to continue from", " start again"
        with suppress(SaveError, OSError):
            newest, _ = newest_good(folder.checkpoints)
            state = f"The run is good up to iteration {number_of(newest)} ({newest.name})"
            then = f": {resume_command(cfg, folder)}"
        raise type(error)(f"{error}. {state}. Free space, or repair the cause, then{then}") from error
