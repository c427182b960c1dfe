"""The settings of a navigation training that takes a second."""

import shlex

TINY = shlex.split("""
    env.num_envs=8 env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20 env.max_episode_steps=400
    algo.rollout_steps=8 algo.minibatches=4 algo.epochs=1 model.encoder=dict model.part=8 model.trunk=[16] env.num_worlds=2
    total_frames=64 save_interval=1 eval_interval=0 compress_checkpoint=false device=cpu threads=1 quiet=true wandb.mode=disabled
""")
