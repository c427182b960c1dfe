"""The names of keys in other libraries, in one table.

A name stands for a key of ours, or for a sentence that says what to set instead: it has spaces.
"""

from __future__ import annotations

from collections.abc import Collection

# Our key with its names in NavRL, SB3, TorchRL, CleanRL, rsl_rl and rl_games. These words are renamed as they are read,
# and so are the keys below a section (`env_dyn.x` is `env.dyn.x`). Flags are names too: `--num-envs 256`.
KEYS = {
    "algo": "agent",
    "env.opponent": "opponent",
    "env.reward": "reward",
    "env.num_envs": "num_envs n_envs",
    "env.shield": "shield",
    "env.time_scale": "time_scale",
    "env.dyn.speed_mps": "env_dyn.vel_range",
    "env.dyn": "env_dyn",
    "env.lidar.range_m": "sensor.lidar_range",
    "eval.num_drones": "n_eval_episodes eval.num_episodes eval.episodes",
    "algo.minibatches": "algo.num_minibatches algo.num_mini_batches",
    "total_frames": "max_frame_num total_timesteps timesteps n_timesteps num_timesteps",
    "name": "experiment_name run_name exp_name",
    "root": "checkpoint_dir log_dir logdir output_dir",
    "resume": "load_run",
}
ALIASES = {alias: key for key, aliases in KEYS.items() for alias in aliases.split()}
# The same for names that other configs have as keys of their own: they count where the config has our key. Of two keys
# with one name the later counts.
NAMES = {
    "eval.max_steps": "max_steps",
    "env.lidar.range_m": "sensor.lidar_range",
    "env.max_episode_steps": "env.max_episode_length",
    "env.max_speed_mps": "algo.actor.action_limit",
    "env.dt_s": "sim.dt",
    "algo.learning_rate": "algo.lr algo.actor.learning_rate algo.critic.learning_rate "
    "algo.feature_extractor.learning_rate",
    "algo.rollout_steps": "algo.training_frame_num algo.train_freq algo.n_steps algo.num_steps algo.num_steps_per_env "
    "algo.horizon_length algo.horizon",
    "algo.n_step": "algo.n_steps",
    "algo.epochs": "algo.training_epoch_num algo.n_epochs algo.num_epochs algo.num_learning_epochs algo.mini_epochs "
    "algo.update_epochs",
    "algo.lam": "algo.gae_lambda algo.lambda algo.lmbda algo.tau",
    "algo.clip": "algo.clip_range algo.clip_param algo.clip_coef algo.clip_epsilon algo.e_clip algo.actor.clip_ratio",
    "algo.value_clip": "algo.critic.clip_ratio",
    "algo.entropy": "algo.entropy_loss_coefficient algo.ent_coef algo.entropy_coef algo.entropy_coeff algo.ent_weight",
    "algo.value_weight": "algo.vf_coef algo.value_loss_coef algo.critic_coef algo.critic_coeff",
    "algo.target_kl": "algo.desired_kl algo.kl_threshold",
    "algo.schedule": "algo.lr_schedule",
    "algo.max_grad_norm": "algo.grad_norm",
    "algo.data": "algo.demonstrations algo.dataset",
    "algo.warmup": "algo.learning_starts",
    "algo.updates": "algo.gradient_steps",
    "algo.target_interval": "algo.target_update_interval",
    "algo.buffer_size": "algo.replay_size algo.memory_size",
    "algo.random_fraction": "algo.exploration_fraction",
    "algo.random_start": "algo.exploration_initial_eps",
    "algo.random_end": "algo.exploration_final_eps",
    "algo.policy_delay": "algo.policy_freq",
    "algo.target_noise": "algo.target_policy_noise",
    "algo.target_noise_limit": "algo.target_noise_clip",
}
LENGTH = "give the length in frames: total_frames = iterations x env.num_envs x algo.rollout_steps"
MINIBATCHES = "set the number of minibatches: algo.minibatches = env.num_envs x algo.rollout_steps / minibatch size"
ENTROPY = "algo.entropy=VALUE is where the search begins; with algo.learn_entropy=false it stays there"
# A key that a config must have, names that have no equal there, and what to set instead.
INSTEAD = (
    ("algo.minibatches", "algo.batch_size algo.minibatch_size algo.mini_batch_size", MINIBATCHES),
    ("algo.learn_entropy", "algo.ent_coef algo.alpha algo.init_temperature", ENTROPY),
    ("total_frames", "max_iterations algo.max_iterations algo.max_epochs", LENGTH),
    ("total_frames", "max_steps", "total_frames ends a training; the length of an episode is a key of env.*"),
    ("total_frames", "checkpoint", "set resume=RUN to continue a run, or init=PATH to start from its weights"),
    ("seed", "render video", "there is no window: watch with slipstream view; record_minutes=1 records a training"),
    ("seed", "log_interval log_freq", "every iteration is logged; summary_interval=100 prints summaries"),
    ("seed", "verbose", "the terminal shows every iteration; quiet=true shows less"),
    ("env.episode_s", "episode_max_steps", "a duel lasts env.episode_s=60 seconds of game time: steps / 60"),
    ("algo.bf16", "precision amp fp16", "algo.bf16=true computes the encoder in bfloat16; there is no float16"),
    ("env.lidar.azimuths", "sensor.lidar_hres", "env.lidar.azimuths=36 is the number of beams: 360 / lidar_hres"),
    ("env.lidar.azimuths", "sensor.lidar_vfov sensor.lidar_vbeams", "list env.lidar.elevations_deg=[-10,0,10,20]"),
)
# Words that are typed elsewhere, and ours; or what to do instead.
WORDS = {
    "algo=ppo_agent": "algo=ppo",
    "algo=STG_ppo1": "algo=ppo",
    "precision=mixed": "algo.bf16=true",
    "precision=fp32": "algo.bf16=false",
    "algo=a3c": "use algo=ppo; actors.count=8 collects in processes of their own",
    "algo=trpo": "use algo=ppo with algo.kl_limit, which ends an update that goes too far",
    "algo=placeholder": "this agent does not learn: fly it in an evaluation, with red=placeholder",
    "algo=rule_based": "this agent does not learn: fly it in an evaluation, with red=crank",
}
FLAGS = {"-a": "--agent", "-o": "--opponent", "-r": "--reward", "-n": "--num-envs", "-t": "--time-scale"}
FLAGS |= {"-d": "--device", "-v": "--verbose"}
# Sections and keys of NavRL's YAML files that have no equal. In a file they are left out with a warning.
WITHOUT_EFFECT = (
    *("defaults", "sim", "viewer", "drone", "env.env_spacing", "env.dyn.local_range"),
    "algo.feature_extractor.dyn_obs_num",
)


def other_names(keys: Collection[str]) -> dict[str, str]:
    """Return what other names mean for a config with these keys: a key, or a sentence on what to set."""
    meanings = dict(ALIASES)
    for key, names in NAMES.items():
        if key in keys:
            meanings |= dict.fromkeys(names.split(), key)
    for key, names, sentence in INSTEAD:
        if key in keys:
            meanings |= dict.fromkeys(names.split(), sentence)
    named = {key: key for key in keys} | meanings
    flags = {name.removeprefix("algo."): meaning for name, meaning in named.items() if name.startswith("algo.")}
    return flags | meanings  # as in --gamma 0.99


def is_without_effect(key: str) -> bool:
    """Return whether a key configures what is not here, such as Isaac Sim."""
    return any(f"{key}.".startswith(f"{name}.") for name in WITHOUT_EFFECT)
