"""Behavior cloning: from stored frames, from a teacher, resumed and refused."""

from __future__ import annotations

import shlex

import pytest
import torch
from tiny_runs import differences, state_of
from toy_env import Cart, CartConfig, expert

from slipstream import RolloutStorage, SyncDataCollector, train
from slipstream.algorithms.bc import BC, BCConfig, divergence
from slipstream.algorithms.execution.capture import capture_training
from slipstream.algorithms.policy_file import load_policy
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.envs.specs import Box, Discrete, Hybrid
from slipstream.models.policy import ModelConfig, action_head, build_policy
from slipstream.training.metrics_log import read_metrics
from slipstream.training.trainer import Trainer

WORDS = shlex.split("""
    task=toy_env:Cart algo=bc env.num_envs=16 algo.rollout_steps=32 algo.minibatches=8 algo.learning_rate=3e-3
    algo.schedule=cosine model.part=0 model.trunk=[32] save_interval=10 eval_interval=0 eval.num_drones=64
    device=cpu quiet=true wandb.mode=disabled
""")


def discrete_expert(observation):
    return (expert(observation)[:, 0] * 2).round().clamp(-1, 1).long() + 1


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """Rollout files of the experts, by whether actions are discrete."""
    folders = {}
    for discrete, act in ((False, expert), (True, discrete_expert)):
        torch.manual_seed(0)
        env = Cart(16, config=CartConfig(discrete=discrete, max_steps=30))
        collector = SyncDataCollector(env, act, 16 * 64)
        folders[discrete] = tmp_path_factory.mktemp("flown")
        with RolloutStorage(folders[discrete]) as storage:
            for i in range(4):
                storage.save(collector.rollout(), i)
    return folders


@pytest.fixture(scope="module")
def cloned(flown, tmp_path_factory):
    words = [*WORDS, f"algo.data={flown[False]}", f"root={tmp_path_factory.mktemp('runs')}", "name=cloned"]
    return train.run(
        load_train([*words, "total_frames=20480", "eval_interval=40", "algo.learning_rate=1e-2", "env.max_steps=30"])
    )


def test_a_clone_acts_as_the_expert(cloned):
    rows = read_metrics(cloned.path)
    assert rows[-1]["bc/error"] < 0.05 < rows[0]["bc/error"] and rows[-1]["bc/loss"] < rows[0]["bc/loss"]
    assert rows[-1]["frames"] == 20480 and "eval/return" in rows[-1]
    env = Cart(256)
    policy = load_policy(cloned.path).build(env, "cpu")
    torch.manual_seed(3)
    seen = env.reset()
    assert (policy.actor.mean(policy.distribution(policy.features(seen), seen)) - expert(seen)).abs().mean() < 0.1


@pytest.mark.parametrize("words", [[], ["algo.data=FLOWN"]])
def test_a_smaller_student_approaches_its_teacher(cloned, flown, words):
    """The student reads `cart` alone; the teacher reads everything."""
    words = [word.replace("FLOWN", str(flown[False])) for word in words]
    small = [*WORDS, f"algo.teacher={cloned.path}", "model.trunk=[16]", "model.keys=[cart]", "algo.entropy=0"]
    small += ["algo.learning_rate=1e-2", "algo.epochs=4"]
    with Trainer(load_train([*small, *words, "total_frames=10240"])) as trainer:
        steps = [trainer.step(trainer.progress(it, 0)).metrics for it in range(trainer.iterations)]
        assert trainer.policy.keys == ("cart",)
        assert "teacher" in trainer.learner.startup_message(1, 1)
        assert trainer.learner.data is None or set(trainer.learner.data) >= {("observation", "place"), ("action",)}
    first, last = steps[0], steps[-1]
    assert last["bc/error"] < 0.06 < first["bc/error"] and 0 < last["bc/loss"] < 0.2 * first["bc/loss"]


def test_a_student_with_memory_learns_what_it_cannot_see(cloned):
    """The student sees the place alone; the teacher acts by the velocity too."""
    words = [*WORDS, f"algo.teacher={cloned.path}", "model.keys=[place]", "model.hidden_size=16", "total_frames=8192"]
    words += [
        "algo.learning_rate=1e-2",
        "algo.epochs=2",
        "algo.minibatches=4",
        "algo.rollout_steps=16",
        "env.max_steps=30",
    ]
    errors = {}
    for memory in ("none", "gru"):
        with Trainer(load_train([*words, f"model.memory={memory}"])) as trainer:
            steps = [trainer.step(trainer.progress(it, 0)).metrics for it in range(trainer.iterations)]
            errors[memory] = steps[-1]["bc/error"].item()
    assert errors["gru"] < 0.6 * errors["none"] and "grad/memory" in steps[-1]


@pytest.mark.parametrize("source", ["data", "teacher"])
def test_a_resumed_run_ends_as_the_undisturbed_one(cloned, flown, tmp_path, source):
    given = f"algo.{source}={flown[False] if source == 'data' else cloned.path}"
    words = [*WORDS, given, "algo.schedule=constant", f"root={tmp_path}"]
    whole = train.run(load_train([*words, "name=whole", "total_frames=2048"]))
    half = train.run(load_train([*words, "name=half", "total_frames=1024"]))
    half = train.run(load_train([f"resume={half.path}", "total_frames=2048"]))
    assert differences(state_of(whole), state_of(half)) == []


