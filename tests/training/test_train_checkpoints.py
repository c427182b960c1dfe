"""Training with checkpoints that hold only what changed, and with the link to the newest."""

from tiny_runs import TINY, differences, run_words, state_of

from slipstream import train
from slipstream.checkpoint.load import CheckpointFile
from slipstream.cli import main
from slipstream.config.compose import load_train

WORDS = [*TINY, "model.trunk=[64]", "total_frames=512", "save_interval=1"]


def run_tiny(root, name, *words):
    return run_words(root, name, *WORDS, *words)


def base_of(path):
    with CheckpointFile(path) as slip:
        return slip.base


def test_a_run_resumes_from_a_difference_bit_for_bit(tmp_path):
    whole = run_tiny(tmp_path, "whole", "checkpoint_full_every=4", "keep_checkpoints=3")
    kept = sorted(whole.checkpoints.glob("ckpt_*"))
    assert [base_of(path) is not None for path in kept] == [
        False,
        True,
        True,
        True,
    ]  # the whole one stays for those that need it
    assert main(["ckpt", "verify", str(whole.path)]) == 0
    half = run_tiny(tmp_path, "half", "checkpoint_full_every=4", "keep_checkpoints=3", "total_frames=384")
    newest = half.checkpoints / "ckpt_000006.pt.slip"
    assert base_of(newest) is not None and (half.checkpoints / "latest.pt.slip").resolve() == newest.resolve()
    train.run(load_train([f"resume={half.path}", "total_frames=512", "checkpoint_full_every=2"]))
    assert (half.checkpoints / "latest.pt.slip").exists() and differences(state_of(half), state_of(whole)) == []


def test_the_best_policy_is_no_link_of_the_series(tmp_path):
    evaluation = ("eval_interval=1", "eval.num_drones=2", "eval.map_seeds=[1]", "eval.max_steps=60")
    folder = run_tiny(tmp_path, "best", "total_frames=128", *evaluation)
    assert (folder.path / "best.pt").is_file() and not (folder.path / "latest.pt").exists()
    assert sorted(p.name for p in folder.checkpoints.iterdir()) == [
        "ckpt_000001.pt.slip",
        "ckpt_000002.pt.slip",
        "latest.pt.slip",
    ]
