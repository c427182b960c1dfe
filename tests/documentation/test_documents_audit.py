"""The founding documents line by line: 261 items. An item is typed here or in test_documents_lines.py and
test_documents_code.py, or differs and is answered on docs/coming-from.md or another page. The numbers are the audit's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import slipstream
from slipstream import *  # noqa: F403 - the lines use the public names
from slipstream.config.compose import load_train
from slipstream.models import build_policy

DOCS = Path(__file__).parents[2] / "docs"
FROM = "coming-from.md"

# What is not as the documents write it: the words of the page that a reader opens.
ANSWERS = {
    3: "`algo=a3c`", 4: "`algo=trpo`", 11: "LRU eviction", 13: "Isaac Sim, `headless`", 28: "64-bit; O(1) to add",
    33: "returns a dict of all keys", 37: "groups of 16 frames, not complete episodes", 45: '`buffer.buffer["done"]`',
    50: "text in a buffer", 51: "compressed bytes in a buffer", 56: "`_iter`", 61: "`algo.training_frame_num",
    63: "reading an overwritten batch raises", 67: "`_reset_idx`", 70: "`dynamic_obstacle` [5, 10]",
    71: "action [N, 4]; reward, done [N, 1]", 75: "with one object", 76: "`ParallelEnv(num_envs=1024)`",
    82: "`from async_checkpoint import", 84: '`compress="lz4"` writes `.pt.lz4`', 88: "`collector_thread`",
    90: "never run with Isaac Sim", 92: 'lz4.frame.decompress(data["lidar_compressed"])', 93: "`PPOWithCompression`",
    106: "ALGORITHM_ARCHITECTURE.md", 107: "| point clouds |", 108: "OPTIMIZATION_IMPLEMENTATION.md",
    114: "`save_compression_level: 9` as the highest", 116: "opens `c.pt.slip` for `c.pt.lz4`",
    118: "`slipstream.PerformanceMonitor`", 122: "`from slipstream import", 131: "`_save_checkpoint()`",
    136: "`python training/scripts/train.py", 138: "`wandb.mode=online`", 143: "`keep_checkpoints=0`",
    155: "`pin_memory=True`", 168: "`decompress_minibatch(compressed, idx)`", 169: "`make_batches(data, 16)`",
    176: "`send_to_machine_B()`", 179: "`compress_rollout_for_storage`", 181: '`data["agents", "observation", "lidar"]`',
    182: '`data["_compressed_lidar"]`', 183: "`_decompress_observations(data, indices)`", 184: "`save_rollout_compressed`",
    186: "`rollout_000100.slip`", 190: "`verbose=True` prints sizes and ratio", 193: "batches keep their shape `[N, T]`",
    195: '`cfg.get("rollout_save_interval", 100)`', 199: "`python train.py --agent ppo", 205: "`--agent rule_based`",
    206: "`rule_based` is `crank`", 208: "without the task the answer names it", 210: "`--lr --n-steps",
    211: "`--batch-size`", 212: "`--render`, `--log-interval`", 213: "`--episode-max-steps`", 217: "`TensorEnv.states`",
    219: "`create_agent(agent_type, device, num_envs)`", 220: "`enemy_relative_angle`", 221: "`config.py`, `gym_wrapper`",
    222: "`config.py`, `gym_wrapper`", 227: "several threads that collect", 228: "a queue with priorities",
    232: "`--device cuda` without a GPU", 233: "`dt = time_scale / 60`", 234: "smaller for stability",
    238: "leaks cleaned up automatically", 241: "cards: 4 GB with 8 envs", 242: "`precision=mixed`",
    249: "a trace: `torch.profiler.profile()`", 252: "there is no float16", 254: "batch size that follows the progress",
    259: "online learning",
}  # fmt: skip
ELSEWHERE = {81: ("choose.md", "## Collector"), 197: ("choose.md", "## GPU memory")}

IMG, SEQ = np.arange(48, dtype=np.uint8).reshape(3, 4, 4), np.arange(96, dtype=np.uint8).reshape(2, 3, 4, 4)
# Lines as the documents have them, by the numbers of their items. They share one set of names.
LINES = {
    "18 19": "[compress_image(IMG, level=level) for level in (9, 0, 1, 16)]",
    "20": "import lz4.frame; assert lz4.frame.get_frame_info(compress_image(IMG))['content_size'] == IMG.nbytes",
    "21": "compressed = compress_image_seq(SEQ, level=9)",
    "166": "decompress_image_seq(compressed_data=compressed, image_shape=(3, 4, 4), batch_size=2, dtype=np.uint8)",
    "24 25": "sums = PrefixSum(max_len=1000); sums.add(10); sums.add(20); sums.add(15)",
    "26 27 28": "assert (sums.get_range_idx(25), sums.get_range_relative_idx(25, 1)) == (1, 15); sums.ar; sums.prefix_sum",
    "42 47": "buffer = DictReplayBuffer(max_size=100, keys=['gridmap_inputs', 'next_gridmap_inputs', 'action', 'done'], "
    "device='cpu', img_compressed=True)",
    "43": "buffer.add(dict(gridmap_inputs=SEQ, next_gridmap_inputs=SEQ, action=np.zeros(2), done=np.array([0, 1])))",
    "44": "buffer.sample(batch_size=2)",
    "32 36 46": "batch = sample_batch(buffer.buffer, buffer.episode_lens_prefix_sum, train_param, 'cpu')",
    "45": "assert len(buffer.buffer['done']) == 2",
    "52 60": "collector = SyncDataCollector(env, policy, frames_per_batch=4 * 8, total_frames=64, return_same_td=True)\n"
    "assert collector.rollout().batch_size == torch.Size([4, 8])",
    "53 55": "collector._fps, collector._frames, collector.total_frames",
    "54": "iter(collector.iterator())",
    "57 58 59 65": "SyncDataCollector(env, policy, frames_per_batch=32, total_frames=32, split_trajs=False, "
    "postproc=lambda td: td, return_same_td=False, exploration_type=ExplorationType.RANDOM).rollout().clone()",
    "66": "with set_exploration_type(ExplorationType.MEAN): collector.collect()",
    "69": "assert batch_of()['observation', 'state'].shape[2:] == (8,) and "
    "batch_of()['observation', 'lidar'].shape[2:] == (1, 36, 4)",
    "75": "policy.train(batch_of())",
    "85 86 87": "base = SyncDataCollector(env, policy, frames_per_batch=32, total_frames=64, return_same_td=False)\n"
    "pipelined = PipelinedDataCollector(base, device='cpu', prefetch_count=2)\nassert len(list(pipelined)) == 2\n"
    "pipelined.shutdown()",
    "91": "CompressedLidarTransform(compression_level=1)(batch_of())['observation', 'lidar_compressed']",
    "180": "policy.train(next(iter(CompressedDataCollector(SyncDataCollector(env, policy, 32, 32), compression_level=1))))",
    "165 185": "flat = batch_of().reshape(-1); [key for key, value in flat.items(True, True)]",
    "110 148": "saver = AsyncCheckpointSaver(max_queue_size=3, verbose=True)",
    "83 125": "saver.save_async(checkpoint={'a': 1}, path=f'{tmp}/c.pt', compress=True); "
    "saver.save_async({'a': 1}, f'{tmp}/d.pt', compress=True)",
    "126 149 152": "saver.shutdown(timeout=60); saver.get_stats()['total_saved']",
    "115 139": "assert load_checkpoint(f'{tmp}/c.pt') == {'a': 1}",
    "119": "monitor = PerformanceMonitor()\nwith monitor.timer('policy_training'): pass",
    "103 120 121": "monitor.get_stats(window=100)['policy_training']['mean']; print(monitor.get_summary(window=100))",
    "123 134": "print_model_info(policy.policy); get_model_size(policy.policy)",
    "133": "format_checkpoint_name(100)",
    "188 189": "storage = RolloutStorage(save_dir=tmp, compression_level=9); storage.save(batch_of(), 100); storage.wait()",
    "191": "storage.load(100, device='cpu'); storage.close()",
    "216 218": "ZeroReward().to('cpu'); agent = PlaceholderAgent(); agent.train(); agent.eval(); agent.to('cpu'); agent.device",
    "219": "create_agent('crank', 'cpu', 4); create_reward('zero', device='cpu')",
}
WORDS = {  # of a command, by the numbers of their items
    "128 129 130": "compress_checkpoint=True async_checkpoint_queue_size=3 save_compression_level=9",
    "137": "headless=True env.num_envs=1024 env.num_obstacles=350 env_dyn.num_obstacles=80",
    "142": "compress_checkpoint=False",
    "162": "preset=production",
    "163": "preset=debug",
    "178": "rollout_save_interval=10",
    "1 2": "task=gym env.id=CartPole-v1 algo=dqn",
    "170": "algo.training_epoch_num=4 algo.num_minibatches=16",
    "202 203 204 207 209": "--task aircombat --num-envs 256 --time-scale 4.0 --device cpu --reward zero --seed 1 --save-interval 5",
    "230 231": "device=auto",
    "255": "gpus=1",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    torch.manual_seed(0)
    env = slipstream.NavigationEnv(4)
    policy = slipstream.PPO(build_policy(env.observation_spec, env.action_spec), slipstream.PPO.Config(minibatches=2))
    batch_of = slipstream.SyncDataCollector(env, policy, 32, 3200, return_same_td=False).rollout
    given = {"env": env, "policy": policy, "batch_of": batch_of, "tmp": str(tmp_path_factory.mktemp("lines"))}
    return {**globals(), **given, "train_param": SimpleNamespace(batch_size=2, image_shape=(3, 4, 4))}


@pytest.mark.parametrize("items", LINES)
def test_a_line_of_the_documents_works_as_written(items, names):
    exec(LINES[items], names)


@pytest.mark.parametrize("items", WORDS)
def test_words_of_the_documents_are_read(items):
    load_train(WORDS[items].split())


def test_what_differs_is_answered_on_its_page():
    pages = {name: (DOCS / name).read_text(encoding="utf-8") for name in (FROM, "choose.md")}
    answers = {item: (FROM, words) for item, words in ANSWERS.items()} | ELSEWHERE
    assert not {item: words for item, (page, words) in answers.items() if words not in pages[page]}
