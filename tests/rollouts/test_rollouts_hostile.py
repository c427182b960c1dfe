"""Files whose checksums hold and whose numbers cannot be: refused by name, and the files beside them are still read."""

import os

import numpy as np
import pytest
import torch
from helpers.forged import put_together, take_apart
from rollout_worlds import same, world

from slipstream import RolloutStorage
from slipstream.cli import main as slipstream
from slipstream.rollouts.reader import BROKEN, RolloutFile
from slipstream.storage import container
from slipstream.storage.errors import TooLargeError
from slipstream.storage.reader import open_regular

HUGE = 1 << 63


def main(words):
    return slipstream(["rollouts", *words])


@pytest.fixture
def folder(tmp_path):
    """Three batches; the tests forge the second one."""
    with RolloutStorage(tmp_path, threads=1) as storage:
        for i in range(3):
            storage.save(world(first=16 * i), i, note={"frames": i})
    return tmp_path


def forge(path, change, sections=None):
    """Write the file again with a changed head, all checksums right."""
    parts = take_apart(path.read_bytes())
    change(parts.head)
    if sections is not None:
        blocks = [np.frombuffer(data, np.uint8).copy() for _, data in parts.pieces]
        sections(blocks)
        parts.pieces = [(0, block.tobytes()) for block in blocks]
    path.write_bytes(put_together(parts))


def column(name, value, i=0):
    return lambda head: head["columns"][i].update({name: value})


def top(name, value):
    return lambda head: head.update({name: value})


ABSURD = {
    "group of 0": column("layout", [1, 0, 4]),
    "span of 0": column("layout", [0, 1, 1]),
    "no layout": column("layout", []),
    "rows of 2^31": column("layout", [1, 1, (1 << 31) - 1]),
    "layout of 2^63": column("layout", [1, HUGE, HUGE]),
    "shape of 2^63": column("shape", [6, 16, HUGE]),
    "shape whose product overflows": column("shape", [6, 16, 1 << 40, 1 << 40]),
    "negative shape": column("shape", [6, 16, -1]),
    "frames of 2^63": column("frames", HUGE),
    "fewer frames": column("frames", 3),
    "block far away": column("first", 10**6),
    "negative block": column("first", -1),
    "follows nothing": column("follows", 99, 4),
    "follows itself": column("follows", 4, 4),
    "follows a list": column("follows", [0], 4),
    "stored nowhere": column("stored", None, 4),
    "dtype of objects": column("dtype", "numpy:O"),
    "dtype of a function": column("dtype", "zeros"),
    "steps that are text": column("steps", "yes"),
    "saved in 1e300": top("saved", 1e300),
    "saved in the past": top("saved", -1.0),
    "saved as text": top("saved", "now"),
    "iteration of a float": top("iteration", 1.5),
    "batch of 2^62 steps": top("lead", [1 << 31, 1 << 31]),
    "batch of 2^63 environments": top("lead", [HUGE, 1]),
    "three leading dimensions": top("lead", [6, 16, 40]),
    "no tree": top("tree", None),
    "tree of another batch": top("tree", {"x": {"$tensor": 0}}),
    "tree with a link out of range": top("tree", {"x": {"$tensor": 7}}),
    "no columns": top("columns", []),
    "columns of text": top("columns", "all"),
    "note of a tensor": top("note", {"x": {"$tensor": 0}}),
}


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_head_is_refused_and_listed(folder, name, capsys):
    path = folder / "rollout_000001.slip"
    forge(path, ABSURD[name])
    with pytest.raises(BROKEN, match="rollout_000001.slip: "):
        RolloutFile(path)
    storage = RolloutStorage(folder, on_broken=lambda path, error: None)
    assert storage.iterations() == [0, 2] and same(world(first=32), storage.load(2))
    assert main(["ls", str(folder)]) == 0
    assert "3 batches (1 of them broken)" in capsys.readouterr().out
    assert main(["verify", str(folder)]) == 1 and "2 good, 1 broken" in capsys.readouterr().out
    assert main(["show", str(folder)]) == 0 and main(["show", str(folder), "--all"]) == 1


def test_an_untouched_head_is_read_again(folder):
    path = folder / "rollout_000001.slip"
    forge(path, lambda head: None)
    assert same(world(first=16), RolloutFile(path).read())


def test_stored_steps_that_do_not_fit_are_refused(folder):
    path = folder / "rollout_000001.slip"
    forge(path, lambda head: None, lambda parts: parts[-1].fill(0))  # the bits of the successor's own steps
    file = RolloutFile(path)
    with pytest.raises(BROKEN, match="other steps"):
        file.read()
    assert any("other steps" in problem for problem in file.damaged())


def test_a_batch_larger_than_max_bytes_is_refused(tmp_path):
    with RolloutStorage(tmp_path, threads=1) as storage:
        path = storage.save({"reward": torch.zeros(4, 1 << 19)}, 1)  # 8 MB
        for _ in range(2):  # a budget holds for its own call, also if the file is open
            with pytest.raises(TooLargeError, match=f"{path}.*max_bytes"):
                storage.load(1, max_bytes=4 << 20)
            with pytest.raises(TooLargeError, match=f"{path}.*max_bytes"):
                storage.load_slice(1, envs=[0, 1], max_bytes=3 << 20)
            assert storage.load(1)["reward"].shape == (4, 1 << 19)
            assert storage.load_slice(1, envs=0, steps=slice(0, 9), max_bytes=64 << 20)["reward"].shape == (1, 9)
    strict = RolloutStorage(tmp_path, on_broken="skip", max_bytes=1 << 20)
    with pytest.warns(RuntimeWarning, match="would take"):
        assert list(strict) == []
    assert strict.load(1, max_bytes=64 << 20)["reward"].shape == (4, 1 << 19)


def put_in_the_way(*paths):
    """A pipe, a folder, and links to nothing and in a circle, in turn."""
    makers = (os.mkfifo, os.mkdir, lambda p: os.symlink("gone", p), lambda p: os.symlink(os.path.basename(p), p))
    for path, make in zip(paths, makers, strict=False):
        make(path)


@pytest.mark.filterwarnings("ignore:.*is not a file")
def test_what_is_no_file_does_not_hide_the_rollouts(tmp_path, capsys):
    with RolloutStorage(tmp_path, threads=1) as storage:
        for i in (1, 3):
            storage.save(world(i), i)
    put_in_the_way(*(tmp_path / f"rollout_{i:06d}.slip" for i in (0, 2, 4, 5)))
    with pytest.warns(RuntimeWarning, match="rollout_000000.slip is not a file: it is left out"):
        assert RolloutStorage(tmp_path).iterations() == [1, 3]
    assert [i for i, _ in RolloutStorage(tmp_path)] == [1, 3] and len(RolloutStorage(tmp_path).slices(2)) > 0
    for i in (0, 2):
        with pytest.raises(BROKEN, match="not a regular file"):
            RolloutStorage(tmp_path).load(i)
    assert slipstream(["rollouts", "ls", str(tmp_path)]) == 0
    assert slipstream(["rollouts", "verify", str(tmp_path)]) == 0


def test_a_file_that_cannot_be_opened_does_not_hide_the_others(folder, monkeypatch):
    def refuse(path):
        if path.name == "rollout_000001.slip":
            raise PermissionError(13, "Permission denied", str(path))
        return open_regular(path)

    monkeypatch.setattr(container, "open_regular", refuse)
    with pytest.warns(RuntimeWarning, match="rollout_000001.slip cannot be read: Permission denied"):
        assert 1 not in RolloutStorage(folder, on_broken="skip").iterations()
