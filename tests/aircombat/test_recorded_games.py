"""Games of people: what they saw and did becomes rollout files, and behavior cloning learns from them."""

from __future__ import annotations

import math
import shlex

import pytest
import torch

from slipstream.cli import main
from slipstream.recordings import load_recording
from slipstream.rollouts.storage import RolloutStorage
from slipstream.tasks.aircombat.game import DuelGame, GameOptions
from slipstream.training.metrics_log import read_metrics

STEPS = 900  # of 1/60 s


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A person who weaves and fires twice; the views and controls in each step."""
    game, seen, did = DuelGame(GameOptions(opponent="evade", start="random", seed=3)), [], []
    for step in range(STEPS):
        seen.append({name: x[0].clone() for name, x in game.env.views()[0].items()})
        did.append([math.sin(step // 30), 0.5 + 0.5 * (step > 300), float(step in (100, 500))])
        game.step([did[-1]])
    path = tmp_path_factory.mktemp("games") / "game.rec"
    game.recording("a game").save(path)
    return path, seen, did


@pytest.fixture(scope="module")
def folder(played):
    path = played[0]
    for _ in range(2):  # the second becomes another file of the folder
        assert main(["recording", "export", str(path), "--to", "rollouts", "--out", str(path.parent / "people")]) == 0
    return path.parent / "people"


def test_a_game_becomes_what_the_person_saw_and_did(played, folder):
    _, seen, did = played
    with RolloutStorage(folder) as storage:
        batch = storage.load(1)
    frames = STEPS // 3  # a row is 0.05 s
    assert batch["action"].shape == (1, frames, 3)
    for k in range(0, frames, 7):
        for name, x in seen[3 * k].items():  # positions are stored in steps of 0.5 m
            torch.testing.assert_close(batch["observation"][name][0, k], x, rtol=0, atol=0.02, msg=f"{name} {k}")
        held = did[3 * k + 2]
        assert batch["action"][0, k, :2].tolist() == pytest.approx(held[:2], abs=0.006)
    fired = batch["action"][0, :, 2].nonzero().flatten().tolist()
    assert fired == [100 // 3, 500 // 3]
    assert (batch["observation"]["can_fire"][0, fired] == 1).all()


def test_behavior_cloning_learns_from_games(folder, tmp_path):
    words = shlex.split(f"""
        train task=aircombat algo=bc algo.data={folder} env.num_envs=16 env.time_scale=3 algo.rollout_steps=32
        algo.learning_rate=0.01 model.trunk=[16] model.part=0 total_frames=40960 eval_interval=0 device=cpu threads=1
        quiet=true wandb.mode=disabled root={tmp_path} name=cloned
    """)
    assert main(words) == 0
    rows = read_metrics(tmp_path / "cloned")
    assert rows[-1]["bc/loss"] < rows[0]["bc/loss"] - 0.5


def test_a_recording_without_actions_is_refused(played, tmp_path, capsys):
    recording = load_recording(played[0])
    del recording.columns["fighter.throttle"]
    path = recording.save(tmp_path / "game.rec")
    assert main(["recording", "export", str(path), "--to", "rollouts"]) == 2
    assert "holds no actions of people: slipstream play records them" in capsys.readouterr().err
    recording.meta["task"] = "other"
    path = recording.save(tmp_path / "game.rec")
    assert main(["recording", "export", str(path), "--to", "rollouts"]) == 2
    assert not (tmp_path / "rollouts").exists()
