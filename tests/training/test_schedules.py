"""Numbers that follow the training: `ramp`, `steps`, what may have one, and how a run with them continues."""

from __future__ import annotations

import signal

import pytest
from tiny_runs import TINY, at_iteration, differences, rows_of, run_words, state_of

from slipstream import Trainer, train
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.config.schedules import Schedule
from slipstream.training.metrics_log import read_metrics

SPEED = "env.dyn.speed_mps=ramp([0.5,1.0],[0.5,3.0],until=0.5)"
FASTER = [*TINY, SPEED, "env.reward.collision=ramp(0,8)"]


def test_a_ramp_is_linear_in_twenty_parts():
    ramp = Schedule.parse("ramp([0.5,1.0],[0.5,3.0],until=0.5)", tuple[float, float])
    assert ramp.at(0, -1) == (0.5, 1.0) and ramp.at(0.25, -1) == (0.5, 2.0)
    assert ramp.at(0.024, -1) == (0.5, 1.0) and ramp.at(0.5, -1) == ramp.at(1, -1) == (0.5, 3.0)
    whole = Schedule.parse("ramp(500,2200)", int)
    assert whole.at(0.1, -1) == 670 and isinstance(whole.at(0.33, -1), int)


def test_steps_share_the_time_before_until():
    steps = Schedule.parse("steps(4, 8, 16, until=0.6)", int)
    assert [steps.at(share, 0) for share in (0, 0.19, 0.21, 0.39, 0.41, 1)] == [4, 4, 8, 8, 16, 16]


def test_a_schedule_may_follow_the_best_success():
    ramp = Schedule.parse("ramp(0, 10, until=0.8, by=success)", float)
    assert ramp.at(0.9, float("-inf")) == 0 and ramp.at(0, 0.4) == 5 and ramp.at(0, 0.95) == 10


def test_the_config_holds_the_last_value():
    cfg = load_train([SPEED])
    assert cfg.env.dyn.speed_mps == (0.5, 3.0)  # evaluations fly the end of it
    assert cfg.schedules == {"env.dyn.speed_mps": SPEED.partition("=")[2]}
    assert load_train([SPEED, "env_dyn.speed_mps=[1,2]"]).schedules == {}  # the later one counts


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("env.dyn.speed_mps=ramp(1)", "must be ramp(FIRST, LAST) or steps(A, B, C)"),
        ("env.dyn.speed_mps=ramp([1,2],[3,4],until=2)", "must be ramp(FIRST, LAST)"),
        ("env.reward.goal=ramp(1,2,from=0)", "must be ramp(FIRST, LAST)"),
        ("env.map=ramp(boxes,rooms)", "must be one that is a number to follow a ramp"),
        (
            "env.num_obstacles=ramp(10,20)",
            "env.num_obstacles cannot follow the training: of this env and algo env.dyn.",
        ),
        ("algo.epochs=steps(1,2)", "algo.epochs cannot follow the training"),
        ("env.reward.collision=ramp(-1,5)", "env.reward.collision=-1 is a cost"),
        ("env.disturbance.drag_per_s=ramp(0.2,0)", "env.disturbance.drag_per_s cannot change to 0: end above 0"),
        ("algo.minibatches=steps(4,7)", "does not divide into algo.minibatches=7"),
        ("env.reward.goal=ramp(0,5,by=success)", "by=success needs one process and eval_interval"),
        ("env.numobstacles=ramp(1,2)", "unknown key"),
    ],
)
def test_what_cannot_follow_is_refused(tmp_path, capfd, word, says):
    assert main(["train", *TINY, word, f"root={tmp_path}"]) == 2
    assert says in capfd.readouterr().err.strip().splitlines()[-1] and not list(tmp_path.iterdir())


def test_schedules_refuse_what_collects_ahead(tmp_path, capfd):
    assert main(["train", *FASTER, "collect.pipeline=on", f"root={tmp_path}"]) == 2
    assert "schedules do not work with collect.pipeline=on" in capfd.readouterr().err


def test_env_and_learner_follow_and_it_is_logged(tmp_path):
    folder = run_words(tmp_path, "a", *FASTER, "algo.minibatches=steps(4,8)", "total_frames=640")
    rows = list(read_metrics(folder.path))
    assert [row["schedule/env.dyn.speed_mps/1"] for row in rows] == pytest.approx(
        [1, 1.4, 1.8, 2.2, 2.6, 3, 3, 3, 3, 3]
    )
    assert [row["schedule/env.reward.collision"] for row in rows] == pytest.approx([0.8 * k for k in range(10)])
    assert [row["schedule/algo.minibatches"] for row in rows] == [4] * 5 + [8] * 5


def test_what_moves_gets_faster():
    trainer = Trainer(load_train([*FASTER, "total_frames=640"]))
    trainer.step(0.0)
    slow = trainer.env.movers.vel.norm(dim=-1).max()
    for _ in range(3):
        trainer.step(0.6)
    assert slow <= 1.0 < trainer.env.movers.vel.norm(dim=-1).max()
    assert trainer.env.config.reward.collision == pytest.approx(4.8) and trainer.cfg.env.reward.collision == 8


def test_what_was_captured_is_captured_again_at_a_change():
    trainer, captured = Trainer(load_train([*FASTER, "compile=auto"])), []
    trainer.capture(lambda text: None)
    trainer.capture_again = lambda: captured.append(dict(trainer.scheduled._present))
    for progress in (0.0, 0.01, 0.06, 0.06):
        trainer.step(progress)
    assert len(captured) == 2 and trainer.execution_mode() == "plain"


def test_batches_grow_and_the_frames_stay():
    words = ["algo.rollout_steps=steps(4,8,16,until=0.75)", "total_frames=512"]
    trainer = Trainer(load_train([*TINY, *words]))
    assert trainer.iterations == 4 + 2 + 2  # 128 frames of 32, 128 of 64, 256 of 128
    frames = [(trainer.step(trainer.progress(k, 0)), trainer.frames)[1] for k in range(trainer.iterations)]
    assert frames == [32, 64, 96, 128, 192, 256, 384, 512]


def test_a_run_with_schedules_continues_bit_for_bit(tmp_path, monkeypatch):
    words = [*FASTER, "algo.rollout_steps=steps(4,8)", "algo.minibatches=steps(2,4)", "save_interval=1"]
    words += ["env.goal_radius_m=ramp(2,0.5,by=success,until=0.5)", "eval_interval=2"]
    whole = run_words(tmp_path, "whole", *words, "total_frames=512")
    assert state_of(whole)["iteration"] == 12 and state_of(whole)["frames"] == 512
    at_iteration(monkeypatch, 7, lambda: signal.raise_signal(signal.SIGTERM))
    part = run_words(tmp_path, "part", *words, "total_frames=512")
    assert state_of(part)["iteration"] == 8
    part = train.run(load_train([f"resume={part.path}", "quiet=true"]))
    assert not differences(state_of(whole), state_of(part)) and rows_of(whole) == rows_of(part)


def test_the_short_name_of_the_learning_rate_stays():
    assert load_train(["schedule=cosine"]).algo.schedule == "cosine"
