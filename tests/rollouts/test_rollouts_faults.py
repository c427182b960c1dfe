"""Disks that fail, processes that die, files that are damaged, writers that meet. The soak runs the same tests at full
count."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from helpers.disks import FailingDisk, HeldDisk, put_in
from helpers.states import same
from helpers.workers import wait_for_error
from rollout_worlds import flip, world

from slipstream import RolloutStorage
from slipstream.rollouts.file import RolloutFile
from slipstream.rollouts.storage import RolloutError
from slipstream.storage.errors import DamagedFileError

HERE = Path(__file__).parent
counts = pytest.mark.parametrize(
    "count", [pytest.param(1, id="some"), pytest.param(25, id="all", marks=pytest.mark.soak)]
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind, at", [("create", 1), ("fsync", 1), ("replace", 1), ("write", 1), ("write", 2)])
def test_a_full_disk_is_an_error_and_nothing_is_lost_or_left(tmp_path, monkeypatch, kind, at):
    with RolloutStorage(tmp_path) as storage:
        storage.save(world(), 0)
        storage.wait()
        put_in(monkeypatch, FailingDisk(kind, at))
        storage.save(world(first=5), 0)
        wait_for_error(storage._worker)
        with pytest.raises(RolloutError, match=r"failed at .*rollout_000000.slip: OSError: .*No space left") as told:
            storage.save(world(), 1)
        assert isinstance(told.value.__cause__, OSError)
        storage.save(world(first=9), 2)
        assert same(world(), storage.load(0)) and same(world(first=9), storage.load(2))
        assert storage.get_stats()["failed"] == 1
    assert names(tmp_path) == [".writer.lock", "rollout_000000.slip", "rollout_000002.slip"]


@pytest.mark.parametrize("policy", ["block", "drop_oldest", "raise"])
def test_a_full_queue_follows_its_policy(tmp_path, monkeypatch, policy):
    disk = put_in(monkeypatch, HeldDisk())
    with RolloutStorage(tmp_path, max_queue_size=2, queue_policy=policy) as storage:
        storage.save(world(), 0)
        assert disk.reached.wait(30)
        storage.save(world(), 1)
        storage.save(world(), 2)
        if policy == "block":
            threading.Timer(0.05, disk.open.set).start()
        if policy == "raise":
            with pytest.raises(RolloutError, match="2 tasks wait"):
                storage.save(world(), 3)
        else:
            storage.save(world(), 3)
        disk.open.set()
        kept = {"block": [0, 1, 2, 3], "drop_oldest": [0, 2, 3], "raise": [0, 1, 2]}[policy]
        assert storage.iterations() == kept
        assert storage.get_stats()["dropped"] == {"drop_oldest": 1}.get(policy, 0)


@counts
def test_a_killed_writer_leaves_complete_files_only(tmp_path, count):
    for n in range(count):
        folder = tmp_path / str(n)
        command = [sys.executable, str(HERE / "rollout_victim.py"), str(folder)]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join((str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", ""))),
            },
        ) as victim:
            done = -1
            for _ in range(random.Random(n).randrange(1, 4)):
                done = int(victim.stdout.readline())
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        with RolloutStorage(folder) as storage:
            there = storage.iterations()
            assert there[: done + 1] == list(range(done + 1)) and there == list(range(len(there)))
            for i in there:
                assert same(world(32, 64, first=i), storage.load(i))
            storage.save(world(), 1_000_000)  # the dead one's lock is free, its half-written file goes
        assert [name for name in names(folder) if name.endswith(".tmp")] == []


def saved(folder):
    """A batch of some blocks, in a file with a neighbor."""
    batch = world(40, 64)
    batch["noise"] = torch.rand(40, 64, 100)
    with RolloutStorage(folder) as storage:
        path = storage.save(batch, 0)
        storage.save(world(), 1)
    return batch, path


def check_damaged(path, batch):
    """Reading gives the right data or an error; `problems` finds the damage; the neighbor is whole."""
    found = []
    try:
        file = RolloutFile(path)
        found = list(file.problems())
        assert same(batch, file.read())
    except DamagedFileError:
        found = found or ["not to be opened"]
    assert found, "damage that nothing notices"
    with RolloutStorage(path.parent) as storage:
        assert same(world(), storage.load(1))
        with contextlib.suppress(DamagedFileError):
            got = storage.load_slice(0, envs=range(5, 9), steps=slice(3, 40))
            assert same(batch[5:9][:, 3:40], got)
    return found


@counts
def test_every_flipped_byte_is_noticed_and_never_read_as_data(tmp_path, count):
    batch, path = saved(tmp_path)
    good = path.read_bytes()
    rng = random.Random(count)
    places = [
        *range(0, 130),
        *range(len(good) - 260, len(good)),
        *(rng.randrange(len(good)) for _ in range(60 * count)),
    ]
    for at in places if count > 1 else [*places[::23], *places[-60:]]:
        broken = bytearray(good)
        broken[at] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        check_damaged(path, batch)


def test_damage_names_its_key_and_the_rest_can_be_read(tmp_path):
    batch, path = saved(tmp_path)
    flip(path, "noise")
    with RolloutStorage(tmp_path) as storage:
        with pytest.raises(DamagedFileError, match="noise is damaged in piece 4 of 4 .*; other keys and batches"):
            storage.load(0)
        file = storage.file(0)
        rest = storage.load(0, keys=[key for key in file.keys if key != ("noise",)])
        assert same(batch.exclude("noise"), rest)
        assert torch.equal(storage.load_slice(0, envs=slice(0, 30))["noise"], batch["noise"][:30])
        assert [problem.partition(" (")[0] for problem in file.problems()] == ["noise is damaged in piece 4 of 4"]


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path):
    code = f"from slipstream import RolloutStorage\nimport torch\nRolloutStorage({str(tmp_path)!r}).save({{'x': torch.ones(3)}}, 9)"
    with RolloutStorage(tmp_path) as storage:
        storage.save(world(), 0)
        storage.wait()  # a reader finds complete files only
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert f"is being written by process {os.getpid()} on" in other.stderr and "its own folder" in other.stderr
        with RolloutStorage(tmp_path) as reader, pytest.raises(RolloutError, match="is being written by process"):
            assert reader.iterations() == [0] and same(world(), reader.load(0))
            reader.save(world(), 1)
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
    )  # and saves at exit, unasked
    with RolloutStorage(tmp_path) as storage:
        assert storage.iterations() == [0, 9]


SHRINKS = """
import sys, torch
from slipstream import RolloutStorage
from slipstream.rollouts.file import RolloutFile
from slipstream.storage.errors import DamagedFileError
with RolloutStorage(sys.argv[1]) as storage:
    path = storage.save({"x": torch.rand(4, 32, 4096), "done": torch.zeros(4, 32, dtype=torch.bool)}, 1)
    storage.wait()
file = RolloutFile(path)
file.read_slice(0, 0)
with path.open("r+b") as opened:
    opened.truncate(70_000)
for read in (file.read, lambda: file.read_slice(3, 31), lambda: file.read_steps(["done"])):
    try:
        read()
    except DamagedFileError as error:
        print(error)
"""


def test_a_file_that_shrinks_while_it_is_read_gives_an_error(tmp_path):
    done = subprocess.run([sys.executable, "-c", SHRINKS, str(tmp_path)], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 3, (done.returncode, done.stderr)  # a map ends with SIGBUS
    assert all("rollout_000001.slip" in line and ("shorter" in line or "cut short" in line) for line in lines)
