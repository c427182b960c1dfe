"""Tiny off-policy trainings, whole: on the navigation world and on Gymnasium's, stopped and resumed, judged and
refused."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest
import torch
from tiny_runs import differences, rows_of, state_of

from slipstream import train
from slipstream.algorithms.dqn import DQNConfig
from slipstream.algorithms.offpolicy import ReplayLearner
from slipstream.algorithms.policy_file import load_policy
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.training.metrics_log import read_metrics
from slipstream.training.trainer import Trainer

# 6 iterations of 64 frames; the first update comes in the third
SHORT = shlex.split("""
    env.num_envs=8 algo.rollout_steps=8 algo.updates=3 algo.batch_size=16 algo.warmup=130 algo.buffer_size=300
    model.part=8 model.trunk=[16] total_frames=384 save_interval=2 eval_interval=3 eval.num_drones=2
    device=cpu quiet=true wandb.mode=disabled
""")
NAVIGATION = shlex.split("""
    env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20 env.max_episode_steps=400
    model.encoder=dict eval.map_seeds=[1] eval.max_steps=240
""")
RUNS = {
    "dqn": [*NAVIGATION, "env.actions=discrete", "algo.n_step=3", "algo.prioritised=true", "algo.target_interval=2"],
    "sac": [*NAVIGATION, "algo.final_rate=0.1"],
    "td3": ["task=gym", "env.id=Pendulum-v1", "env.max_episode_steps=30", "eval.max_steps=10"],
    "dqn-gym": ["task=gym", "env.id=CartPole-v1", "eval.max_steps=50"],
}


def words_of(run):
    return [f"algo={run.partition('-')[0]}", *SHORT, *RUNS[run]]


def run_short(root, name, run, *words):
    return train.run(load_train([*words_of(run), f"root={root}", f"name={name}", *words]))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One undisturbed run of each kind, made when it is first asked for."""
    made = {}

    def get(run):
        if run not in made:
            made[run] = run_short(tmp_path_factory.mktemp("whole"), run, run)
        return made[run]

    return get


@pytest.mark.parametrize("run", RUNS)
def test_a_run_learns_after_the_warm_up_and_is_evaluated(whole, run, capsys):
    folder = whole(run)
    rows = read_metrics(folder.path)
    assert len(rows) == 6
    loss = "loss/q" if "dqn" in run else "loss/critic"
    assert [loss in row for row in rows] == [False, False, True, True, True, True]
    assert [row["replay/updates"] for row in rows] == [0, 0, 3, 6, 9, 12]
    assert state_of(folder)["algo"]["updates"] == 12
    capsys.readouterr()
    words = ["json=true", "eval.num_drones=3", "eval.picture=false", "device=cpu"]
    assert main(["eval", f"checkpoint={folder.path}", *words]) == 0
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert "success" in result if RUNS[run][0].startswith("env") else "return" in result


@pytest.mark.parametrize(("run", "kept"), [("dqn", 4), ("sac", 4), ("td3", 4), ("td3", 2)])  # the first update is in 3
def test_a_resumed_run_equals_the_uninterrupted_one(whole, run, kept, tmp_path):
    copy = shutil.copytree(whole(run).path, tmp_path / "half", symlinks=True)
    for path in (copy / "checkpoints").iterdir():
        if not path.name.startswith(f"ckpt_00000{kept}"):
            path.unlink()
    half = train.run(load_train([f"resume={copy}"]))
    assert differences(state_of(whole(run)), state_of(half)) == [] and rows_of(whole(run)) == rows_of(half)


def test_the_first_logged_actor_loss_of_td3_is_one():
    job = Trainer(load_train([*words_of("td3"), "algo.warmup=1", "algo.updates=1", "algo.policy_delay=2"]))
    metrics = job.learner.update(job.collector.rollout())
    assert metrics["loss/actor"] != 0


def test_without_its_replay_a_resumed_run_fills_a_new_one(tmp_path):
    folder = run_short(tmp_path, "bare", "sac", "algo.save_replay=off", "total_frames=256", "eval_interval=0")
    assert "replay" not in state_of(folder)["algo"]
    train.run(load_train([f"resume={folder.path}", "total_frames=512"]))
    rows = read_metrics(folder.path)[4:]
    assert ["loss/critic" in row for row in rows] == [False, False, True, True]
    assert state_of(folder)["algo"]["policy"]["random_share"].item() == 0