@pytest.mark.parametrize("source", ["data", "teacher"])
def test_the_captured_path_learns_as_the_plain_one(cloned, flown, source):
    found = []
    for mode, capture in (("plain", None), ("graphs", lambda fn, name, log: fn)):
        words = [*WORDS, f"algo.{source}={flown[False] if source == 'data' else cloned.path}"]
        with Trainer(load_train(words)) as trainer:
            parts = capture_training(trainer.collector, trainer.learner, mode, print, capture)
            torch.manual_seed(5)
            for _ in range(2):
                losses = parts[1](parts[0](), 0.0)
            found.append({name: x.item() for name, x in losses.items()})
    assert found[0] == found[1]


def test_a_clone_is_evaluated_and_trained_further(cloned, capsys):
    trusted = "task=toy_env:Cart"
    assert main(["eval", f"checkpoint={cloned.path}", trusted, "eval.num_drones=8", "device=cpu"]) == 0
    assert "return" in capsys.readouterr().out
    words = [word for word in WORDS if not word.startswith("algo")]
    further = ["algo=ppo", "algo.minibatches=8", f"init={cloned.path}"]
    with Trainer(load_train([*words, *further])) as trainer:
        trainer.step()


def test_actions_of_a_teacher_of_another_kind_are_learned():
    env = Cart(4)
    policy = build_policy(env.observation_spec, env.action_spec, ModelConfig(part=0, trunk=[8]))
    learner = BC(policy, BCConfig(minibatches=2))

    class Scripted(torch.nn.Module):
        keys = ("cart",)

        def forward(self, observation):
            assert set(observation) == {"cart"}
            return expert(observation)

    learner.set_teacher(Scripted(), "the expert")
    batch = SyncDataCollector(env, policy, 4 * 8).rollout()
    rows = learner.prepare(batch)
    seen = batch["observation", "cart"].transpose(0, 1).flatten(0, 1)
    assert torch.equal(rows["action"], expert({"cart": seen})) and "mean actions" in learner.startup_message(1, 1)
    assert learner.learn(rows)["bc/loss"].isfinite()


@pytest.mark.parametrize(
    "spec", [Box((2,), -1.0, 3.0), Box((2,)), Discrete(5), Hybrid((-1.0, 0.0), (1.0, 2.0), switches=2)]
)
def test_the_divergence_is_that_of_log_probabilities(spec):
    torch.manual_seed(0)
    head = action_head(6, spec)
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter, 0, 0.5)
    teacher, student = (tuple(x.detach() for x in head(torch.randn(1, 6))) for _ in range(2))
    found = divergence(head, teacher, student)
    many = [tuple(x.expand(200_000, -1) for x in p) for p in (teacher, student)]
    action = head.sample(many[0])
    difference = head.log_prob(many[0], action) - head.log_prob(many[1], action)
    spread = difference.std() / 200_000**0.5
    assert found.item() == pytest.approx(difference.mean().item(), abs=5 * spread.item() + 1e-4)
    assert divergence(head, teacher, teacher).abs().max() < 1e-5


def test_frames_that_are_not_valid_teach_nothing():
    env = Cart(4)
    policy = build_policy(env.observation_spec, env.action_spec, ModelConfig(part=0, trunk=[8]))
    learner = BC(policy, BCConfig(minibatches=1))
    rows = learner.prepare(SyncDataCollector(env, policy, 4 * 16).rollout())
    rows["observation"] = next(rows["observation"].minibatches(None, 1, policy.keys))
    assert (rows["weight"] == 0).any()
    before = learner.loss(rows)[0]
    rows["action"] = torch.where(rows["weight"][:, None] > 0, rows["action"], 0.5)
    assert torch.equal(learner.loss(rows)[0], before)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], r"give algo\.data=FOLDER \(rollout files\) or algo\.teacher=RUN"),
        (["algo.data=FLOWN", "env.more=true"], r"algo\.data=.* has the observation 'cart' as float32 \[2\]"),
        (["algo.data=FLOWN", "model.memory=gru"], r"give algo\.teacher=RUN without algo\.data"),
        (["algo.data=nowhere"], r"algo\.data=nowhere does not exist"),
        (["algo.schedule=adaptive"], r"unknown algo\.schedule 'adaptive'"),
        (["algo.gamma=0.9"], r"unknown key 'algo\.gamma'"),
        (["algo.data=FLOWN", "init_replay=FLOWN"], r"algo=bc has none: use dqn, sac or td3"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(flown, words, message):
    words = [word.replace("FLOWN", str(flown[False])) for word in words]
    with pytest.raises(ConfigError, match=message):
        Trainer(load_train([*WORDS, *words]))


def test_a_teacher_for_other_observations_is_refused(cloned, capsys):
    words = [*WORDS, f"algo.teacher={cloned.path}", "env.more=true", f"root={cloned.path.parent}", "name=refused"]
    assert main(["train", *words]) == 2
    said = capsys.readouterr().err.strip()
    assert "trained with other observations" in said and len(said.splitlines()) == 1
    assert not (cloned.path.parent / "refused").exists()
