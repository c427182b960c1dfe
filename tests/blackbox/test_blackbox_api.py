"""The public names and the parameters that documents and docs promise. Parameters may be added, each with a default."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import slipstream
from slipstream import ExplorationType

NEEDED = inspect.Parameter.empty
ANY = object()  # a default that may be another object of the same meaning

NAMES = [
    "compress_image",
    "decompress_image",
    "compress_image_seq",
    "decompress_image_seq",
    "PrefixSum",
    "DictReplayBuffer",
    "sample_batch",
    "ReplayBuffer",
    "PrioritizedSampler",
    "HindsightSampler",
    "SyncDataCollector",
    "PipelinedDataCollector",
    "CompressedDataCollector",
    "CompressedLidarTransform",
    "ExplorationType",
    "set_exploration_type",
    "RolloutStorage",
    "AsyncCheckpointSaver",
    "load_checkpoint",
    "format_checkpoint_name",
    "get_model_size",
    "print_model_info",
    "PerformanceMonitor",
    "Advisor",
    "TensorEnv",
    "NavigationEnv",
    "AirCombatEnv",
    "BaseAgent",
    "PlaceholderAgent",
    "BaseReward",
    "ZeroReward",
    "PPO",
    "DQN",
    "SAC",
    "TD3",
]

SIGNATURES = {
    "compress_image": {"img": NEEDED, "level": 9},
    "decompress_image": {"data": NEEDED, "shape": None, "dtype": np.uint8},
    "compress_image_seq": {"images": NEEDED, "level": 9},
    "decompress_image_seq": {"data": NEEDED, "image_shape": NEEDED, "seq_len": NEEDED, "dtype": np.uint8},
    "PrefixSum": {"max_len": NEEDED},
    "DictReplayBuffer": {
        "max_size": NEEDED,
        "keys": None,
        "device": "cpu",
        "img_compressed": False,
        "compress_epi": False,
        "seed": 0,
    },
    "sample_batch": {
        "replay_buffer": NEEDED,
        "batch_size": NEEDED,
        "episode_lens_prefix_sum": None,
        "device": None,
        "keys": None,
    },
    "ReplayBuffer": {
        **{"capacity": None, "capacity_bytes": None, "device": "cpu", "codec": "auto", "group": 1, "storage": "cpu"},
        **{"sampler": "uniform", "seed": 0, "keys": None, "ragged": None, "spill_dir": None, "memory_budget": None},
    },
    "PrioritizedSampler": {"alpha": 0.6, "beta": 0.4},
    "HindsightSampler": {"reward_fn": NEEDED, "strategy": "future", "k": 4},
    "SyncDataCollector": {
        **{
            "env": NEEDED,
            "policy": NEEDED,
            "frames_per_batch": NEEDED,
            "total_frames": -1,
            "device": None,
            "return_same_td": False,
        },
        **{"exploration_type": ExplorationType.RANDOM, "split_trajs": False, "postproc": None, "ring_size": 2},
    },
    "PipelinedDataCollector": {
        **{
            "base_collector": NEEDED,
            "device": None,
            "prefetch_count": 2,
            "on_policy": False,
            "max_staleness": 1,
            "policy": None,
        },
        **{"threads": 0, "seed": None},
    },
    "CompressedDataCollector": {"base_collector": NEEDED, "compression_level": 1, "keys": None, "pieces": 1},
    "CompressedLidarTransform": {"compression_level": 1, "key": ("observation", "lidar")},
    "set_exploration_type": {"type": NEEDED},
    "RolloutStorage": {
        **{
            "save_dir": NEEDED,
            "compression_level": 9,
            "max_queue_size": 3,
            "queue_policy": "block",
            "on_broken": "raise",
        }
    },
    "AsyncCheckpointSaver": {
        **{
            "max_queue_size": 3,
            "verbose": False,
            "queue_policy": "block",
            "compression_level": 9,
            "full_every": 1,
            "moments": None,
        },
        **{"keep_last": None, "links": False},
    },
    "load_checkpoint": {"path": NEEDED, "keys": None, "map_location": "cpu"},
    "format_checkpoint_name": {"iteration": NEEDED, "prefix": "checkpoint", "suffix": ".pt", "directory": ""},
    "get_model_size": {"model": NEEDED},
    "print_model_info": {"model": NEEDED, "name": "Model"},
    "PerformanceMonitor": {"history": 1000, "clock": ANY, "work": ANY, "enabled": True},
    "Advisor": {"probe": NEEDED, "questions": NEEDED, "seconds": 60.0},
    "TensorEnv": {"num_envs": NEEDED, "device": "cpu", "seed": 0},
    "NavigationEnv": {"num_envs": None, "device": "cpu", "seed": 0, "config": None},
    "AirCombatEnv": {"num_envs": None, "device": "cpu", "seed": 0, "config": None, "opponent": None, "reward": None},
    "BaseAgent": {"num_envs": 1, "device": "cpu"},
    "PlaceholderAgent": {"num_envs": 1, "device": "cpu"},
    "BaseReward": {"device": "cpu"},
    "ZeroReward": {"device": "cpu"},
    "PPO": {"policy": NEEDED, "config": None},
    "DQN": {"policy": NEEDED, "config": None},
    "SAC": {"policy": NEEDED, "critics": NEEDED, "config": None},
    "TD3": {"policy": NEEDED, "critics": NEEDED, "config": None},
}

METHODS = {
    "PrefixSum.add": {"val": NEEDED},
    "PrefixSum.get_range_idx": {"idx": NEEDED},
    "PrefixSum.get_range_relative_idx": {"idx": NEEDED, "range_idx": NEEDED},
    "DictReplayBuffer.add": {"episode": NEEDED},
    "DictReplayBuffer.sample": {"batch_size": NEEDED},
    "ReplayBuffer.add": {"episode": NEEDED},
    "ReplayBuffer.extend": {"batch": NEEDED, "stream": 0},
    "ReplayBuffer.sample": {"batch_size": NEEDED, "n_step": 1, "gamma": 0.99},
    "ReplayBuffer.sample_slices": {"batch_size": NEEDED, "length": NEEDED, "burn_in": 0},
    "ReplayBuffer.sample_episodes": {"k": NEEDED},
    "ReplayBuffer.get": {"index": NEEDED, "n_step": 1, "gamma": 0.99},
    "ReplayBuffer.prefetch": {"batch_size": NEEDED, "depth": 2, "device": None},
    "ReplayBuffer.update_priority": {"index": NEEDED, "priority": NEEDED},
    "ReplayBuffer.save": {"folder": NEEDED},
    "ReplayBuffer.load": {"folder": NEEDED, "recover": False},
    "ReplayBuffer.state_dict": {},
    "ReplayBuffer.load_state_dict": {"state": NEEDED},
    "ReplayBuffer.stats": {},
    "ReplayBuffer.close": {},
    "SyncDataCollector.rollout": {"check": True},
    "SyncDataCollector.collect": {},
    "SyncDataCollector.iterator": {},
    "SyncDataCollector.shutdown": {},
    "SyncDataCollector.state_dict": {},
    "SyncDataCollector.load_state_dict": {"state": NEEDED},
    "PipelinedDataCollector.rollout": {"check": True},
    "PipelinedDataCollector.publish": {},
    "PipelinedDataCollector.shutdown": {},
    "PipelinedDataCollector.state_dict": {},
    "PipelinedDataCollector.load_state_dict": {"state": NEEDED},
    "CompressedLidarTransform.inverse": {"tensordict": NEEDED},
    "RolloutStorage.save": {"data": NEEDED, "iteration": NEEDED, "batch_dims": None},
    "RolloutStorage.load": {"iteration": NEEDED, "device": None, "keys": None},
    "RolloutStorage.load_slice": {"iteration": NEEDED, "envs": None, "steps": None, "keys": None, "device": None},
    "RolloutStorage.slices": {"length": 32, "keys": None, "iterations": None, "seed": None},
    "RolloutStorage.iterations": {},
    "RolloutStorage.get_stats": {},
    "RolloutStorage.wait": {"timeout": None},
    "RolloutStorage.close": {"timeout": 60},
    "AsyncCheckpointSaver.save_async": {
        "checkpoint": NEEDED,
        "path": NEEDED,
        "compress": True,
        "metrics": None,
        "step": None,
    },
    "AsyncCheckpointSaver.wait": {"timeout": None},
    "AsyncCheckpointSaver.shutdown": {"timeout": 60},
    "AsyncCheckpointSaver.get_stats": {},
    "AsyncCheckpointSaver.install_signal_handlers": {"on_stop": None},
    "PerformanceMonitor.timer": {"name": NEEDED, "device": None},
    "PerformanceMonitor.wait": {"name": NEEDED},
    "PerformanceMonitor.count": {"name": NEEDED, "number": NEEDED},
    "PerformanceMonitor.gauge": {"name": NEEDED, "read": NEEDED, "leak_floor": None},
    "PerformanceMonitor.get_stats": {"window": 100},
    "PerformanceMonitor.get_summary": {"window": 100},
    "PerformanceMonitor.get_exposed": {"window": 100},
    "PerformanceMonitor.get_throughput": {"window": 100},
    "Advisor.advise": {},
    "TensorEnv.reset": {"env_mask": None},
    "TensorEnv.step": {"action": NEEDED},
    "TensorEnv.check": {},
    "TensorEnv.state_dict": {},
    "TensorEnv.load_state_dict": {"state": NEEDED},
    "AirCombatEnv.classic": {},
    "AirCombatEnv.get_render_state": {"env_idx": 0},
    "BaseAgent.act": {"observation": NEEDED},
    "BaseAgent.reset": {"env_mask": None},
    "BaseAgent.to": {"device": NEEDED},
    "BaseAgent.train": {},
    "BaseAgent.eval": {},
    "BaseReward.compute": {"obs_before": NEEDED, "obs_after": NEEDED, "action": NEEDED, "done": NEEDED, "info": NEEDED},
    "BaseReward.reset": {},
    "BaseReward.to": {"device": NEEDED},
}


def parameters(function) -> dict[str, inspect.Parameter]:
    return {name: p for name, p in inspect.signature(function).parameters.items() if name != "self"}


def check(found: dict[str, inspect.Parameter], promised: dict[str, object]) -> None:
    assert [name for name in found if name in promised] == list(promised)  # all there, in this order
    for name, default in promised.items():
        if default is not ANY:
            assert found[name].default == default or found[name].default is default, name
    spread = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    added = [p for name, p in found.items() if name not in promised and p.kind not in spread]
    assert [
        p.name for p in added if p.default is NEEDED
    ] == []  # what a caller of today does not give must have a default


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_can_be_imported(name):
    assert getattr(slipstream, name) is not None
    assert name in slipstream.__all__ and name in dir(slipstream)


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError):
        slipstream.PPPO  # noqa: B018


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_class_or_function_takes_what_it_took(name):
    thing = getattr(slipstream, name)
    check(parameters(thing.__init__ if inspect.isclass(thing) else thing), SIGNATURES[name])


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_what_it_took(name):
    owner, method = name.split(".")
    check(parameters(getattr(getattr(slipstream, owner), method)), METHODS[name])


def test_positional_parameters_of_the_documents_stay_positional():
    for name, count in {
        "DictReplayBuffer": 4,
        "SyncDataCollector": 3,
        "PipelinedDataCollector": 3,
        "RolloutStorage": 2,
    }.items():
        kinds = [p.kind for p in parameters(getattr(slipstream, name).__init__).values()][:count]
        assert kinds == [inspect.Parameter.POSITIONAL_OR_KEYWORD] * count


def test_the_exploration_types():
    assert {kind.name for kind in ExplorationType} >= {"RANDOM", "MEAN", "MODE"}


def test_the_documented_modules():
    from slipstream.envs import adapters, base
    from slipstream.models import build_policy
    from slipstream.train import run

    check(parameters(build_policy), {"observation_spec": NEEDED, "action_spec": NEEDED})
    assert callable(run) and len(parameters(run)) >= 1
    assert {"Outcome", "TensorEnv", "StepRecord", "BadActionError"} <= set(dir(base))
    assert {"GymnasiumEnv", "GymnasiumVectorEnv", "PettingZooEnv", "SB3VecEnv", "TorchRLEnv"} <= set(dir(adapters))
