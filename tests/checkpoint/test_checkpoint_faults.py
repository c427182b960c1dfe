"""Disks that fail, processes that die, files that are damaged or lie. The soak runs the same tests at full count."""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.disks import FailingDisk, put_in
from helpers.forged import forge
from helpers.states import same, training_state

from slipstream.checkpoint import (
    AsyncCheckpointSaver,
    CheckpointError,
    CorruptCheckpointError,
    UnsafeCheckpointError,
    load_checkpoint,
    maintenance,
)
from slipstream.checkpoint.load import CheckpointFile, checkpoints_of, newest_good
from slipstream.checkpoint.maintenance import checkpoint_files
from slipstream.storage.codec.registry import DECAY
from slipstream.storage.errors import TooLargeError, UnsafeFolderError
from slipstream.storage.tensor_file import read_identity


def save_four(folder, compress):
    """Four saves with retention and links; the paths that were promised, whether or not an error came."""
    errors, state = 0, training_state(8)
    saver = AsyncCheckpointSaver(full_every=2, keep_last=3, links=True)
    for i in range(4):
        try:
            saver.save_async({**state, "i": i}, folder / f"c_{i}.pt", compress)
            saver.wait()
        except CheckpointError as error:
            assert isinstance(error.__cause__, OSError)
            errors += 1
    saver.shutdown()
    return errors, state


def fault_points():
    yield from (("create", n) for n in range(1, 5))
    yield from (("fsync", n) for n in range(1, 13))
    yield from (("replace", n) for n in range(1, 9))
    yield from (("symlink", n) for n in range(1, 5))
    yield ("unlink", 1)
    yield from (("write", n) for n in range(1, 60))


@pytest.mark.parametrize("compress", [True, "lz4", False])
@pytest.mark.parametrize("sparse", [pytest.param(7, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)])
def test_no_failure_of_the_disk_loses_an_earlier_checkpoint(compress, sparse, tmp_path, monkeypatch):
    for number, (kind, at) in enumerate(list(fault_points())[::sparse]):
        folder = tmp_path / str(number)
        disk = put_in(monkeypatch, FailingDisk(kind, at))
        errors, state = save_four(folder, compress)
        assert errors == (disk.calls.get(kind, 0) >= at), (kind, at)  # told, and told once
        files = maintenance.checkpoint_files(folder)
        assert len(files) >= 2 and not list(folder.glob(".*.tmp")), (kind, at, files)
        for path in files:
            i = int(path.name.split("_")[1].split(".")[0])
            assert same(load_checkpoint(path), {**state, "i": i}), (kind, at, path)


def test_a_folder_that_cannot_be_made_durable_is_an_error(tmp_path, monkeypatch):
    put_in(monkeypatch, FailingDisk("fsync", 1))
    with AsyncCheckpointSaver() as saver:
        with pytest.raises(CheckpointError, match="cannot save into .*new: OSError: .*No space left"):
            saver.save_async({"i": 0}, tmp_path / "new" / "c_0.pt")
        path = saver.save_async({"i": 1}, tmp_path / "new" / "c_1.pt")
    assert load_checkpoint(path) == {"i": 1}


WRITER = """
import sys, torch
from pathlib import Path
from slipstream.checkpoint import AsyncCheckpointSaver
folder, seed = Path(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
base = torch.randn(200_000, generator=torch.Generator().manual_seed(seed))
with AsyncCheckpointSaver(full_every=3, keep_last=4, links=True) as saver:
    for i in range(1_000_000):
        saver.save_async({"i": i, "w": base + i * 1e-6, "text": str(i)}, folder / f"c_{i}.pt")
        saver.wait()
        print(i, flush=True)
"""


def kill_while_saving(folder, rng):
    """Start a process that saves without end, kill -9 it somewhere; what it said was saved must be there, everything
    must load."""
    seed = rng.randrange(1 << 30)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(seed)], stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stdout is not None
    wanted = rng.randrange(1, 12)
    said = -1
    for line in process.stdout:
        said = int(line)
        if said >= wanted:
            break
    if rng.random() < 0.8:  # somewhere inside the save that follows
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(rng.random() * 0.02)
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read().split()
    process.wait()
    said = int(rest[-1]) if rest else said
    base = torch.randn(200_000, generator=torch.Generator().manual_seed(seed))
    files = maintenance.checkpoint_files(folder)
    found = {int(p.name.split("_")[1].split(".")[0]) for p in files}
    assert said in found or said + 1 in found and len(found) >= 4, (said, found)
    for path in files:
        i = int(path.name.split("_")[1].split(".")[0])
        assert same(load_checkpoint(path), {"i": i, "w": base + i * 1e-6, "text": str(i)})
    assert load_checkpoint(folder)["i"] >= said


