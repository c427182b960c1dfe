"""`slipstream eval`: what it prints, draws and refuses, and whose policy it flies."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from tiny_runs import refusal

from slipstream.algorithms.policy_file import load_policy
from slipstream.checkpoint import load
from slipstream.cli import main
from slipstream.config.compose import load_train, to_dict
from slipstream.config.registry import find_task
from slipstream.config.schema import EvalConfig
from slipstream.models.policy import build_policy
from slipstream.tasks.navigation import evaluation
from slipstream.tasks.navigation.env import NavigationConfig
from slipstream.tasks.navigation.evaluation import evaluation_env, fly, summarize
from slipstream.tasks.navigation.physics.obstacles import MovingObstaclesConfig
from slipstream.training import evaluate

RELEASED = Path(__file__).parents[2] / ".." / "shared" / "data" / "navrl_checkpoint.pt"

WORLD = ["env.map_half_m=4", "env.num_obstacles=3", "env_dyn.num_obstacles=8", "model.trunk=[8]"]
SHORT = ["eval.num_drones=3", "eval.map_seeds=[11,12]", "eval.max_steps=40", "eval.bootstrap=50", "device=cpu"]


def write_policy(path, words=(), seed=0):
    cfg = load_train([*WORLD, *words])
    torch.manual_seed(seed)
    env = evaluation_env(cfg.env, EvalConfig(num_drones=1, map_seeds=[1]), "cpu")
    policy = build_policy(env.observation_spec, env.action_spec, cfg.model)
    torch.save({"config": to_dict(cfg), "policy": policy.state_dict()}, path)
    return path


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_policy(tmp_path_factory.mktemp("policy") / "policy.pt")


def test_eval_writes_an_animation_and_does_not_overwrite_it(checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["eval", f"checkpoint={checkpoint}", *SHORT]
    assert main([*words, "out=flight.gif"]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["flight.gif", "flight.html", "flight.png", "flight.rec"]
    written = (tmp_path / "flight.gif").read_bytes()
    assert written.startswith(b"GIF89a") and "flight.gif" in capsys.readouterr().out.splitlines()[-1]
    monkeypatch.setattr("slipstream.tasks.navigation.evaluation.fly", None)  # refused before anything flies
    for word in ("out=flight.gif", "out=flight.png", "out=flight.mp4"):  # flight.mp4 would overwrite flight.png
        assert main([*words, word]) == 2
        assert "exists already: name another file, or overwrite it with --force" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert main([*words, "out=flight.png", "--force"]) == 0
    assert (tmp_path / "flight.gif").read_bytes() == written  # not among the files of out=flight.png


REFUSED = {
    "red=crank": "unknown key 'red' of this task: it needs task=aircombat",
    "games=20": "unknown key 'games' of this task: it needs task=aircombat",
    "env.lidar.azimuths=18": "trained with other observations or actions",
    "env.actions=discrete": "trained with other observations or actions",
    f"compare={find_task('aircombat').weights}": "trained for task=aircombat, not for task=navigation",
    "out=nowhere/paths.png": "there is no folder nowhere",
    "out=flight.avi": "out=flight.avi: the name must end in .png, .html, .gif or .mp4",
    "out=flight": "out=flight: the name must end in .png, .html, .gif or .mp4",
}


@pytest.mark.parametrize(("word", "message"), REFUSED.items())
def test_what_cannot_be_is_refused_before_the_flight(checkpoint, tmp_path, monkeypatch, capfd, word, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluation, "fly", None)
    assert message in refusal(capfd, f"checkpoint={checkpoint}", *SHORT, word, command="eval")
    assert list(tmp_path.iterdir()) == []


def test_the_world_is_the_checkpoints_own_unless_typed(checkpoint):
    cfg, trained = evaluate.configure([f"checkpoint={checkpoint}"])
    assert (cfg.env.map_half_m, cfg.env.num_obstacles, cfg.env.dyn.num_obstacles, cfg.task) == (4.0, 3, 8, "navigation")
    cfg, _ = evaluate.configure([f"checkpoint={checkpoint}", "env_dyn.num_obstacles=0", "env.dynamics=quadrotor"])
    assert (cfg.env.num_obstacles, cfg.env.dyn.num_obstacles, cfg.env.dynamics) == (3, 0, "quadrotor")


def test_without_a_checkpoint_the_policy_that_ships_is_flown():
    cfg, trained = evaluate.configure([])
    assert trained.path == find_task("navigation").weights and cfg.task == "navigation"
    assert trained.path.stat().st_size <= 1_000_000
    env = evaluation_env(cfg.env, EvalConfig(num_drones=2, map_seeds=[1], max_steps=4), "cpu")
    fly(env, trained.build(env, "cpu"), 2)


def test_a_checkpoint_with_an_unknown_key_names_it(tmp_path, capsys):
    state = torch.load(write_policy(tmp_path / "policy.pt"), weights_only=True)
    state["config"]["env"]["gravity"] = 9.81
    torch.save(state, tmp_path / "policy.pt")
    assert main(["eval", f"checkpoint={tmp_path / 'policy.pt'}", *SHORT]) == 2
    assert "the checkpoint: unknown key 'env.gravity'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no checkpoint at"),
        (b"not a checkpoint", "policy.pt"),
        (b"", "policy.pt"),
        ({"weights": torch.zeros(3)}, "holds neither a Slipstream checkpoint nor NavRL's weights"),
        (torch.zeros(3), "holds neither a Slipstream checkpoint nor NavRL's weights"),
    ],
)
def test_a_file_that_is_missing_or_another_is_one_line(tmp_path, capsys, content, message):
    path = tmp_path / "policy.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    assert main(["eval", f"checkpoint={path}", *SHORT]) == 2
    error = capsys.readouterr().err
    assert error.startswith("slipstream eval: ") and message in error and error.count("\n") == 1


def test_a_policy_is_compared_with_its_own_sensors(checkpoint, tmp_path, capsys):
    own = ["env.lidar.azimuths=18", "env.observe_moving=false", "env.decision_interval=4"]
    words = ["eval", f"checkpoint={checkpoint}", *SHORT, "eval.picture=false", "env.decision_interval=2"]
    assert main([*words, f"compare={write_policy(tmp_path / 'other.pt', own)}"]) == 0
    shown = capsys.readouterr().out
    assert "other.pt, in the same world: velocity_lag, a decision every 4 physics steps" in shown
    assert shown.count("a decision every 2 physics steps") == 1


def test_the_hint_of_more_maps_can_be_pasted(checkpoint):
    lines = []
    evaluate.run(*evaluate.configure([f"checkpoint={checkpoint}", *SHORT, "eval.picture=false"]), log=lines.append)
    (hint,) = [text for text in lines if "take at least 16" in text]
    cfg, _ = evaluate.configure([f"checkpoint={checkpoint}", hint.rstrip(")").split()[-1]])
    assert cfg.eval.map_seeds == list(range(11, 27))


needs_released = pytest.mark.skipif(not RELEASED.exists(), reason="NavRL's released weights are not here")


@needs_released
def test_navrls_released_policy_crosses_static_fields_here():
    """The proof that the world is right, in small: 2 maps of 350 obstacles, 32 drones each (16 maps of 256: 0.97)."""
    env = evaluation_env(
        NavigationConfig(dyn=MovingObstaclesConfig(num_obstacles=0)),
        EvalConfig(num_drones=32, map_seeds=[201, 202]),
        "cpu",
    )
    policy = load_policy(RELEASED).build(env, "cpu")
    result = summarize(fly(env, policy, 32, record_paths=False))
    assert result["success"] > 0.85
    assert 23.0 < result["time_to_goal_s"] < 35.0  # 48 m at no more than 2 m/s on each axis


CONFIG = {"task": "navigation", "env": {}, "model": {}, "algo": {"name": "ppo"}}


def write(path, number):
    torch.save({"config": CONFIG, "policy": {"x": torch.full((2,), float(number))}}, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_policy_that_goes_while_it_is_loaded(tmp_path, monkeypatch, replaced):
    path, other, plain = tmp_path / "best.pt", tmp_path / "other.pt", load.read_torch
    sha256 = write(path, 1)
    write(other, 2)

    def read_torch(*args):  # the bytes of the file were read, and nothing is made of them
        other.replace(path) if replaced else path.unlink()
        return plain(*args)

    monkeypatch.setattr(load, "read_torch", read_torch)
    found = load_policy(path)
    assert found.message() == f"policy: {path}, sha256 {sha256}" and found.state["policy"]["x"].tolist() == [1.0, 1.0]
