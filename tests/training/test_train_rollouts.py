"""Training leaves every n-th batch in RUN/rollouts, and learns the same as without."""

import torch

from slipstream import RolloutStorage
from slipstream.checkpoint import load_checkpoint
from slipstream.checkpoint.load import checkpoints_of
from slipstream.config.compose import load_train
from slipstream.rollouts.export import episodes
from slipstream.train import run
from slipstream.training.metrics_log import read_metrics

SMALL = ["preset=demo", "max_time_s=0", "env.num_envs=32", "algo.rollout_steps=8", "algo.minibatches=2", "algo.epochs=1",
         "total_frames=1536", "eval_interval=0", "threads=1", "quiet=true"]  # fmt: skip


def test_every_nth_batch_is_saved_and_nothing_else_changes(tmp_path):
    plain = run(load_train([*SMALL, f"root={tmp_path}", "name=plain"]))
    saved = run(load_train([*SMALL, f"root={tmp_path}", "name=saved", "rollout_save_interval=2", "rollout_keep=2"]))
    assert not (plain.path / "rollouts").exists()
    with RolloutStorage(saved.path / "rollouts") as storage:
        assert storage.iterations() == [4, 6]  # the last two of three
        batch = storage.load(6)
        assert batch.batch_size == (32, 8)
        assert torch.equal(batch["observation", "lidar"][:, 1:], batch["next", "observation", "lidar"][:, :-1])
        valid = int(sum(b["valid"].sum() for _, b in storage))
        assert sum(len(e["reward",]) for e in episodes(storage, [4, 6])) == valid
    assert [row["iteration"] for row in read_metrics(saved.path)] == list(range(1, 7))  # one convention
    assert checkpoints_of(saved.checkpoints)[0].name.startswith("ckpt_000006.pt")
    weights = [load_checkpoint(folder.checkpoints)["algo"]["policy"] for folder in (plain, saved)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
