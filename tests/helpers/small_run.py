"""A navigation training that takes a second, and copies of its run with other values in the checkpoint."""

import shlex

import torch

from slipstream.checkpoint import load_checkpoint

TINY = shlex.split("""
    env.num_envs=8 env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20 env.max_episode_steps=400
    algo.rollout_steps=8 algo.minibatches=4 algo.epochs=1 model.encoder=dict model.part=8 model.trunk=[16] env.num_worlds=2
    total_frames=64 save_interval=1 eval_interval=0 compress_checkpoint=false device=cpu threads=1 quiet=true wandb.mode=disabled
""")


def rewritten(run, folder, changes):
    """A copy of a run whose checkpoint has other values, or none at all (`...`), at dotted paths."""
    state = load_checkpoint(next((run / "checkpoints").glob("ckpt_*")))
    for path, value in changes.items():
        *above, last = path.split(".")
        place = state
        for name in above:
            place = place[name]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    copy = folder / "copy"
    (copy / "checkpoints").mkdir(parents=True)
    (copy / "config.yaml").write_text((run / "config.yaml").read_text())
    torch.save(state, copy / "checkpoints" / "ckpt_000001.pt")
    return copy
