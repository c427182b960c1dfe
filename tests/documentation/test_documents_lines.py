"""Lines that readers of the founding documents, of NavRL and of midrangeRL type: they work, or the answer names what
does, and docs/coming-from.md has a row for them."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

import slipstream
from slipstream.config.compose import flat_settings, load_train, to_dict
from slipstream.config.help import ConfigError

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")

ACCEPTED = {
    "--agent ppo_agent": ("algo.name", "ppo"),
    "-a STG_ppo1": ("algo.name", "ppo"),
    "-a ppo": ("algo.name", "ppo"),
    "-o rule_based": ("env.opponent", "rule_based"),
    "--opponent placeholder": ("env.opponent", "placeholder"),
    "-r zero": ("env.reward", "zero"),
    "-n 256": ("env.num_envs", 256),
    "-t 4.0": ("env.time_scale", 4.0),
    "-d cpu": ("device", "cpu"),
    "--lr 3e-4": ("algo.learning_rate", 3e-4),
    "--learning-rate 3e-4": ("algo.learning_rate", 3e-4),
    "--n-steps 2048": ("algo.rollout_steps", 2048),
    "--n-epochs 10": ("algo.epochs", 10),
    "--gamma 0.99": ("algo.gamma", 0.99),
    "--gae-lambda 0.9": ("algo.lam", 0.9),
    "--clip-epsilon 0.2": ("algo.clip", 0.2),
    "--value-loss-coef 0.4": ("algo.value_weight", 0.4),
    "--entropy-coef 0.01": ("algo.entropy", 0.01),
    "precision=mixed": ("algo.bf16", True),
    "wandb.mode=online": ("wandb.mode", "online"),
}
ANSWERED = {
    "--max-steps 10000": "total_frames ends a training",
    "--episode-max-steps 3600": "env.episode_s",
    "--render": "slipstream view",
    "--log-interval 100": "summary_interval",
    "--verbose": "quiet=true",
    "-v": "quiet=true",
    "--batch-size 64": "algo.minibatches",
    "--agent rule_based": "red=crank",
    "pin_memory=True": "are always pinned",
    "algo=a3c": "actors.count",
    "algo=trpo": "algo.kl_limit",
    "precision=fp16": "algo.bf16",
    "algo.actor.learning_rate=1e-4 algo.critic.learning_rate=1e-3": "are both algo.learning_rate here",
}


@pytest.mark.parametrize("line", ACCEPTED)
def test_a_typed_line_is_understood(line):
    key, value = ACCEPTED[line]
    config = load_train(["task=aircombat", *shlex.split(line)])
    assert ({"algo.name": config.algo.name} | flat_settings(to_dict(config)))[key] == value


@pytest.mark.parametrize("line", ANSWERED)
def test_a_typed_line_is_answered(line):
    with pytest.raises(ConfigError, match=ANSWERED[line]):
        load_train(["task=aircombat", *shlex.split(line)])
    option = shlex.split(line)[0]
    assert option == "-v" or option in PAGE, "docs/coming-from.md has no row for it"


@pytest.mark.parametrize("line", ["--opponent crank", "--num-envs 1024 --time-scale 4.0"])
def test_a_duel_without_its_task_is_answered(line):
    with pytest.raises(ConfigError, match="it needs task=aircombat"):
        load_train(shlex.split(line))


SECTIONS = {  # of NavRL's YAML files; every key of them
    "env": {"num_envs": 64, "max_episode_length": 2200, "env_spacing": 8.0, "num_obstacles": 350},
    "env_dyn": {"num_obstacles": 80, "vel_range": [0.5, 1.5], "local_range": [5.0, 5.0, 4.5]},
    "viewer": {"eye": [0.0, 40.0, 40.0], "lookat": [0.0, 2.5, 0.0], "resolution": [960, 720]},
    "wandb": {"project": "NavRL", "name": "train", "entity": "me", "mode": "disabled", "run_id": "null"},
    "drone": {"model_name": "Hummingbird"},
    "sensor": {"lidar_range": 4.0},
    "sim": {"dt": 0.016, "gravity": [0, 0, -9.81], "device": "cuda:0"},
}
SIM_KEYS = """
substeps replicate_physics use_flatcache use_gpu_pipeline solver_type use_gpu bounce_threshold_velocity
friction_offset_threshold friction_correlation_distance enable_stabilization enable_scene_query_support
gpu_max_rigid_contact_count gpu_max_rigid_patch_count gpu_found_lost_pairs_capacity
gpu_found_lost_aggregate_pairs_capacity gpu_total_aggregate_pairs_capacity gpu_max_soft_body_contacts
gpu_max_particle_contacts gpu_heap_capacity gpu_temp_buffer_capacity gpu_max_num_partitions
"""
SIM = SIM_KEYS.split()
SECTIONS["sim"] |= dict.fromkeys(SIM, 1)
TOP = "defaults: [_self_, drone, ppo, sim]\nheadless: True\ndevice: cpu\nseed: 0\nmax_frame_num: 12e8\n"
PPO = """algo:
  feature_extractor: {learning_rate: 5e-4, dyn_obs_num: 5}
  actor: {learning_rate: 5e-4, clip_ratio: 0.1, action_limit: 2.5}
  critic: {learning_rate: 5e-4, clip_ratio: 0.2}
  entropy_loss_coefficient: 1e-3
  training_frame_num: 32
  training_epoch_num: 4
  num_minibatches: 16
