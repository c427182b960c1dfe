"""Training with checkpoints that hold only what changed, and with the link to the newest."""

import shlex

import torch

from slipstream import train
from slipstream.checkpoint import load_checkpoint
from slipstream.checkpoint.load import CheckpointFile
from slipstream.cli import main
from slipstream.config.compose import load_train

TINY = shlex.split("""
    env.num_envs=8 env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20 env.max_episode_steps=400
    algo.rollout_steps=8 algo.minibatches=4 algo.epochs=1 model.encoder=dict model.part=8 model.trunk=[64]
    total_frames=512 save_interval=1 eval_interval=0 device=cpu quiet=true wandb.mode=disabled
""")


def run_tiny(root, name, *words):
    return train.run(load_train([*TINY, f"root={root}", f"name={name}", *words]))


def base_of(path):
    with CheckpointFile(path) as slip:
        return slip.base


def differing(a, b, at=""):
    """Where two states differ in a bit, but for their configurations and the time they took."""
    if isinstance(a, dict):
        return [
            d
            for key in {**a, **b}
            if key not in ("config", "trained_s")
            for d in differing(a[key], b[key], f"{at}.{key}")
        ]
    if isinstance(a, torch.Tensor):
        return [] if a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes() else [at]
    return [] if a == b else [at]


def test_a_run_resumed_from_a_difference_is_the_run_that_never_stopped(tmp_path):
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
    assert (
        differing(load_checkpoint(half.checkpoints / "latest.pt"), load_checkpoint(whole.checkpoints / "latest.pt"))
        == []
    )


def test_the_best_policy_is_no_link_of_the_series(tmp_path):
    evaluation = ("eval_interval=1", "eval.num_drones=2", "eval.map_seeds=[1]", "eval.max_steps=60")
    folder = run_tiny(tmp_path, "best", "total_frames=128", *evaluation)
    assert (folder.path / "best.pt").is_file() and not (folder.path / "latest.pt").exists()
    assert sorted(p.name for p in folder.checkpoints.iterdir()) == [
        "ckpt_000001.pt.slip",
        "ckpt_000002.pt.slip",
        "latest.pt.slip",
    ]
