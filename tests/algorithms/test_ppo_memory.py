"""PPO with a policy that has a memory: what a collector stores for it, what it learns from, and that it learns."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
import torch

import slipstream
from slipstream.algorithms.bc import BC
from slipstream.algorithms.ppo import PPO, PPOConfig
from slipstream.collectors import SyncDataCollector
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.models import ActorCritic, Memory, ModelConfig, build_policy
from slipstream.rollouts.storage import RolloutStorage
from slipstream.tasks.evaluation import fly_episodes
from slipstream.tasks.navigation.game import RaceGame, RaceOptions
from slipstream.training.trainer import Trainer

sys.path.append(str(Path(__file__).parents[2] / "examples"))

from hidden_velocity import CartConfig, HiddenVelocity  # noqa: E402

N, T = 4, 7
TINY = shlex.split("""
    env.num_envs=8 env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20 env.max_episode_steps=400
    algo.rollout_steps=8 algo.minibatches=4 algo.epochs=2 model.encoder=dict model.part=8 model.trunk=[16] model.hidden_size=8
    device=cpu threads=1 quiet=true wandb.mode=disabled
""")


def make(kind, seed=0, num_envs=N, max_steps=4, **settings):
    """A cart, and a policy whose heads say something."""
    torch.manual_seed(seed)
    env = HiddenVelocity(num_envs, config=CartConfig(num_envs, max_steps))
    config = ModelConfig(trunk=[16], part=0, memory=kind, hidden_size=8, stack=3)
    policy = build_policy(env.observation_spec, env.action_spec, config)
    for head in (policy.actor, policy.critic):
        for parameter in head.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return env, policy, PPO(policy, PPOConfig(rollout_steps=T, **{"minibatches": 2, "epochs": 1} | settings))


@torch.no_grad()
def remembered(policy, batch, memory):
    """Values [N, T + 1] step by step from a memory, and the memory after the last step."""
    values = []
    for t in range(T + 1):
        last = t == T
        position = batch["next", "observation", "position"][:, -1] if last else batch["observation", "position"][:, t]
        features, after = policy.memory(policy.features({"position": position}), memory)
        values.append(policy.critic_value(features, {}))
        if not last:
            memory = after * batch["valid"][:, t, None]
    return torch.stack(values, 1), memory


@pytest.mark.parametrize("kind", ["gru", "stack"])
def test_a_collector_carries_and_resets_the_memory(kind):
    env, policy, learner = make(kind)
    collector = SyncDataCollector(env, policy, N * T)
    memory = torch.zeros(N, policy.memory_size)
    for _ in range(3):
        batch = collector.rollout()
        assert batch["memory"].shape == (N, T, policy.memory_size) and batch["memory"].stride(1) == 0
        torch.testing.assert_close(batch["memory"][:, 0], memory)
        values, memory = remembered(policy, batch, memory)
        torch.testing.assert_close(batch["value"], values[:, :-1])
        # also at truncated frames: the value of the final observation has the episode's memory
        torch.testing.assert_close(batch["next", "value"], values[:, 1:])
        assert batch["truncated"].any() and not batch["valid"].all()
        data = learner.prepare(batch)
        log_prob = torch.cat(
            [learner._evaluate(rows)[0] for rows in learner._cut(data, learner._rows_of(torch.arange(N), data))]
        )
        acted = data["log_prob"][learner._rows_of(torch.arange(N), data)]
        torch.testing.assert_close(log_prob, acted, atol=1e-5, rtol=1e-4)  # as it acted, step by step


@pytest.mark.parametrize("kind", ["gru", "stack"])
def test_the_first_minibatch_finds_the_policy_that_acted(kind):
    env, policy, learner = make(kind, minibatches=1)
    collector = SyncDataCollector(env, policy, N * T)
    for _ in range(2):
        losses = learner.update(collector.rollout())
        assert abs(float(losses["kl"])) < 1e-6 and float(losses["clipped"]) == 0
        assert float(losses["grad/memory"]) > 0


@pytest.mark.parametrize("kind", ["gru", "stack"])
def test_invalid_frames_do_not_count(kind):
    env, policy, learner = make(kind, minibatches=1)
    data = learner.prepare(SyncDataCollector(env, policy, N * T).rollout())
    (rows,) = learner._minibatches(data)
    expected, parts = learner.gradients(rows)
    resets = rows["weight"] == 0
    assert resets.any()
    rows["observation"]["position"] = torch.where(resets[:, None], 7.0, rows["observation"]["position"])
    rows["action"] = torch.where(resets[:, None], 0.9, rows["action"])
    found, others = learner.gradients(rows)
    torch.testing.assert_close(others, parts)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_late_log_probs_are_recomputed_in_their_rows():
    env, policy, learner = make("gru")
    batch = SyncDataCollector(env, policy, N * T).rollout()
    batch["value_mean"], batch["value_std"] = torch.zeros(N, T), torch.ones(N, T)
    data = learner.prepare(batch)
    torch.testing.assert_close(data["log_prob"], batch["log_prob"].T.flatten(), atol=1e-5, rtol=1e-4)


def test_a_batch_without_the_memory_is_refused():
    env, policy, learner = make("gru")
    batch = SyncDataCollector(env, policy, N * T).rollout()
    del batch["memory"]
    with pytest.raises(ValueError, match="the batch has no 'memory'"):
        learner.update(batch)


class Sum(Memory):
    """A memory without parameters: the running sum of the features."""

    size = width = 16

    def forward(self, features, memory):
        return memory + features, memory + features


@pytest.mark.parametrize("learn", [PPO, BC])
def test_a_memory_without_parameters_learns(learn):
    env, policy, _ = make("none")
    policy = ActorCritic(policy.encoder, policy.actor, policy.config, Sum())
    learner = learn(policy, learn.Config(rollout_steps=T, minibatches=2, epochs=1))
    losses = learner.update(SyncDataCollector(env, policy, N * T).rollout())
    assert "grad/actor" in losses and "grad/memory" not in losses


def test_trajectories_leave_the_memory_out():
    env, policy, _ = make("gru")
    batch = SyncDataCollector(env, policy, N * T, split_trajs=True).rollout()
    assert "memory" not in batch.keys() and "value" in batch.keys()  # noqa: SIM118


FORMS = {
    "gru": ["model.memory=gru"],
    "stack": ["model.memory=stack"],
    "pipelined": ["model.memory=gru", "collect.pipeline=on"],
    "on policy": ["model.memory=stack", "collect.pipeline=on_policy"],
    "compressed": ["model.memory=gru", "collect.compress=all"],
    "bf16, limits": ["model.memory=gru", "algo.bf16=true", "algo.kl_limit=0.01", "algo.schedule=adaptive"],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_resumed_run_equals_the_uninterrupted_one(form):
    def weights(job):
        return torch.cat([p.detach().flatten() for p in job.policy.parameters()])

    words = load_train([*TINY, *FORMS[form]])
    with Trainer(words) as job:
        for _ in range(2):
            job.step()
        state = torch.utils._pytree.tree_map(
            lambda x: x.clone() if isinstance(x, torch.Tensor) else x, job.state_dict(2)
        )
        for _ in range(2):
            job.step()
        expected = weights(job)
    with Trainer(words) as twin:
        assert twin.load_state_dict(state) == 2
        for _ in range(2):
            twin.step()
        assert torch.equal(weights(twin), expected)
        metrics = twin.evaluate() if form == "gru" else {"eval/success": 0.0}
        assert 0 <= metrics["eval/success"] <= 1


def test_a_run_is_evaluated_raced_and_saved(tmp_path):
    words = [*TINY, "model.memory=stack", "total_frames=128", "eval_interval=0", "save_interval=1"]
    run = slipstream.train.run(load_train([*words, "rollout_save_interval=1", f"root={tmp_path}", "name=run"]))
    saved = RolloutStorage(run.path / "rollouts").load(2)
    assert "memory" not in saved.keys() and "value" in saved.keys()  # noqa: SIM118
    flown = slipstream.evaluate(
        f"checkpoint={run.path}", "eval.num_drones=2", "eval.map_seeds=[1]", "eval.max_steps=40", "eval.picture=false",
        "device=cpu", log=lambda text: None,
    )  # fmt: skip
    assert flown["drones"] == 2
    race = RaceGame(RaceOptions(opponent=str(run.path)), None)
    seen = []
    for _ in range(21):  # the learned drone decides every 20 steps, as in its training
        race.step([[0.0, 0.0, 0.0]])
        seen.append(race.policy.memory.clone())
    assert seen[0].shape == (2, 3 * 16) and seen[0].any()
    assert torch.equal(seen[19], seen[0]) and not torch.equal(seen[20], seen[0])


def test_the_league_refuses_a_memory():
    words = "task=aircombat reward=shaped num_envs=8 league.enabled=true league.seats=4 model.memory=gru device=cpu"
    with pytest.raises(ConfigError, match="a league flies past policies without memory"):
        Trainer(load_train(words.split()))


def train(kind, seed, iterations):
    torch.manual_seed(seed)
    env = HiddenVelocity(64)
    config = ModelConfig(trunk=[32], part=0, memory=kind, hidden_size=32, stack=2)
    policy = build_policy(env.observation_spec, env.action_spec, config)
    settings = {"rollout_steps": 9, "minibatches": 2, "epochs": 4, "learning_rate": 0.02, "schedule": "linear"}
    learner = PPO(policy, PPOConfig(clip=0.2, gamma=0.9, lam=0.9, **settings))
    collector = SyncDataCollector(env, policy, 64 * 9, return_same_td=True)
    for k in range(iterations):
        learner.update(collector.rollout(), k / iterations)
    return fly_episodes(HiddenVelocity(256), policy)["return"]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_hidden_velocity_is_braked_with_memory_only(seed):
    without, *others = (train(kind, seed, 14) for kind in ("none", "gru", "stack"))
    assert without < -5 and min(others) > -4.2  # 8 steps at a speed of 1 cost 8