def test_a_replay_of_another_device_is_filled_again(capsys):
    job = Trainer(load_train(words_of("sac")))
    job.learner.update(job.collector.rollout())
    state = job.learner.state_dict()
    state["replay"] = {"time": 1, "rng": torch.zeros(16, dtype=torch.uint8)}  # as a ring on a GPU
    other = Trainer(load_train(words_of("sac")))
    other.learner.load_state_dict(state)
    assert len(other.learner.buffer) == 0 and "the replay buffer starts empty" in capsys.readouterr().err


def test_a_large_replay_is_saved_only_if_asked_for(monkeypatch):
    monkeypatch.setattr("slipstream.algorithms.offpolicy.SMALL_BYTES", 10)
    for setting, kept in (("auto", False), ("on", True), ("off", False)):
        job = Trainer(load_train([*words_of("sac"), f"algo.save_replay={setting}"]))
        job.learner.update(job.collector.rollout())
        assert ("replay" in job.learner.state_dict()) is kept


def test_priorities_follow_the_errors():
    job = Trainer(load_train([*words_of("dqn"), "algo.warmup=1"]))
    assert isinstance(job.learner, ReplayLearner)
    updates = []
    plain = job.learner.buffer.update_priority
    job.learner.buffer.update_priority = lambda index, error: updates.append((index, error)) or plain(index, error)
    job.learner.update(job.collector.rollout())
    ((index, error),) = updates
    assert index.shape == error.shape == (3 * 16,) and (error >= 0).all()


def test_init_starts_from_the_policy_of_another_run(whole):
    folder = whole("sac")
    job = Trainer(load_train([*words_of("sac"), f"init={folder.path}"]))
    theirs = load_policy(folder.path).state["policy"]
    assert all(
        torch.equal(value, theirs[name]) for name, value in job.policy.state_dict().items() if name != "random_share"
    )
    assert job.policy.random_share.item() == 0  # what was learned is not drowned in random actions


@pytest.mark.parametrize("algo", ["ppo", "dqn", "sac", "td3"])
@pytest.mark.parametrize("choice", ["preset=demo", "task=gym", "preset=debug"])
def test_every_algorithm_has_settings_for_the_demo_and_for_gym(algo, choice):
    cfg = load_train([choice, f"algo={algo}"])
    assert cfg.algo.name == algo


def test_loading_a_state_leaves_it_to_its_owner():
    jobs = [Trainer(load_train(words_of("dqn"))) for _ in range(2)]
    for _ in range(4):
        jobs[0].learner.update(jobs[0].collector.rollout())
    state = jobs[0].learner.state_dict()
    before = torch.cat(
        [v.clone().flatten() for s in state["optimizers"].values() for m in s.values() for v in m.values() if v.ndim]
    )
    jobs[1].learner.load_state_dict(state)
    jobs[1].learner._warm = True
    jobs[1].learner.update(jobs[1].collector.rollout())
    after = torch.cat(
        [v.flatten() for s in state["optimizers"].values() for m in s.values() for v in m.values() if v.ndim]
    )
    assert torch.equal(before, after)


def test_gradient_steps_grow_with_the_frames_of_an_iteration():
    """By default 32 up to 256 frames, as ever; then one per 8 frames. A number that is given stays."""
    of = DQNConfig().updates_per_batch
    assert [of(32), of(256), of(2048), of(4096)] == [32, 32, 256, 512]
    assert DQNConfig(updates=5).updates_per_batch(4096) == 5
    cfg = load_train(["task=gym", "env.id=CartPole-v1", "algo=dqn"])
    assert cfg.algo.updates_per_batch(cfg.env.num_envs * cfg.algo.rollout_steps) == 32  # one env: as before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("env.num_envs=64 total_frames=60000", "512 gradient steps per 4,096 frames (0.125 per frame)"),
        ("env.num_envs=64 total_frames=60000 algo.updates=32", "480 in this run: too few to learn much"),
    ],
)
def test_a_run_prints_its_gradient_steps_per_frame(words, says):
    pytest.importorskip("gymnasium")
    with Trainer(load_train(["task=gym", "env.id=CartPole-v1", "algo=dqn", "device=cpu", *words.split()])) as trainer:
        message = trainer.learner.startup_message(trainer.frames_per_batch, trainer.cfg.total_frames)
    assert says in message and message.startswith("warning") == ("algo.updates" in words)


def test_the_importance_exponent_grows_to_one():
    job = Trainer(load_train(words_of("dqn")))
    seen = []
    for progress in (0.0, 0.5, 1.0, 1.2):  # a resumed run may be past its end
        job.learner.update(job.collector.rollout(), progress)
        seen.append(job.learner.buffer.sampler.beta)
    assert seen == pytest.approx([0.4, 0.7, 1.0, 1.0])
