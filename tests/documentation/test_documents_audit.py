"""The founding documents line by line: 261 items. An item is typed here, in test_documents_lines.py or in
test_documents_code.py; or it is a claim or differs, and a page answers it. The numbers are the audit's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import test_documents_code
import test_documents_lines
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
CLAIMS = {  # which no line can show; with figures on the page, or code that tests/documentation runs
    6: ("choose.md", "used once, then dropped"), 9: ("replay.md", "decodes blocks without the lock and the GIL"),
    17: ("collectors.md", "an observation is stored once"), 23: ("collectors.md", "no compression: the host decodes batches"), 29: ("replay.md", "A lookup takes two or three reads"), 41: ("choose.md", "`group=16`"),
    68: ("navigation.md", "written as plain tensor code"), 72: ("collectors.md", "writes only preallocated tensors"), 81: ("choose.md", "## Collector"),
    94: ("advise.md", "The change and the present state run in ten alternating pairs"), 97: ("advise.md", "It then becomes the present state"), 100: ("scale.md", "We have measured on one GPU only"), 104: ("checkpoints.md", "in the background: compressed"),
    105: ("choose.md", "`SyncDataCollector` (the default)"), 127: ("collectors.md", "a save waits for the rollout"), 154: ("training.md", "Ctrl-C, SIGTERM"),
    156: ("scale.md", "more ranks collect more frames"), 161: ("checkpoints.md", "bit for bit, as they are at the call"), 171: ("choose.md", "used once, then dropped"),
    173: ("collectors.md", "a smaller `algo.rollout_steps`"), 197: ("choose.md", "## GPU memory"), 198: ("collectors.md", "you train from each batch once and have the memory | no compression"),
    200: ("air-combat.md", "thousands at once on a CPU or a GPU"), 201: ("air-combat.md", "## The spacetime diagram"),
    214: ("air-combat.md", "env.step(full_action, dt=time_scale / 60)"), 225: ("collectors.md", "writes only preallocated tensors"),
    229: ("collectors.md", "on a separate stream beside the update"), 235: ("monitor.md", "## Exposed wait"), 236: ("collectors.md", "writes only preallocated tensors"),
    240: ("collectors.md", "on a separate stream beside the update"), 243: ("checkpoints.md", "cross the bus beside the training"), 245: ("training.md", "Out of memory"),
    246: ("training.md", "does not fragment"), 247: ("training.md", "not finite stops the run"), 248: ("air-combat.md", "(/500 m/s)"),
    250: ("collectors.md", "an observation is stored once"), 256: ("scale.md", "torchrun"), 257: ("sweep.md", "Optuna"),
    260: ("view.md", "slipstream view"), 261: ("view.md", "also while a training runs"),
}  # fmt: skip

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
    "91 98": "CompressedLidarTransform(compression_level=1)(batch_of())['observation', 'lidar_compressed']",
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
    "190": "more = RolloutStorage(f'{tmp}/more', verbose=True); more.save(batch_of(), 1); more.close()",
    "193": "assert RolloutStorage(tmp).load(100).batch_size == (4, 8)",
    "232": "assert torch.cuda.is_available() or slipstream.sim.devices.resolve_device('auto').type == 'cpu'",
    "191": "storage.load(100, device='cpu'); storage.close()",
    "216 218": "ZeroReward().to('cpu'); agent = PlaceholderAgent(); agent.train(); agent.eval(); agent.to('cpu'); agent.device",
    "5": "DictReplayBuffer(max_size=1000000).add({'state': np.zeros((1000000, 1)), 'done': np.arange(1000000) % 1000 == 999})",
    "7 15 48 74": "for _ in range(10): batch = buffer.sample(batch_size=256)",
    "8 10 16 76 77 80": "data = SyncDataCollector(NavigationEnv(1024), policy, 1024).rollout()\n"
    "assert data['observation', 'state'].shape == (1024, 1, 8)",
    "9 31 34 35": "from concurrent.futures import ThreadPoolExecutor\n"
    "with ThreadPoolExecutor(max_workers=16) as executor:\n"
    "    list(executor.map(decompress_single_gridmap, [(compressed, (3, 4, 4), 2, np.uint8, 1)] * 4))",
    "12 22 38 39 40": "frames = np.zeros((20, 3, 64, 64), np.uint8); each = [compress_image(frame, level=9) for frame in frames]\n"
    "assert len(compress_image_seq(frames, level=9)) < sum(map(len, each))",
    "30": "sums.add(1); sums.add(500)",
    "49 50": "DictReplayBuffer(9, ragged={'node_inputs': (8, 3)}).add("
    "{'node_inputs': [np.zeros((2, 3)), np.zeros((5, 3))], 'done': np.array([0, 1])})",
    "62 64": "collector = SyncDataCollector(env, policy, 32, 96, return_same_td=True)\n"
    "data0 = collector.rollout().clone(); data1 = collector.rollout().clone(); assert data0 is not data1",
    "63": "from slipstream.collectors import OverwrittenBatchError; data0 = collector.rollout()\n"
    "with pytest.raises(OverwrittenBatchError): collector.rollout(); data0['reward']",
    "73": "TensorDict = type(batch_of()); batch_of().to('cpu')",
    "78": "ReplayBuffer(capacity_bytes=10_000_000)",
    "89": "with pytest.raises(ValueError): PipelinedDataCollector(collector)",
    "92": "import lz4.frame\nwith pytest.raises(TypeError): lz4.frame.decompress("
    "CompressedLidarTransform()(batch_of())['observation', 'lidar_compressed'])",
    "99 158 159": "with AsyncCheckpointSaver(full_every=10) as saver:\n"
    "    for i in range(3): saver.save_async({'a': torch.zeros(999), 'i': i}, f'{tmp}/many_{i}.pt')\n"
    "assert load_checkpoint(f'{tmp}/many_2.pt')['i'] == 2",
    "109 111 112": "weights = torch.zeros(9); saver = AsyncCheckpointSaver(); saver.save_async({'w': weights}, f'{tmp}/w.pt')\n"
    "weights += 1; saver.shutdown(); assert not load_checkpoint(f'{tmp}/w.pt')['w'].any()",
    "116 117 150": "saver = AsyncCheckpointSaver(); saver.save_async({'a': 2}, f'{tmp}/z.pt', compress='lz4'); saver.shutdown()\n"
    "assert load_checkpoint(f'{tmp}/z.pt') == {'a': 2}",
    "153": "import signal, sys\nold = signal.getsignal(signal.SIGINT); saver = AsyncCheckpointSaver()\n"
    "def signal_handler(sig, frame): saver.shutdown(); sys.exit(0)\n"
    "signal.signal(signal.SIGINT, signal_handler); saver.save_async({'a': 3}, f'{tmp}/last.pt')\n"
    "with pytest.raises(SystemExit): signal.raise_signal(signal.SIGINT)\n"
    "signal.signal(signal.SIGINT, old); assert load_checkpoint(f'{tmp}/last.pt') == {'a': 3}",
    "157": "PipelinedDataCollector(SyncDataCollector(env, policy, 32, 32), prefetch_count=2).shutdown()",
    "160": "torch.save({'model_state_dict': {}}, f'{tmp}/old.pt'); load_checkpoint(f'{tmp}/old.pt')",
    "141": "Path(f'{tmp}/c.yaml').write_text('compress_checkpoint: False')\n"
    "assert load_train([f'config={tmp}/c.yaml']).compress_checkpoint is False",
    "132 135 151": "saver.get_stats()['queue_full']; stats = monitor.get_stats()['policy_training']\n"
    "[stats[name] for name in ('mean', 'std', 'min', 'max')]",
    "164": "assert (DOCS.parent / '.github/ISSUE_TEMPLATE/bug.yml').is_file()",
    "172": "assert list(CompressedDataCollector(SyncDataCollector(env, policy, 32, 32, return_same_td=False)))",
    "177": "assert load_train([]).collect.compress == 'off' and load_train([]).rollout_save_interval == 0",
    "215 224": "agent = PlaceholderAgent(num_envs=4, device='cpu'); assert isinstance(agent, BaseAgent)\nagent.reset(env_mask=None)",
    "237": "monitor.watch_memory(); monitor.tick(); monitor.leaks()",
    "244": "RolloutStorage(tmp).load_slice; ReplayBuffer(100, spill_dir=tmp, memory_budget=1000)",
    "219": "create_agent('crank', 'cpu', 4); create_reward('zero', device='cpu')",
}
WORDS = {  # of a command, by the numbers of their items
    "128 129 130": "compress_checkpoint=True async_checkpoint_queue_size=3 save_compression_level=9",
    "137": "headless=True env.num_envs=1024 env.num_obstacles=350 env_dyn.num_obstacles=80",
    "142": "compress_checkpoint=False",
    "143": "keep_checkpoints=0",
    "241": "preset=gpu_24gb",
    "254": "algo.minibatches=steps(4,8)",
    "162": "preset=production",
    "163": "preset=debug",
    "178": "rollout_save_interval=10",
    "1 2": "task=gym env.id=CartPole-v1 algo=dqn",
    "170": "algo.training_epoch_num=4 algo.num_minibatches=16",
    "202 203 204 207 209": "--task aircombat --num-envs 256 --time-scale 4.0 --device cpu --reward zero --seed 1 --save-interval 5",
    "144": "summary_interval=100",
    "173 187": "env.num_envs=512 algo.training_frame_num=16",
    "194": "rollout_save_interval=100",
    "223": "gpus=2 device=cpu env.num_envs=64",
    "226 251": "collect.pipeline=on",
    "239 253": "env.num_envs=auto algo.minibatches=auto",
    "258": "init=runs/NAME init_replay=runs/NAME algo=sac",
    "230 231": "device=auto",
    "255": "gpus=1",
}


TESTS = {  # of these two files, by the numbers of their items
    test_documents_code: {
        "14 79": "test_sample_batch_of_compressed_lists", "101 102 113 124": "test_the_training_loop_of_train_py",
        "140": "test_a_name_with_lz4_opens_the_slip_file_and_warns", "145 146 147 196": "test_the_logs_have_the_documents_names",
        "167 174 95": "test_compress_rollout_and_decompress_rollout",
        "175": "test_a_compressed_rollout_goes_to_another_machine", "192": "test_the_documents_pickled_rollouts_open",
    },
    test_documents_lines: {
        "96": "test_the_yaml_files_of_navrl_are_read", "205 206 207 209 210 242": "test_a_typed_line_is_understood",
        "3 4 155 211 212 213 252": "test_a_typed_line_is_answered", "208": "test_a_duel_without_its_task_is_answered",
        "45 50 51": "test_the_lists_of_a_buffer_are_read_by_key",
        "219": "test_agents_and_rewards_are_made_in_midrangerls_order",
        "217 220": "test_observations_have_midrangerls_names_and_units",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    torch.manual_seed(0)
    env = slipstream.NavigationEnv(4)
    policy = slipstream.PPO(build_policy(env.observation_spec, env.action_spec), slipstream.PPO.Config(minibatches=2))
    batch_of = slipstream.SyncDataCollector(env, policy, 32, 3200, return_same_td=False).rollout
    given = {"env": env, "policy": policy, "batch_of": batch_of, "tmp": str(tmp_path_factory.mktemp("lines"))}
    train_param = SimpleNamespace(batch_size=2, image_shape=(3, 4, 4))
    return {**globals(), **given, "train_param": train_param, "waiting": list(LINES)}


@pytest.mark.parametrize("items", LINES)
def test_a_line_of_the_documents_works_as_written(items, names):
    """The lines before it are run first: this process may have got only some of the tests."""
    while items in names["waiting"]:
        exec(LINES[names["waiting"].pop(0)], names)


@pytest.mark.parametrize("items", WORDS)
def test_words_of_the_documents_are_read(items):
    load_train(WORDS[items].split())


def test_what_differs_is_answered_on_its_page():
    answers = {item: (FROM, words) for item, words in ANSWERS.items()} | CLAIMS
    pages = {name: (DOCS / name).read_text(encoding="utf-8") for name, _ in answers.values()}
    assert not {item: words for item, (page, words) in answers.items() if words not in pages[page]}


def test_every_item_has_its_place():
    assert all(hasattr(module, name) for module, tests in TESTS.items() for name in tests.values())
    typed = " ".join([*LINES, *WORDS, *TESTS[test_documents_code], *TESTS[test_documents_lines]])
    assert {int(item) for item in typed.split()} | {*ANSWERS, *CLAIMS} == set(range(1, 262))
