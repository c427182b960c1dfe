"""A run whose newest checkpoints are broken continues from the newest good one, and says so."""

from __future__ import annotations

import shutil

import pytest
from tiny_runs import TINY, differences, rows_of, run_words, state_of

from slipstream.algorithms.policy_file import load_policy
from slipstream.checkpoint.errors import CorruptCheckpointError
from slipstream.checkpoint.load import checkpoints_of
from slipstream.cli import main
from slipstream.config.registry import find_task
from slipstream.training.run_folder import RunFolder

# 8 iterations, a checkpoint after each; complete ones after 1 and 5, differences between
WORDS = [*TINY, "total_frames=512", "save_interval=1", "keep_checkpoints=20", "checkpoint_full_every=4"]
DATA, INDEX = -40, 200  # a byte in the last chunk, a byte in the header


def run_tiny(root, *words):
    return run_words(root, "tiny", *WORDS, *words)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing disturbed."""
    return run_tiny(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def copy(whole, tmp_path):
    """Its copy, to be broken."""
    shutil.copytree(whole.path, tmp_path / "copy", symlinks=True)
    return RunFolder.open(tmp_path / "copy")


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def slip(folder, iteration):
    return folder.checkpoints / f"ckpt_{iteration:06d}.pt.slip"


def resume(folder, *words):
    return main(["train", f"resume={folder.path}", *words])


@pytest.mark.parametrize("place", [DATA, INDEX])
def test_a_broken_newest_checkpoint_is_written_again(whole, copy, capsys, place):
    flip(slip(copy, 8), place)
    assert resume(copy) == 0
    message = capsys.readouterr().err
    assert message.count("\n") == 1 and "ckpt_000008.pt.slip is broken (" in message and "checksum" in message
    assert "continuing from iteration 7, ckpt_000007.pt.slip" in message and "delete broken files" in message
    assert differences(state_of(whole), state_of(copy)) == [] and rows_of(whole) == rows_of(copy)
    assert main(["ckpt", "verify", str(copy.path)]) == 0
    assert not list(copy.checkpoints.glob(".*"))
    assert resume(copy) == 0 and capsys.readouterr().err == ""


def test_differences_to_a_broken_file_are_broken_with_it(whole, copy, capsys):
    flip(slip(copy, 5), INDEX)
    assert resume(copy) == 0
    message = capsys.readouterr().err
    assert all(f"ckpt_00000{i}.pt.slip is broken" in message for i in (5, 6, 7, 8))
    assert "continuing from iteration 4" in message
    assert differences(state_of(whole), state_of(copy)) == [] and rows_of(whole) == rows_of(copy)
    capsys.readouterr()
    assert resume(copy) == 0 and capsys.readouterr().err == ""


def test_a_best_policy_that_is_broken_is_passed_over(copy, capsys):
    best = copy.path / "best.pt"
    shutil.copy(find_task("navigation").weights, best)
    assert load_policy(copy.path).path == best
    flip(best, best.stat().st_size // 2)
    assert load_policy(copy.path).path.name == "ckpt_000008.pt.slip"
    message = capsys.readouterr().err
    assert message.startswith("best.pt is broken (") and message.count("\n") == 1
    with pytest.raises(CorruptCheckpointError, match="best.pt"):  # asked for by name there is no other
        load_policy(best)


def test_flipped_weights_of_a_plain_torch_file_are_noticed(tmp_path, capsys):
    folder = run_tiny(tmp_path, "compress_checkpoint=false", "checkpoint_full_every=1", "total_frames=192")
    newest = folder.checkpoints / "ckpt_000003.pt"
    weights = next(iter(state_of(folder)["algo"]["policy"].values())).numpy().tobytes()
    flip(newest, newest.read_bytes().index(weights) + 1)
    assert resume(folder) == 0
    assert "ckpt_000003.pt is broken (" in capsys.readouterr().err


def test_where_all_are_broken_each_is_named(copy, capsys):
    for path in checkpoints_of(copy.checkpoints):
        flip(path, INDEX)
    assert resume(copy) == 2
    message = capsys.readouterr().err
    assert "is complete: ckpt_000008.pt.slip is broken (" in message and "init=" in message
    with pytest.raises(CorruptCheckpointError):
        load_policy(copy.path)
    for path in checkpoints_of(copy.checkpoints):
        path.unlink()
    assert resume(copy) == 2 and "no checkpoint in" in capsys.readouterr().err