"""


def test_the_yaml_files_of_navrl_are_read(tmp_path):
    lines = (f"{name}: {value}\n".replace("'", "") for name, value in SECTIONS.items())
    (tmp_path / "train.yaml").write_text(TOP + "eval_interval: 1000\nsave_interval: 1000\n" + "".join(lines) + PPO)
    with pytest.warns(UserWarning, match="without effect here") as caught:
        config = load_train([f"config={tmp_path}/train.yaml"])
    assert config.total_frames == 1_200_000_000 and config.env.max_episode_steps == 2200 and config.env.dt_s == 0.016
    assert (config.algo.clip, config.algo.value_clip, config.env.max_speed_mps) == (0.1, 0.2, 2.5)
    (text,) = {str(warning.message) for warning in caught if "without effect" in str(warning.message)}
    for name in (
        "defaults",
        "viewer.eye",
        "drone.model_name",
        "sim.substeps",
        "env.env_spacing",
        "env.dyn.local_range",
    ):
        assert name in text
    assert "sim.dt" not in text and all(f"sim.{name}" in text for name in SIM)


@pytest.mark.parametrize("word", ["sensor.lidar_hres=10", "sensor.lidar_vbeams=4", "sensor.lidar_vfov=[-10,20]"])
def test_the_beams_of_navrl_are_answered(word):
    with pytest.raises(ConfigError, match=r"env\.lidar\."):
        load_train([word])
    with pytest.raises(ConfigError, match="has no effect here"):
        load_train(["sim.substeps=1"])


def test_the_lists_of_a_buffer_are_read_by_key():
    buffer = slipstream.DictReplayBuffer(max_size=5, keys=["observations", "done"], device="cpu")
    for first in (0, 3):
        buffer.add({"observations": np.arange(first, first + 3), "done": np.array([False, False, True])})
    assert buffer.buffer["observations"].tolist() == [3, 4, 5]  # the older episode has left
    assert buffer.buffer["done"].tolist() == [False, False, True]
    with pytest.raises(TypeError, match="ragged="):
        slipstream.DictReplayBuffer(max_size=5).add({"text": ["a", "bc"], "done": [False, True]})
    with pytest.raises(TypeError, match="give the arrays themselves"):
        slipstream.DictReplayBuffer(max_size=5).add({"image": [slipstream.compress_image(np.zeros(9))]})
    buffer.close()


def test_agents_and_rewards_are_made_in_midrangerls_order():
    assert slipstream.create_agent("rule_based", "cpu", 16).num_envs == 16
    agent = slipstream.create_agent(agent_type="placeholder", device="cpu", num_envs=3)
    assert (agent.num_envs, agent.device.type) == (3, "cpu")
    assert slipstream.PlaceholderAgent("cpu").num_envs == 1
    assert slipstream.create_reward(reward_type="zero", device="cpu").device.type == "cpu"


def test_observations_have_midrangerls_names_and_units():
    env = slipstream.AirCombatEnv(5)
    view, states = env.reset(), env.classic().states
    assert torch.allclose(view["x"], states["x"][:, 0] / 50_000, atol=1e-4)
    assert torch.allclose(view["angle"], states["angle"][:, 0] / math.tau % 1, atol=1e-4)
    assert torch.allclose(view["speed"], states["speed"][:, 0] / 400, atol=1e-3)
    named = env.classic().get_observations()["p1"]
    for name in ("x", "y", "angle", "speed", "missiles", "alive", "enemy_distance", "enemy_relative_angle"):
        assert named[name].shape == (5,) and torch.equal(named[name], view[name]) and f"`{name}`" in PAGE
