"""Saves replay buffers whose index arrays were changed, loads them and draws. Run as a script: one line per case.

The arrays are changed on their way into the save, so every checksum holds. A crash or a hang ends the script early.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from replay_worlds import Worlds

from slipstream.replay import ReplayBuffer, persistence
from slipstream.replay.index import BACK, LINK, StepIndex
from slipstream.storage.errors import TooLargeError

HUGE = 2**61
COLUMNS = ("step", "row", "link", "back", "flags")
SAMPLERS = ("uniform", "prioritized")


def filled(sampler: str = "uniform") -> ReplayBuffer:
    """Several environments, several episodes, an added one, an evicted beginning."""
    worlds, buffer = Worlds(3, seed=1, end=0.15), ReplayBuffer(150, sampler=sampler)
    for length in (7, 1, 12, 30, 20):
        buffer.extend(worlds.batch(length))
    buffer.sample(8)
    return buffer


def draw_everything(buffer: ReplayBuffer) -> None:
    """Every kind of draw, every step, and one more batch."""
    steps = buffer.stats()["steps_ever"]
    for _ in range(20):
        buffer.sample(32)
        buffer.sample(32, n_step=5)
        buffer.sample_slices(16, 8, burn_in=8)
        with contextlib.suppress(ValueError):  # none is complete
            buffer.sample_episodes(8)
    buffer.get(np.arange(steps - len(buffer), steps))
    buffer.extend(Worlds(3, seed=2).batch(5))
    buffer.sample(32)


def shape_changes(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The array of a wrong dtype and of wrong shapes."""
    yield "float64", array.astype(np.float64)
    yield "int32", array.astype(np.int32)
    yield "objects of 16 bytes", array.astype(np.complex128)
    yield "one shorter", array[:-1]
    yield "one longer", np.append(array, array[-1:], 0)
    yield "empty", array[:0]
    yield "two axes", array.reshape(-1, 1)
    yield "no axis", np.array(array.flat[0])


def value_changes(array: np.ndarray, pieces: tuple[int, int]) -> Iterator[tuple[str, np.ndarray]]:
    """The array with wrong values."""
    n = len(array)
    for at in sorted({0, n // 2, n - 1}):
        for value in (-1, -HUGE, HUGE, 2**63 - 1, -(2**63), pieces[0], pieces[1], array[at] + 1, array[at] - 1):
            changed = array.copy()
            with np.errstate(over="ignore"):
                changed[at] = np.array(value).astype(array.dtype)
            yield f"[{at}] = {value}", changed
    yield "reversed", array[::-1].copy()
    yield "all alike", np.full_like(array, array[n // 2])


def cases() -> Iterator[tuple[str, str, Callable[[ReplayBuffer, Any], None]]]:
    """(name, sampler, change(buffer, patch)) of each case; patch(owner, method, change) changes what a method
    returns."""

    def index_change(table: np.ndarray) -> Any:
        return lambda buffer, patch: patch(StepIndex, "export", lambda _: table)

    def sampler_change(name: str, value: Any) -> Any:
        return lambda buffer, patch: patch(type(buffer.sampler), "state_dict", lambda state: {**state, name: value})

    source = filled()
    index = source._storage.memory.index
    held = (index.head, index.tail)
    pieces = index.export(index.head)
    for column, name in enumerate(COLUMNS):
        used = len(pieces) - (column >= LINK)  # the last entry only has the total steps and rows
        for what, array in value_changes(pieces[:used, column], held):
            table = pieces.copy()
            table[:used, column] = array
            yield f"{name} {what}", "uniform", index_change(table)
        for what, keep in (("without", [c for c in range(5) if c != column]), ("twice", [*range(5), column])):
            yield f"axes: {name} {what}", "uniform", index_change(pieces[:, keep].copy())
    for what, array in shape_changes(pieces):
        yield f"table {what}", "uniform", index_change(array)
    yield "table flat axis", "uniform", index_change(pieces.ravel())
    wrapped = pieces[:4].copy()  # differences that are not negative, since they overflow
    wrapped[1:3, :2] = [[2**63 - 1] * 2, [-2] * 2]
    yield "axis that wraps around", "uniform", index_change(wrapped)
    open_ = np.flatnonzero(pieces[:-1, LINK] >= 0)
    for what, target in (("itself", open_[0]), ("a circle", open_[0]), ("back to the first", 0)):
        table = pieces.copy()
        link, back = table[:, LINK], table[:, BACK]
        at = open_[0] if what != "back to the first" else open_[-1]
        link[at], back[target] = held[0] + target, held[0] + at
        if what == "a circle":
            other = pieces[at, LINK] - held[0]
            link[other], back[other], link[at], back[at] = held[0] + at, held[0] + at, held[0] + other, held[0] + other
        yield f"links: {what}", "uniform", index_change(table)
    for value in (-1, HUGE, held[0] - 1, held[1] + 1, 1.5, None, "7"):
        yield (
            f"head = {value}",
            "uniform",
            lambda buffer, patch, value=value: patch(
                persistence, "export_state", lambda state: {**state, "head": value}
            ),
        )
    for value in (-2, -HUGE, HUGE, held[1], held[0]):

        def stream_change(buffer: ReplayBuffer, patch: Any, value: int = value) -> None:
            buffer._storage.memory.streams[0].last_piece[1] = value

        yield f"stream last_piece = {value}", "uniform", stream_change
    yield "no pending", "uniform", lambda buffer, patch: setattr(buffer._storage.memory, "pending", {})
    priorities = filled("prioritized").sampler.state_dict()["priorities"]
    for what, array in shape_changes(priorities):
        if what != "float64":
            yield f"priorities {what}", "prioritized", sampler_change("priorities", array)
    for value in (-1, HUGE):
        yield f"priorities [{value}]", "prioritized", sampler_change("priorities", np.append(priorities[1:], value))
    yield "priorities NaN", "prioritized", sampler_change("priorities", np.full_like(priorities, np.nan))
    yield "priorities 0", "prioritized", sampler_change("priorities", np.zeros_like(priorities))
    for value in (-1, 0, HUGE, 1.5, True, "5"):
        yield f"priorities' size = {value!r}", "prioritized", sampler_change("size", value)


def run(change: Callable[[ReplayBuffer, Any], None], sampler: str, through_folder: bool) -> str:
    """refused, or loaded and drawn from."""
    buffer, patched = filled(sampler), []

    def patch(owner: type, name: str, change: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        patched.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, lambda self, *args: change(original(self, *args)))

    with tempfile.TemporaryDirectory() as folder:
        try:
            change(buffer, patch)
            state = buffer.save(Path(folder)) if through_folder else buffer.state_dict()
        except (IndexError, TypeError):
            return "refused"  # the writer itself cannot use it
        finally:
            for owner, name, method in patched:
                setattr(owner, name, method) if method is not None else delattr(owner, name)
        fresh = ReplayBuffer(150, sampler=sampler)
        try:
            fresh.load(folder) if through_folder else fresh.load_state_dict(state)
        except (ValueError, TooLargeError):
            assert len(fresh) == 0
            return "refused"
        draw_everything(fresh)
        return "drawn"


if __name__ == "__main__":
    for name, sampler, change in cases():
        for through_folder in (False, True):
            label = f"{name} ({'folder' if through_folder else 'state'})"
            print("begin", label, flush=True)
            try:
                outcome = run(change, sampler, through_folder)
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
            print(f"end {label}\t{outcome}", flush=True)
    print("finished", flush=True)
    sys.exit(0)