@pytest.mark.parametrize("kills", [3, pytest.param(300, marks=pytest.mark.soak)])
def test_kill_9_leaves_the_last_complete_checkpoint_loadable(kills, tmp_path):
    rng = random.Random(kills)
    for n in range(kills):
        kill_while_saving(tmp_path / str(n), rng)
        shutil.rmtree(tmp_path / str(n))


def write_pair(folder):
    """A whole file and a difference, with several streams, raw and coded chunks; (paths, states)."""
    state = training_state(24)
    state["noise"] = torch.randint(0, 256, (5000,), dtype=torch.uint8)
    later = {**state, "model": {k: v + 1e-4 if v.is_floating_point() else v for k, v in state["model"].items()}}
    slots = {
        i: {k: v * 0.9 if v.dim() else v for k, v in slot.items()} for i, slot in state["optimizer"]["state"].items()
    }
    later["optimizer"] = {**state["optimizer"], "state": slots}
    with AsyncCheckpointSaver(full_every=2) as saver:
        paths = [saver.save_async(state, folder / "c_1.pt"), saver.save_async(later, folder / "c_2.pt")]
    with CheckpointFile(paths[1]) as slip:
        assert any(codec & DECAY for codec in slip._container.codecs)
    return paths, [state, later]


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.soak)])
def test_flipped_bytes_and_cut_files_are_found(count, tmp_path):
    rng = random.Random(count)
    paths, _ = write_pair(tmp_path)
    good = [p.read_bytes() for p in paths]
    for n in range(count):
        which = rng.randrange(2)
        data = bytearray(good[which])
        if n % 4 == 3:
            data = data[: rng.randrange(len(data))]
        else:
            ends = (rng.randrange(64), len(data) - 1 - rng.randrange(3000))
            data[rng.randrange(len(data)) if n % 2 else rng.choice(ends)] ^= rng.randrange(1, 256)
        paths[which].write_bytes(data)
        assert maintenance.verify(paths[which]) is not None
        with pytest.raises(CorruptCheckpointError):
            load_checkpoint(paths[which])
        paths[which].write_bytes(good[which])
    assert all(maintenance.verify(p) is None for p in paths)


