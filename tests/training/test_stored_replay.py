"""init_replay: a replay buffer that starts with stored transitions, and init: weights under changed settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import differences, state_of
from toy_env import Cart, CartConfig

from slipstream import RolloutStorage, SyncDataCollector, train
from slipstream.algorithms.stored import StoredData, as_batch
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.config.schema import TrainConfig
from slipstream.envs.specs import Box
from slipstream.replay import PrioritizedSampler, ReplayBuffer
from slipstream.training.trainer import Trainer

WORDS = shlex.split("""
    task=toy_env:Cart algo=sac env.num_envs=3 algo.rollout_steps=8 algo.updates=2 algo.batch_size=8 algo.warmup=48
    algo.buffer_size=1000 model.part=8 model.trunk=[8] total_frames=96 save_interval=2 eval_interval=0
    device=cpu quiet=true wandb.mode=disabled
""")


def collect(count=5, num_envs=4, steps=8, **config):
    """Batches [4, 8] of random actions, one after the other."""
    torch.manual_seed(1)
    env = Cart(num_envs, config=CartConfig(**config))

    def act(observation):
        if env.config.discrete:
            return torch.randint(3, (num_envs,))
        return 2 * torch.rand(num_envs, 1) - 1

    collector = SyncDataCollector(env, act, num_envs * steps)
    return [collector.rollout() for _ in range(count)]


def save_rollouts(folder, batches):
    with RolloutStorage(folder) as storage:
        for i, batch in enumerate(batches):
            storage.save(batch, i)
    return folder


def rows_of(batch, valid):
    """The transitions of a batch as tuples of numbers."""
    nested = [batch["observation"], batch["next"]["observation"]]
    columns = [x[name] for x in nested for name in ("cart", "place")]
    columns += [batch[name] for name in ("action", "reward", "terminated", "truncated")]
    table = torch.cat([column[valid].reshape(int(valid.sum()), -1).double() for column in columns], -1)
    return sorted(map(tuple, table.tolist()))


def collected(batches):
    return sorted(row for batch in batches for row in rows_of(batch, batch["valid"]))


def held(buffer):
    stats = buffer.stats()
    drawn = buffer.get(torch.arange(stats["steps_ever"] - stats["steps"], stats["steps_ever"]))
    return rows_of(drawn, torch.ones(stats["steps"], dtype=torch.bool))


def filled(path, *words):
    with Trainer(load_train([*WORDS, f"init_replay={path}", *words])) as trainer:
        return held(trainer.learner.buffer), trainer.learner


def test_rollout_files_become_the_same_transitions(tmp_path):
    batches = collect()
    rows = collected(batches)
    assert any(row[-2] for row in rows) and any(row[-1] for row in rows) and len(rows) < 5 * 32  # ends, invalid frames
    found, learner = filled(save_rollouts(tmp_path, batches))
    assert found == rows
    assert learner.startup_message(24, 96).startswith(f"the replay buffer starts with {len(rows):,} transitions of ")


@pytest.mark.parametrize("flags", [("done", "truncated"), ("done", "terminated"), ("terminated", "truncated")])
@pytest.mark.parametrize("under_next", [False, True])
def test_two_flags_say_how_stored_steps_ended(tmp_path, flags, under_next):
    batches, saved = collect(), []
    for batch in batches:
        saved.append(batch.clone().exclude("done", "terminated", "truncated"))
        if under_next:  # TorchRL's layout: at the top are the flags before the step
            saved[-1].update(dict.fromkeys(("done", "terminated", "truncated"), torch.zeros_like(batch["done"])))
        (saved[-1]["next"] if under_next else saved[-1]).update({name: batch[name].clone() for name in flags})
    found, _ = filled(save_rollouts(tmp_path, saved))
    assert found == collected(batches)


def test_stored_flags_that_contradict_are_refused(tmp_path):
    batches = collect()
    for batch in batches:
        batch["done"] = torch.zeros_like(batch["done"])
    with pytest.raises(
        ConfigError, match=r"init_replay=.*: 'done' contradicts 'terminated' or 'truncated' in \d+ steps"
    ):
        filled(save_rollouts(tmp_path, batches))


@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_a_replay_folder_becomes_the_same_transitions(tmp_path, sampler):
    batches = collect()
    with ReplayBuffer(60, sampler=sampler) as buffer:  # the oldest have left
        for batch in batches:
            buffer.extend(batch)
        buffer.save(tmp_path)
        assert filled(tmp_path, "algo.prioritised=true")[0] == held(buffer)


def test_a_saved_ring_becomes_the_same_transitions(tmp_path):
    batches = collect()
    with ReplayBuffer(80, storage="ring", sampler=PrioritizedSampler()) as source:
        for batch in batches:
            source.extend(batch)
        source.save(tmp_path)
        rows = held(source)
    assert len(rows) > 40 and filled(tmp_path)[0] == rows
    env = Cart(1)
    data = StoredData(tmp_path, (env.observation_spec, env.action_spec), "init_replay")
    with ReplayBuffer(1000, storage="ring") as ring:
        for part in data.chunks(30, 1000):
            ring.extend(as_batch(part, 3, torch.device("cpu")))
        assert held(ring) == rows
        ring.extend(collect(1, num_envs=3)[0])  # nothing continues
        assert [row for row in held(ring) if row in rows] == rows


def test_n_step_returns_end_where_stored_episodes_do(tmp_path):
    batches = collect()
    save_rollouts(tmp_path, batches)
    with ReplayBuffer(1000) as plain:
        for number, batch in enumerate(batches):
            plain.extend(batch, stream=number)  # a file does not continue the one before it
        with Trainer(load_train([*WORDS, f"init_replay={tmp_path}", "env.num_envs=1"])) as trainer:
            buffers, steps = (plain, trainer.learner.buffer), torch.arange(len(plain))
            a, b = (buffer.get(steps, n_step=3, gamma=0.9) for buffer in buffers)
        assert torch.equal(a["reward"], b["reward"]) and torch.equal(a["discount"], b["discount"])


def test_the_documented_script_reads_a_minari_dataset(tmp_path, monkeypatch):
    minari, gymnasium = pytest.importorskip("minari"), pytest.importorskip("gymnasium")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    ends, box = np.arange(5) == 4, gymnasium.spaces.Box(-1, 1, (2,))
    episode = minari.data_collector.EpisodeBuffer(
        id=0, observations=np.arange(12.0).reshape(6, 2), actions=np.full((5, 2), 0.5, np.float32),
        rewards=np.arange(5.0), terminations=ends, truncations=ends & False,
    )  # fmt: skip
    minari.create_dataset_from_buffers("mine-v0", [episode], observation_space=box, action_space=box)
    page = (Path(__file__).parents[2] / "docs" / "stored-data.md").read_text()
    code = re.search(r"```python\n(# to_rollouts.*?)```", page, re.DOTALL)[1].replace(
        "mujoco/pusher/expert-v0", "mine-v0"
    )
    exec(code, {})
    specs = {"observation": Box((2,))}, Box((2,), -1.0, 1.0)
    (rows,) = StoredData(tmp_path / "pusher", specs, "init_replay").chunks(100, 100)
    assert rows["next", "observation", "observation"].tolist() == np.arange(2.0, 12).reshape(5, 2).tolist()
    assert rows["reward",].tolist() == [0, 1, 2, 3, 4] and rows["terminated",].tolist() == ends.tolist()


def test_only_the_newest_that_fit_are_taken(tmp_path):
    batches = collect()
    rows, _ = filled(save_rollouts(tmp_path, batches), "algo.buffer_size=60", "algo.warmup=10")
    newest = collected(batches[-3:])
    assert 40 <= len(rows) <= 60 < len(newest) and all(row in newest for row in rows)
    assert all(row in rows for row in collected(batches[-1:]))


def test_a_run_learns_at_once_and_resuming_does_not_read_again(tmp_path):
    stored = save_rollouts(tmp_path / "stored", collect())
    words = [*WORDS, f"init_replay={stored}", f"root={tmp_path}"]
    whole = train.run(load_train([*words, "name=whole"]))
    assert state_of(whole)["algo"]["updates"] == 4 * 2  # the warm-up is over in the first iteration
    half = train.run(load_train([*words, "name=half", "total_frames=48"]))
    for file in stored.iterdir():
        file.unlink()
    half = train.run(load_train([f"resume={half.path}", "total_frames=96", "quiet=true"]))
    assert differences(state_of(whole), state_of(half)) == []
    again, _ = filled(whole.path)  # the buffer in its checkpoint
    assert len(again) == len(filled(whole.checkpoints / "ckpt_000004.pt")[0]) > 100


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["env.more=true"], r"observation 'cart' as float32 \[2\], and this env as float32 \[3\]"),
        (["algo=dqn", "env.discrete=true"], r"the action as float32 \[1\], and this env as int64 \[\]"),
        (["task=gym", "env.id=Pendulum-v1"], r"has no observation 'observation'"),
        (["algo=ppo", "algo.minibatches=2"], r"algo=ppo has none: use dqn, sac or td3"),
    ],
)
def test_transitions_of_another_env_are_refused(tmp_path, words, message):
    stored = save_rollouts(tmp_path, collect(1))
    plain = [word for word in WORDS if not word.startswith("algo.")] if "algo=ppo" in words else WORDS
    if "task=gym" in words:
        plain = [word for word in WORDS if not word.startswith("env.")]
    with pytest.raises(ConfigError, match=message):
        Trainer(load_train([*plain, f"init_replay={stored}", *words]))


def test_actions_out_of_bounds_and_missing_parts_are_refused(tmp_path):
    batch = collect(1)[0]
    batch["action"] *= 7
    with pytest.raises(ConfigError, match="and this env takes -1 to 1"):
        filled(save_rollouts(tmp_path / "a", [batch]))
    with pytest.raises(ConfigError, match="has no next observation 'cart'"):
        filled(save_rollouts(tmp_path / "b", [collect(1)[0].exclude("next")]))
    with pytest.raises(ConfigError, match="has no reward"):
        filled(save_rollouts(tmp_path / "c", [collect(1)[0].exclude("reward")]))


def test_hostile_paths_are_refused_in_one_sentence(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    broken = save_rollouts(tmp_path / "broken", collect(2)) / "rollout_000001.slip"
    broken.write_bytes(broken.read_bytes()[:-9])
    (tmp_path / "text.pt").write_text("no checkpoint")
    for path, message in (
        ("nowhere", "does not exist"),
        ("empty", "has no transitions: give a folder of rollout files"),
        ("broken", "rollout_000001.slip"),
        ("text.pt", "text.pt"),
    ):
        assert main(["train", *WORDS, f"root={tmp_path}/runs", f"init_replay={tmp_path / path}"]) == 2
        said = capsys.readouterr().err.strip()
        assert message in said and "Traceback" not in said and len(said.splitlines()) == 1
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())
    with pytest.raises(ValueError, match="leave init_replay out"):
        TrainConfig(resume="a", init_replay="b")
