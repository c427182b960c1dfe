"""Saves that are interrupted, files that are damaged: nothing wrong is ever given back."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from replay_victim import batch, check

from slipstream.replay import DamagedFileError, ReplayBuffer
from slipstream.storage import files

VICTIM = Path(__file__).with_name("replay_victim.py")


class Killed(BaseException):
    """The machine stops here."""


def stop_at(monkeypatch, call):
    """The `call`-th system call that changes the disk kills."""
    left = [call]
    for name in ("fsync", "replace", "open", "unlink"):
        real = getattr(os, name)

        def counted(*args, _real=real, _name=name, **kwargs):
            if _name != "open" or isinstance(args[0], str | Path):
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
            return _real(*args, **kwargs)

        monkeypatch.setattr(os, name, counted)
    return left


def test_a_save_that_stops_anywhere_leaves_the_one_before_or_itself(tmp_path, monkeypatch):
    ended = set()
    for call in range(40):
        folder = tmp_path / str(call)
        buffer = ReplayBuffer(300)
        for k in range(5):
            buffer.extend(batch(10 * k))
        buffer.save(folder)
        for k in range(5, 20):  # the first pieces leave meanwhile, and with them a file
            buffer.extend(batch(10 * k))
        with monkeypatch.context() as patched:
            left = stop_at(patched, call)
            try:
                buffer.save(folder)
                finished = True
            except Killed:
                finished = False
        after = check(ReplayBuffer(300).load(folder))
        assert after in ((199,) if finished else (49, 199))
        ended.add((finished, after))
        buffer.extend(batch(200))
        with monkeypatch.context() as patched:
            patched.setattr(files, "is_alive", lambda process: False)
            buffer.save(folder)  # and the next one works, with the rows of both
        loaded = ReplayBuffer(300).load(folder)
        assert check(loaded) == 209 and len(loaded) == 300
        assert not list(folder.glob(".*.tmp"))
        if finished and left[0] > 0:
            break
    assert ended == {(True, 199), (False, 49), (False, 199)}


def test_a_save_into_a_folder_that_was_removed_is_complete(tmp_path):
    buffer = ReplayBuffer(1000)
    buffer.extend(batch(0))
    buffer.save(tmp_path / "replay")
    shutil.rmtree(tmp_path / "replay")
    buffer.extend(batch(10))
    buffer.save(tmp_path / "replay")
    assert len(ReplayBuffer(1000).load(tmp_path / "replay")) == 40


def test_saves_write_only_what_is_new(tmp_path):
    buffer = ReplayBuffer(10_000)
    for k in range(200):
        buffer.extend(batch(10 * k))
    buffer.save(tmp_path)
    first = {p.name: p.stat().st_size for p in tmp_path.glob("rows-*")}
    buffer.extend(batch(2000))
    buffer.save(tmp_path)
    second = {p.name: p.stat().st_size for p in tmp_path.glob("rows-*")}
    (new,) = second.keys() - first.keys()
    assert first.items() <= second.items()
    assert second[new] < sum(first.values()) / 2
    assert check(ReplayBuffer(10_000).load(tmp_path)) == 2009


def test_files_of_evicted_steps_go(tmp_path):
    buffer = ReplayBuffer(200)
    for k in range(30):
        buffer.extend(batch(10 * k))
        buffer.save(tmp_path)
    assert len(list(tmp_path.glob("rows-*"))) <= 12
    assert len(list(tmp_path.iterdir())) <= 13


@pytest.mark.parametrize("which", ["rows", "replay.slip"])
def test_a_flipped_byte_in_a_file_is_reported(tmp_path, which):
    buffer = ReplayBuffer(10_000)
    for k in range(6):
        buffer.extend(batch(10 * k))
        buffer.save(tmp_path)
    path = sorted(tmp_path.glob(which + "*"))[2 if which == "rows" else 0]
    whole = path.read_bytes()
    rng = random.Random(0)
    for place in [0, 9, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(12))]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises((DamagedFileError, ValueError)):
            ReplayBuffer(10_000).load(tmp_path)
    path.write_bytes(whole)
    assert len(ReplayBuffer(10_000).load(tmp_path)) == 120


def test_a_flipped_byte_in_a_spilled_block_is_reported_when_it_is_drawn(tmp_path):
    buffer = ReplayBuffer(10_000, spill_dir=tmp_path, memory_budget=100_000, codec="lz4")
    for k in range(120):
        buffer.extend(batch(10 * k))
    buffer._storage._spill()
    files = sorted(tmp_path.glob("rows-*"))
    assert buffer.stats()["columns"]["observation"]["relocated_bytes"] > 0
    for path in files:
        data = np.memmap(path, np.uint8, mode="r+")
        data[len(data) // 4 :: 64] ^= 255
        data.flush()
    with pytest.raises(ValueError, match="checksum|damaged|block|match"):
        check(buffer)


def test_a_folder_of_another_buffer_is_replaced_not_mixed(tmp_path):
    first, second = ReplayBuffer(1000), ReplayBuffer(1000)
    first.extend(batch(0))
    first.save(tmp_path)
    second.extend(batch(500))
    second.save(tmp_path)
    assert check(ReplayBuffer(1000).load(tmp_path)) == 509
    assert len(list(tmp_path.glob("rows-*"))) == 1
    first.extend(batch(10))
    first.save(tmp_path)
    assert check(ReplayBuffer(1000).load(tmp_path)) == 19
    assert len(ReplayBuffer(1000).load(tmp_path)) == 40


def test_a_full_disk_is_told_and_leaves_the_last_save(tmp_path, monkeypatch):
    buffer = ReplayBuffer(1000)
    buffer.extend(batch(0))
    buffer.save(tmp_path)
    buffer.extend(batch(10))
    with monkeypatch.context() as patched:
        patched.setattr(files.DISK, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            buffer.save(tmp_path)
    assert check(ReplayBuffer(1000).load(tmp_path)) == 9
    assert check(buffer) == 19
    buffer.save(tmp_path)
    assert check(ReplayBuffer(1000).load(tmp_path)) == 19


def test_a_spill_that_fails_is_told_at_the_next_add_and_loses_nothing(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    buffer = ReplayBuffer(10_000, spill_dir=blocked, memory_budget=100_000)
    first = 0
    with pytest.raises(RuntimeError, match="spilling to disk failed"):
        for first in range(0, 100_000, 10):
            buffer.extend(batch(first))
    assert check(buffer) >= first - 1
    blocked.unlink()
    buffer.extend(batch(first + 10) if check(buffer) == first + 9 else batch(first))
    buffer.close()


def killed_in_the_middle(folder, mode, after, rng):
    """Runs the victim until it has said `after` lines (and spilled), kills it some milliseconds later; the last thing
    it said."""
    with subprocess.Popen(
        [sys.executable, str(VICTIM), str(folder), mode], stdout=subprocess.PIPE, text=True
    ) as victim:
        assert victim.stdout is not None
        said: list[list[str]] = []
        while len(said) < after or (mode == "spill" and int(said[-1][1]) < 2):
            said.append(victim.stdout.readline().split())
            assert said[-1], "the victim died by itself"
        try:
            victim.wait(rng.random() * 0.3)
        except subprocess.TimeoutExpired:
            victim.send_signal(signal.SIGKILL)
        said += [
            line.split() for line in victim.stdout.read().splitlines() if len(line.split()) == 2
        ]  # the last may be cut off
        assert victim.wait() == -signal.SIGKILL
    return said[-1]


@pytest.mark.parametrize("times", [1, pytest.param(25, marks=pytest.mark.soak)])
@pytest.mark.parametrize("mode", ["save", "spill"])
def test_killed_while_writing(tmp_path, mode, times):
    rng = random.Random(2)
    for n in range(times):
        folder = tmp_path / str(n)
        last, _ = killed_in_the_middle(folder, mode, after=rng.randrange(3, 12), rng=rng)
        assert check(ReplayBuffer(30_000).load(folder)) >= (int(last) if mode == "save" else 0)


def test_a_pipe_instead_of_the_list_is_refused(tmp_path):
    os.mkfifo(tmp_path / "replay.slip")
    with ReplayBuffer(1000) as buffer, pytest.raises(OSError, match="not a regular file"):
        buffer.load(tmp_path)