HOSTILE = {
    "a huge stream": lambda x: x.head["streams"][0].__setitem__(1, 1 << 60),
    "a stream too few": lambda x: x.head["streams"].pop(),
    "an unknown codec": lambda x: x.pieces.__setitem__(0, (99, x.pieces[0][1])),
    "a place outside": lambda x: x.head["tensors"][0].__setitem__(1, 1 << 50),
    "a huge shape": lambda x: x.head["tensors"][0].__setitem__(4, [1 << 40, 1 << 40]),
    "a dtype that is a function": lambda x: x.head["tensors"][0].__setitem__(3, "load"),
    "a tensor that is not there": lambda x: x.head.__setitem__("structure", {"$tensor": 10**6}),
    "a tuple of another kind": lambda x: x.head.__setitem__("structure", {"$tuple": {"a": 1}}),
    "a number of no bytes": lambda x: x.head.__setitem__("structure", {"a": {"$float": "zz"}}),
    "a base elsewhere": lambda x: x.head.__setitem__("base", ["../../etc/passwd", "00" * 32]),
    "a device unheard of": lambda x: x.head["tensors"][0].__setitem__(7, "nowhere"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_forged_index_is_refused(what, tmp_path):
    (path, _), _ = write_pair(tmp_path)
    forge(path, HOSTILE[what])
    with pytest.raises(CorruptCheckpointError):
        load_checkpoint(path)
    assert maintenance.verify(path) is not None


# --- bombs: small files that ask for much memory or time


def save(state, path, compress=True, **options):
    with AsyncCheckpointSaver(**options) as saver:
        return saver.save_async(state, path, compress)


@pytest.mark.parametrize("compress", [True, "lz4", False])
def test_a_checkpoint_larger_than_the_budget_is_refused(compress, tmp_path):
    path = save({"zeros": torch.zeros(1 << 20)}, tmp_path / "c.pt", compress)
    assert load_checkpoint(path, max_bytes=64 << 20)["zeros"].numel() == 1 << 20
    with pytest.raises(TooLargeError, match=re.escape(str(path))):
        load_checkpoint(path, max_bytes=1 << 20)


def test_a_part_within_the_budget_can_be_loaded(tmp_path):
    path = save({"large": torch.zeros(1 << 20), "small": torch.ones(3)}, tmp_path / "c.pt")
    assert load_checkpoint(path, keys=["small"], max_bytes=1 << 20)["small"].tolist() == [1, 1, 1]


def test_a_stride_of_zero_counts_as_what_it_shows(tmp_path):
    path = save({"a": torch.arange(4.0)}, tmp_path / "c.pt")
    forge(path, lambda x: x.head["tensors"][0].__setitem__(slice(4, 6), [[1 << 40], [0]]))
    torch.save({"a": torch.zeros(1).expand(1 << 40)}, tmp_path / "torch.pt")
    for file in (path, tmp_path / "torch.pt"):
        with pytest.raises(TooLargeError, match=str(file)):
            load_checkpoint(file)


def test_a_difference_to_a_difference_is_refused(tmp_path):
    (first, second), _ = write_pair(tmp_path)
    identity = CheckpointFile(second).identity
    first.write_bytes(second.read_bytes())
    forge(first, lambda x: x.head.__setitem__("base", ["c_2.pt.slip", identity.hex()]))
    second.rename(tmp_path / "c.pt.slip")
    with pytest.raises(CorruptCheckpointError, match=r"needs c_2.pt.slip: it is not there"):
        load_checkpoint(first)
    (tmp_path / "c.pt.slip").rename(second)
    with pytest.raises(CorruptCheckpointError, match="cannot be the base of another"):
        load_checkpoint(first)


def test_a_folder_with_a_link_that_leads_out_is_not_written(tmp_path):
    run, precious = tmp_path / "run", tmp_path / "precious"
    run.mkdir()
    precious.write_text("precious")
    (run / "latest.pt.slip").symlink_to(precious)
    with AsyncCheckpointSaver(links=True) as saver, pytest.raises(UnsafeFolderError, match="latest.pt.slip"):
        saver.save_async({}, run / "c_1.pt")
    assert precious.read_text() == "precious" and [p.name for p in run.iterdir()] == ["latest.pt.slip"]


class Evil:
    def __reduce__(self):
        return (os.system, ("touch /tmp/slipstream-was-run",))


def test_a_pickle_with_code_in_it_is_refused(tmp_path):
    torch.save({"a": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(UnsafeCheckpointError, match="run code"):
        load_checkpoint(tmp_path / "evil.pt")
    assert not Path("/tmp/slipstream-was-run").exists()


def test_a_difference_without_its_base_says_which_file_is_missing(tmp_path):
    (first, second), (_, later) = write_pair(tmp_path)
    first.unlink()
    with pytest.raises(CorruptCheckpointError, match="needs c_1.pt.slip: it is not there"):
        load_checkpoint(second)
    with AsyncCheckpointSaver() as saver:
        saver.save_async(later, tmp_path / "c_1.pt")
    with pytest.raises(CorruptCheckpointError, match="another checkpoint"):
        load_checkpoint(second)


def test_a_base_that_is_replaced_while_it_is_opened_is_refused(tmp_path, monkeypatch):
    (first, second), (_, later) = write_pair(tmp_path)
    with AsyncCheckpointSaver() as saver:
        other = saver.save_async(later, tmp_path / "other.pt")

    def replaced_after(path):
        identity = read_identity(path)
        other.rename(path)
        return identity

    monkeypatch.setattr("slipstream.checkpoint.load.read_identity", replaced_after)
    with pytest.raises(CorruptCheckpointError, match="needs c_1.pt.slip: it is another checkpoint"):
        load_checkpoint(second)


def test_what_is_no_file_does_not_hide_the_checkpoints(tmp_path):
    folder = tmp_path / "checkpoints"
    with AsyncCheckpointSaver(keep_last=2, links=True) as saver:
        saver.save_async({"a": 1}, folder / "ckpt_000001.pt")
        os.mkfifo(folder / "ckpt_000002.pt.slip")
        os.mkdir(folder / "ckpt_000003.pt.slip")
        os.symlink("gone", folder / "ckpt_000004.pt.slip")
        os.mkfifo(folder / "latest.pt")
        saver.save_async({"a": 5}, folder / "ckpt_000005.pt")
        saver.wait()
    good = [folder / f"ckpt_00000{i}.pt.slip" for i in (1, 5)]
    with pytest.warns(RuntimeWarning, match="ckpt_00000[234].pt.slip is not a file: it is left out"):
        assert checkpoint_files(tmp_path) == good
    with pytest.warns(RuntimeWarning):
        assert checkpoints_of(folder) == good[::-1]
    with pytest.warns(RuntimeWarning):
        assert newest_good(folder)[1] == {"a": 5} and load_checkpoint(tmp_path) == {"a": 5}
    with pytest.raises(FileNotFoundError):
        load_checkpoint(folder / "ckpt_000002.pt.slip")
