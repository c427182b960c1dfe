"""The names of keys in other libraries, in one table.

A name stands for a key of ours, or for a sentence that says what to set instead: it has spaces.
"""

from __future__ import annotations

from typing import Any

# These mean the same for every task and algorithm: words are renamed as they are read, and so are the keys below a
# section (`env_dyn.x` is `env.dyn.x`). Flags are names too: `--num-envs 256` is `num_envs=256`.
KEYS = {
    "agent": "algo",
    "opponent": "env.opponent",
    "reward": "env.reward",
    "num_envs": "env.num_envs",
    "n_envs": "env.num_envs",
    "time_scale": "env.time_scale",
    "env_dyn.vel_range": "env.dyn.speed_mps",
    "env_dyn": "env.dyn",
    "sensor.lidar_range": "env.lidar.range_m",
    "algo.lr": "algo.learning_rate",
    "algo.actor.learning_rate": "algo.learning_rate",
    "algo.num_minibatches": "algo.minibatches",
    "algo.num_mini_batches": "algo.minibatches",
    "algo.training_epoch_num": "algo.epochs",
    "algo.entropy_loss_coefficient": "algo.entropy",
    "algo.learning_starts": "algo.warmup",
    "algo.gradient_steps": "algo.updates",
    "algo.training_frame_num": "algo.rollout_steps",
    "algo.train_freq": "algo.rollout_steps",
    "algo.target_update_interval": "algo.target_interval",
    "max_frame_num": "total_frames",
    "total_timesteps": "total_frames",
    "n_eval_episodes": "eval.num_drones",
    "eval.num_episodes": "eval.num_drones",
    "eval.episodes": "eval.num_drones",
    "checkpoint_dir": "root",
}
LENGTH = "give the length in frames: total_frames = iterations x env.num_envs x algo.rollout_steps"
EPISODE = "total_frames ends a training; the length of an episode is a key of env.*, or of your env"
NO_WINDOW = "there is no window: watch with slipstream view, and record flights with record_minutes=1"
FILM = "record flights with record_minutes=1, or make a film with slipstream eval out=flight.mp4"
LOGGED = "every iteration is logged; summary_interval=100 prints a summary every 100 iterations"
CHECKPOINT = "set resume=RUN to continue a run, or init=PATH to start from its weights"
ANGLES = "set env.lidar.elevations_deg, the list of angles, as in [-10,0,10,20]"
BEAMS = "set env.lidar.azimuths, the number of beams around: 360 / lidar_hres"
MINIBATCHES = "set the number of minibatches: algo.minibatches = env.num_envs x algo.rollout_steps / {}"
NO_BUFFER = "ppo has no replay buffer; algo=dqn, sac and td3 have one"
VALUE_CLIP = "algo.value_clip clips normalized values (0 is off): SB3's clips the values themselves"
ENTROPY = "algo.entropy=VALUE is where the search begins; with algo.learn_entropy=false it stays there"

# These belong to one config class and its subclasses: each meaning with its names in SB3, TorchRL, CleanRL, rsl_rl,
# rl_games and NavRL. Those of an algorithm are keys of `algo.*`.
OF_CLASS = {
    "TrainConfig": {
        "total_frames": "timesteps n_timesteps num_timesteps",
        "name": "experiment_name run_name exp_name",
        "root": "log_dir logdir output_dir",
        "resume": "load_run",
        LENGTH: "max_iterations",
        EPISODE: "max_steps",
        NO_WINDOW: "render",
        FILM: "video capture_video",
        LOGGED: "log_interval log_freq",
        CHECKPOINT: "checkpoint",
        BEAMS: "sensor.lidar_hres",
        ANGLES: "sensor.lidar_vfov sensor.lidar_vbeams",
        "set eval_interval, in iterations": "eval_freq",
        "set save_interval, in iterations, or save_minutes": "save_freq",
        "set quiet=true, or leave it out": "verbose",
        "set wandb.mode=online": "track",
        "set device=cuda, or device=cpu": "cuda",
    },
    "EvaluateConfig": {
        "eval.max_steps": "max_steps",
        "eval.num_drones": "n_episodes episodes",
        "open the page that it writes, or make a film with out=flight.mp4": "render",
        "make a film with out=flight.mp4": "video",
        "an evaluation always takes the mean action: leave it out": "deterministic",
        "an evaluation prints its table once: leave it out": "log_interval",
    },
    "PPOConfig": {
        "rollout_steps": "n_steps num_steps num_steps_per_env horizon_length horizon",
        "epochs": "n_epochs num_epochs num_learning_epochs mini_epochs update_epochs",
        "lam": "gae_lambda lambda lmbda tau",
        "clip": "clip_range clip_param clip_coef clip_epsilon e_clip",
        "entropy": "ent_coef entropy_coef entropy_coeff",
        "value_weight": "vf_coef value_loss_coef critic_coef critic_coeff",
        "target_kl": "desired_kl kl_threshold",
        "schedule": "lr_schedule",
        "max_grad_norm": "grad_norm",
        MINIBATCHES.format("minibatch size"): "batch_size minibatch_size mini_batch_size",
        VALUE_CLIP: "clip_range_vf",
        LENGTH: "max_iterations max_epochs",
        NO_BUFFER: "buffer_size warmup",
    },
    "BCConfig": {
        "epochs": "n_epochs num_epochs num_learning_epochs",
        "entropy": "ent_weight ent_coef",
        "data": "demonstrations dataset",
        "max_grad_norm": "grad_norm",
        MINIBATCHES.format("batch size"): "batch_size",
    },
    "OffPolicyConfig": {
        "n_step": "n_steps",
        "buffer_size": "replay_size memory_size",
        "max_grad_norm": "grad_norm",
        LENGTH: "max_iterations",
    },
    "DQNConfig": {
        "random_fraction": "exploration_fraction",
        "random_start": "exploration_initial_eps",
        "random_end": "exploration_final_eps",
    },
    "SACConfig": {ENTROPY: "ent_coef alpha init_temperature"},
    "TD3Config": {
        "policy_delay": "policy_freq",
        "target_noise": "target_policy_noise",
        "target_noise_limit": "target_noise_clip",
    },
}


def other_names(config: Any) -> dict[str, str]:
    """Return what other names mean for a composed config: a dotted key, or a sentence on what to set."""
    meanings = dict(KEYS)
    for section, part in (("", config), ("algo.", getattr(config, "algo", None))):
        for kind in reversed(type(part).__mro__):
            for meaning, names in OF_CLASS.get(kind.__name__, {}).items():
                target = meaning if " " in meaning else section + meaning
                meanings |= {section + name: target for name in names.split()}
    return meanings
