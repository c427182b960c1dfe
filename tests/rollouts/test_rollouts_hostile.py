"""Files whose checksums hold and whose numbers cannot be: refused by name, and the files beside them are still read."""

import os

import pytest
import torch
import zstandard
from helpers.forged import forge
from helpers.states import same
from rollout_worlds import world

from slipstream import RolloutStorage
from slipstream.cli import main as slipstream
from slipstream.rollouts.file import BROKEN, RolloutFile
from slipstream.storage import tensor_file
from slipstream.storage.errors import TooLargeError
from slipstream.storage.tensor_file import open_regular

HUGE = 1 << 63


def main(words):
    return slipstream(["rollouts", *words])


@pytest.fixture
def folder(tmp_path):
    """Three batches; the tests forge the second one."""
    with RolloutStorage(tmp_path) as storage:
        for i in range(3):
            storage.save(world(first=16 * i), i)
    return tmp_path


DTYPE, SHAPE, FIRST, BASE, OWN = range(5)


def column(what, value, i=0):
    return lambda parts: parts.head["columns"][i].__setitem__(what, value)


def top(name, value):
    return lambda parts: parts.head.update({name: value})


ABSURD = {
    "shape of 2^63": column(SHAPE, [6, 16, HUGE]),
    "shape whose product overflows": column(SHAPE, [6, 16, 1 << 40, 1 << 40]),
    "more pieces than the file has": column(SHAPE, [6, 16, 1 << 30]),
    "negative shape": column(SHAPE, [6, 16, -1]),
    "piece far away": column(FIRST, 10**6),
    "negative piece": column(FIRST, -1),
    "follows nothing": column(BASE, 99, 4),
    "follows itself": column(BASE, 4, 4),
    "follows a list": column(BASE, [0], 4),
    "own steps nowhere": column(OWN, None, 4),
    "own steps of another array": column(OWN, [0, "uint8", [3]], 4),
    "dtype of a function": column(DTYPE, "zeros"),
    "batch of 2^62 steps": top("lead", [1 << 31, 1 << 31]),
    "batch of 2^63 environments": top("lead", [HUGE, 1]),
    "three leading dimensions": top("lead", [6, 16, 40]),
    "no tree": top("tree", None),
    "tree of another batch": top("tree", {"x": {"$tensor": 0}}),
    "tree with a link out of range": top("tree", {"x": {"$tensor": 7}}),
    "columns of text": top("columns", "all"),
    "a TensorDict of batch size -1": lambda parts: parts.head["tree"]["$tensordict"].__setitem__(1, [-1]),
}


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_head_is_refused_and_listed(folder, name, capsys):
    path = folder / "rollout_000001.slip"
    forge(path, ABSURD[name])
    with pytest.raises(BROKEN, match="rollout_000001.slip: "):
        RolloutFile(path)
    storage = RolloutStorage(folder)
    assert storage.iterations() == [0, 1, 2] and same(world(first=32), storage.load(2))
    assert main(["info", str(folder)]) == 0
    assert "3 batches (1 of them broken)" in capsys.readouterr().out
    assert main(["verify", str(folder)]) == 1 and "2 good, 1 broken" in capsys.readouterr().out


def test_forged_pieces_are_refused(folder):
    path = folder / "rollout_000001.slip"
    forge(path, lambda parts: None)
    assert same(world(first=16), RolloutFile(path).read())
    frame = zstandard.ZstdCompressor().compress
    for piece in (b"", b"no zstd", frame(bytes(5)), frame(bytes(1 << 20))[:40]):
        forge(path, lambda parts, piece=piece: parts.pieces.__setitem__(0, (0, piece)))
        with pytest.raises(BROKEN, match="rollout_000001.slip: observation.x is damaged in piece 1 of 1"):
            RolloutFile(path).read()
        assert len(list(RolloutFile(path).problems())) == 1


def test_a_successor_without_its_last_step_is_refused(folder):
    path = folder / "rollout_000001.slip"

    def without_steps(parts):
        number = parts.head["columns"][4][OWN][0]
        parts.pieces[number] = (0, bytes(len(parts.pieces[number][1])))

    forge(path, without_steps)
    with pytest.raises(BROKEN, match="rollout_000001.slip: .* lack the last one"):
        RolloutFile(path)


def test_a_batch_larger_than_max_bytes_is_refused(tmp_path):
    with RolloutStorage(tmp_path) as storage:
        path = storage.save({"reward": torch.zeros(4, 1 << 19)}, 1)  # 8 MB
    strict = RolloutStorage(tmp_path, max_bytes=3 << 20)
    for read in (strict.load, lambda i: strict.load_slice(i, envs=[0, 1])):
        with pytest.raises(TooLargeError, match=f"{path}.*max_bytes"):
            read(1)
    assert strict.load_slice(1, envs=0, steps=slice(0, 9))["reward"].shape == (1, 9)


def put_in_the_way(*paths):
    """A pipe, a folder, and links to nothing and in a circle, in turn."""
    makers = (os.mkfifo, os.mkdir, lambda p: os.symlink("gone", p), lambda p: os.symlink(os.path.basename(p), p))
    for path, make in zip(paths, makers, strict=False):
        make(path)


@pytest.mark.filterwarnings("ignore:.*is not a file")
def test_what_is_no_file_does_not_hide_the_rollouts(tmp_path, capsys):
    with RolloutStorage(tmp_path) as storage:
        for i in (1, 3):
            storage.save(world(i), i)
    put_in_the_way(*(tmp_path / f"rollout_{i:06d}.slip" for i in (0, 2, 4, 5)))
    with pytest.warns(RuntimeWarning, match="rollout_000000.slip is not a file: it is left out"):
        assert RolloutStorage(tmp_path).iterations() == [1, 3]
    assert [i for i, _ in RolloutStorage(tmp_path)] == [1, 3]
    for i in (0, 2):
        with pytest.raises(BROKEN, match="not a regular file"):
            RolloutStorage(tmp_path).load(i)
    assert slipstream(["rollouts", "info", str(tmp_path)]) == 0
    assert slipstream(["rollouts", "verify", str(tmp_path)]) == 0


def test_a_file_that_cannot_be_opened_does_not_hide_the_others(folder, monkeypatch, capsys):
    def refuse(path):
        if path.name == "rollout_000001.slip":
            raise PermissionError(13, "Permission denied", str(path))
        return open_regular(path)

    monkeypatch.setattr(tensor_file, "open_regular", refuse)
    assert main(["verify", str(folder)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "2 good, 1 broken" in said and "Permission denied" in said
