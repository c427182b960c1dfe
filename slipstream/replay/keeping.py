"""Keeping a buffer beyond its memory: saves, state dicts, and the spilling of old blocks to disk."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from slipstream.replay.memory import Memory
from slipstream.replay.persist import Folder
from slipstream.replay.snapshot import Place, Progress, read_rows, read_state, restore, write_rows, write_state
from slipstream.replay.writing import Writing
from slipstream.storage.blocks import BlockColumn
from slipstream.storage.schema import Key

_LEAST_SPILL = 1 << 20  # bytes: smaller files are not worth their names


class Keeping:
    """Saves and spills of one buffer. Spilling is a save into `spill_dir` after which full blocks are read from the file."""

    def __init__(
        self, memory: Memory, writing: Writing, spill_dir: str | Path | None, memory_budget: int | None
    ) -> None:
        self._memory, self._writing = memory, writing
        self._folders: dict[Path, Folder] = {}
        self._spill_dir = None if spill_dir is None else Path(spill_dir).absolute()
        self._budget = memory_budget
        self._after_spill = 0  # memory that the last spill could not free
        self._error: BaseException | None = None
        self._asked = threading.Condition()
        self._wanted = self._stop = False
        self._thread: threading.Thread | None = None
        self.spilled_files = 0

    # saving

    def save(self, path: Path) -> None:
        """Saves into a folder, incrementally."""
        self._raise_error()
        with self._memory.writing:
            self._folder(path).save(self._memory)
            self._writing.sealed_piece = self._memory.index.tail

    def load(self, path: Path, recover: bool) -> None:
        """Replaces the contents by those of a folder; what cannot be read whole leaves them as they are."""
        with self._memory.writing:
            folder, twin = Folder(path), self._memory.empty_twin()

            def leave_in_file(key: Key, first_row: int, block: np.ndarray) -> None:
                if self._budget is not None:
                    _leave_in_file(twin, key, first_row, block)

            folder.load(twin, recover, leave_in_file)
            self._check_room(twin)
            self._memory.take_over(twin)
            self._folders = {path.absolute(): folder}
            self._writing.sealed_piece = self._memory.index.tail
            self._writing.make_room(0)
            self._after_spill = self._memory.nbytes

    def state_dict(self) -> dict[str, Tensor]:
        """Two files as tensors."""
        with self._memory.writing:
            rows = write_rows(self._memory, Progress(), "state_dict")[0] if self._memory.index.tail else None
            state = write_state(self._memory)
        return {"rows": _joined(rows.end() if rows is not None else []), "state": _joined(state.end())}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Replaces the contents by those of a state dict."""
        rows, small = (state[name].detach().cpu().contiguous().numpy() for name in ("rows", "state"))
        with self._memory.writing:
            twin = self._memory.empty_twin()
            files = [read_rows(rows, "the state dict")] if len(rows) else []
            read = read_state(small, "the state dict")
            restore(twin, files, read, lambda *_: None)
            if not files:
                twin.sampler.load_state_dict(read["sampler"])
            self._check_room(twin)
            self._memory.take_over(twin)
            self._folders.clear()
            self._writing.sealed_piece = 0
            self._writing.make_room(0)

    def _check_room(self, twin: Memory) -> None:
        """Whole episodes leave where the capacity is smaller than what was saved; that they all do is nobody's wish."""
        capacity, index = self._writing.capacity, twin.index
        if capacity is not None and len(index) and index.piece_for(capacity) == index.tail:
            raise ValueError(
                f"no episode of the {len(index)} saved steps fits a capacity of {capacity}: give the buffer a larger one"
            )

    # spilling

    def spill_if_needed(self) -> None:
        """Asks for a spill when memory is past the budget; waits for it when memory is far past it."""
        self._raise_error()
        if self._budget is None or not self._over(1):
            return
        with self._asked:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="slipstream-spill", daemon=True)
                self._thread.start()
            self._wanted = True
            self._asked.notify_all()
            while self._wanted and not self._stop and self._error is None and self._over(2):
                self._asked.wait(0.1)
        self._raise_error()

    def close(self) -> None:
        """Ends the spilling thread."""
        with self._asked:
            self._stop = True
            self._asked.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._raise_error()

    def _over(self, times: int) -> bool:
        """Whether memory that a spill could free is past the budget."""
        assert self._budget is not None
        least = min(max(_LEAST_SPILL, self._budget // 8), self._budget)
        return self._memory.nbytes > max(times * self._budget, self._after_spill + times * least)

    def _work(self) -> None:
        while True:
            with self._asked:
                while not self._wanted and not self._stop:
                    self._asked.wait()
                if self._stop:
                    return
            try:
                self._spill()
            except BaseException as error:
                self._error = error
            with self._asked:
                self._wanted = False
                self._asked.notify_all()

    def _spill(self) -> None:
        assert self._spill_dir is not None
        columns = [c for c in self._memory.columns.values() if isinstance(c, BlockColumn)]
        while any(c.stats()["backlog_rows"] for c in columns) and not self._over(2) and not self._stop:
            threading.Event().wait(0.01)  # the sealer is at work: nobody is kept waiting meanwhile
        with self._memory.writing:
            path, places = self._folder(self._spill_dir).save(self._memory)
            self._writing.sealed_piece = self._memory.index.tail
            if path is not None:
                self._read_from(path, places)
                self.spilled_files += 1
            self._after_spill = self._memory.nbytes

    def _read_from(self, path: Path, places: list[Place]) -> None:
        """From now on these blocks are read from the file."""
        mapped = np.memmap(path, np.uint8, mode="r")
        for place in places:
            _leave_in_file(self._memory, place.key, place.first_row, mapped[place.offset : place.offset + place.nbytes])

    def _folder(self, path: Path) -> Folder:
        return self._folders.setdefault(path.absolute(), Folder(path))

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise RuntimeError("spilling to disk failed; nothing is lost, the blocks are still in memory") from error


def _leave_in_file(memory: Memory, key: Key, first_row: int, block: np.ndarray) -> None:
    """The block is read from there from now on."""
    column: Any = memory.columns[key]
    column.relocate(first_row, block)


def _joined(parts: list[Any]) -> Tensor:
    """The parts of a file as one tensor of bytes."""
    out = torch.empty(sum(memoryview(p).nbytes for p in parts), dtype=torch.uint8)
    at = 0
    for part in parts:
        data = np.frombuffer(part, np.uint8)
        out.numpy()[at : at + data.size] = data
        at += data.size
    return out
