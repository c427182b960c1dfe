"""`slipstream train`, `eval` and `export`: the run folder, resuming bit for bit, every algorithm and task, a user's own env."""

from __future__ import annotations

import json
import shlex
import shutil

import numpy as np
import pytest
from cli_runner import contents, metrics, run_cli, untimed

from slipstream import load_checkpoint

COMMON = shlex.split("device=cpu threads=1 quiet=true wandb.mode=disabled model.part=8 model.trunk=[16]")
WORLD = shlex.split("""
    env.map_half_m=2 env.num_obstacles=3 env_dyn.num_obstacles=8 env.decision_interval=20 env.max_episode_steps=400
    model.encoder=dict eval.map_seeds=[1] eval.max_steps=240 eval.num_drones=2
""")
# 12 iterations of 8 x 8 frames; many episodes end
NAVIGATION = shlex.split("""
    env.num_envs=8 algo.training_frame_num=8 algo.minibatches=4 algo.epochs=2
    total_frames=768 save_interval=2 eval_interval=3 rollout_save_interval=4
""")
OFF_POLICY = shlex.split("""
    env.num_envs=4 algo.training_frame_num=8 algo.updates=3 algo.batch_size=16 algo.warmup=60 algo.buffer_size=300
    total_frames=192 save_interval=2 eval_interval=3 eval.num_drones=2
""")
RUNS = {
    "dqn": [*OFF_POLICY, *WORLD, "algo=dqn", "env.actions=discrete", "algo.n_step=3", "algo.prioritised=true"],
    "sac": [*OFF_POLICY, "task=gym", "env.id=Pendulum-v1", "algo=sac", "env.max_episode_steps=15", "eval.max_steps=10"],
    "td3": [*OFF_POLICY, "task=gym", "env.id=Pendulum-v1", "algo=td3", "env.max_episode_steps=15", "eval.max_steps=10"],
    "pipelined": [*NAVIGATION, *WORLD, "collect.pipeline=on", "total_frames=384", "rollout_save_interval=0"],
    "compressed": [*NAVIGATION, *WORLD, "collect.compress=lidar", "total_frames=384", "rollout_save_interval=0"],
    "aircombat": shlex.split("""
        task=aircombat opponent=crank reward=shaped env.num_envs=8 env.time_scale=20 env.episode_s=4 algo.training_frame_num=8
        algo.minibatches=2 algo.epochs=1 total_frames=384 save_interval=2 eval_interval=3 eval.num_drones=4
    """),
}


def train(root, name, *words):
    """The folder of a run that went well."""
    done = run_cli("train", *COMMON, *words, f"root={root}", f"name={name}")
    assert done.code == 0, done.err
    assert str(root / name) in done.out
    return root / name


def same_run(a, b) -> None:
    assert untimed(a) == untimed(b)
    assert contents(load_checkpoint(a / "checkpoints")) == contents(load_checkpoint(b / "checkpoints"))


def rewound(run, folder, iteration):
    """A copy of a run that lost every checkpoint after `iteration`."""
    copy = shutil.copytree(run, folder / f"{run.name}_{iteration}", symlinks=True)
    for path in (copy / "checkpoints").iterdir():
        if path.name != f"ckpt_{iteration:06d}.pt.slip":
            path.unlink()
    return copy


@pytest.fixture(scope="module")
def navigation(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs"), "nav", *NAVIGATION, *WORLD)


# -- the run folder --------------------------------------------------------------------------------------------------


def test_a_run_folder_holds_what_the_docs_list(navigation):
    files = "config.yaml git.json metrics.jsonl tensorboard checkpoints best.pt learning.png rollouts"
    assert set(files.split()) <= {path.name for path in navigation.iterdir()}
    names = sorted(path.name for path in (navigation / "checkpoints").iterdir())
    assert names == [*(f"ckpt_{i:06d}.pt.slip" for i in (4, 6, 8, 10, 12)), "latest.pt.slip"]  # the last five
    assert (navigation / "learning.png").read_bytes().startswith(b"\x89PNG")
    assert list((navigation / "tensorboard").iterdir())
    assert "commit" in json.loads((navigation / "git.json").read_text())


def test_the_log_has_a_row_an_iteration(navigation):
    rows = metrics(navigation)
    assert [row["iteration"] for row in rows] == list(range(1, 13))
    assert [row["frames"] for row in rows] == [64 * i for i in range(1, 13)]
    for row in rows:
        assert {"loss/policy", "loss/value", "loss/entropy", "kl", "lr", "fps", "time_s", "episode/count"} <= set(row)
        assert {"perf/collect", "perf/learn"} <= set(row)
    assert rows[-1]["lr"] == pytest.approx(0.0005)
    assert ["eval/success" in row for row in rows] == [row["iteration"] % 3 == 0 for row in rows]
    assert {"episode/return", "episode/length", "episode/success", "episode/collision", "episode/timeout"} <= set(
        rows[-1]
    )
    assert any(row["episode/count"] > 0 for row in rows)


# -- the same run ----------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_run_and_another_does_not(navigation, tmp_path):
    again = train(tmp_path, "again", *NAVIGATION, *WORLD, "total_frames=384")
    assert untimed(again) == untimed(navigation)[:6]
    sixth = [contents(load_checkpoint(run / "checkpoints" / "ckpt_000006.pt")) for run in (navigation, again)]
    assert sixth[0] == sixth[1]
    other = train(tmp_path, "other", *NAVIGATION, *WORLD, "total_frames=64", "seed=1")
    assert untimed(other)[0]["loss/policy"] != untimed(navigation)[0]["loss/policy"]
    done = run_cli("train", f"resume={again}", "total_frames=512")  # longer than it was meant to be
    assert done.code == 0, done.err
    assert untimed(again)[6] == untimed(navigation)[6] and len(metrics(again)) == 8


@pytest.mark.parametrize("kind", RUNS)
def test_every_algorithm_task_and_collector_resumes_exactly(kind, tmp_path):
    if kind in ("sac", "td3"):
        pytest.importorskip("gymnasium")
    whole = train(tmp_path, "whole", *RUNS[kind])
    rows = metrics(whole)
    assert len(rows) == 6 and all(np.isfinite(v) for row in rows for v in row.values() if isinstance(v, float))
    assert "eval/return" in rows[-1] or "eval/success" in rows[-1]
    assert {path.name for path in (whole / "checkpoints").iterdir()} >= {f"ckpt_{i:06d}.pt.slip" for i in (2, 4, 6)}
    half = rewound(whole, tmp_path, 2)
    done = run_cli("train", f"resume={half}")
    assert done.code == 0, done.err
    same_run(whole, half)
    assert (whole / "best.pt").exists()


# -- judging and exporting -------------------------------------------------------------------------------------------


def test_eval_of_a_run_gives_one_json_object(navigation, tmp_path):
    words = [
        "eval.num_drones=3",
        "eval.map_seeds=[11,12]",
        "eval.max_steps=60",
        "eval.bootstrap=50",
        "device=cpu",
        "json=true",
    ]
    first = run_cli("eval", f"checkpoint={navigation}", *words, "out=paths.png", cwd=tmp_path)
    assert first.code == 0, first.err
    result = first.json
    assert set(
        ["success", "success_low", "success_high", "collision", "timeout", "success_strict", "drones", "maps"]
    ) <= set(result)
    assert result["drones"] == 6 and [row["map_seed"] for row in result["maps"]] == [11, 12]
    assert result["success"] + result["collision"] + result["timeout"] == pytest.approx(1.0)
    assert (tmp_path / "paths.png").read_bytes().startswith(b"\x89PNG")
    compared = run_cli(
        "eval", f"checkpoint={navigation}", f"compare={navigation}", *words, "eval.picture=false", cwd=tmp_path
    )
    assert compared.code == 0 and compared.json["compare"]["difference"] == 0


# -- a user's own env ------------------------------------------------------------------------------------------------

OWN = """
from dataclasses import dataclass
import torch
from slipstream import NavigationEnv
from slipstream.envs.base import Outcome, TensorEnv

Box = type(NavigationEnv(1, config=NavigationEnv.Config(map_half_m=2.0, num_obstacles=0)).action_spec)

@dataclass
class Config:
    num_envs: int = 4
    push: float = 0.1  # of an action

class Slope(TensorEnv):
    Config = Config
    observation_spec = {"x": Box((1,))}
    action_spec = Box((1,), -1.0, 1.0)
    state_names = ("x", "age")

    def __init__(self, num_envs, device="cpu", seed=0, config=None):
        super().__init__(num_envs, device, seed)
        self.config = config or Config()
        self.x = torch.zeros(num_envs, 1, device=device)
        self.age = torch.zeros(num_envs, device=device)

    def _reset(self, mask):
        self.x.copy_(torch.where(mask[:, None], torch.randn_like(self.x), self.x))
        self.age.mul_(~mask)

    def _advance(self, action):
        self.x.add_(self.config.push * action)
        self.age.add_(1)

    def _observe(self):
        return {"x": self.x.clone()}

    def _outcome(self):
        over, high = self.age >= 5, self.x[:, 0] > 1
        return Outcome(self.x[:, 0].clone(), over & high, over & ~high, {"height": self.x[:, 0].clone()})
"""
OWN_RUN = shlex.split("""
    task=blackbox_slope:Slope env.num_envs=6 env.push=0.2 algo.training_frame_num=4 algo.minibatches=2
    total_frames=192 save_interval=100 eval_interval=3 eval.num_drones=3 eval.max_steps=8
""")


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "blackbox_slope.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_env_of_ones_own_trains_resumes_and_is_judged(own):
    whole = train(own, "whole", *OWN_RUN)
    rows = metrics(whole)
    assert len(rows) == 8 and "eval/height" in rows[2] and "episode/height" in rows[7] and (whole / "best.pt").exists()
    half = train(own, "half", *OWN_RUN, "total_frames=72")  # ends where the other one is judged too
    assert run_cli("train", f"resume={half}", "total_frames=192").code == 0
    same_run(whole, half)
    first = run_cli("eval", f"checkpoint={whole}", "eval.num_drones=5", "json=true")
    again = run_cli("eval", f"checkpoint={whole}", "eval.num_drones=5", "json=true")
    assert first.code == 0 and first.json == again.json
    assert first.json["episodes"] == 5 and first.json["length"] == 5.0 and np.isfinite(first.json["return"])
    other = run_cli("eval", f"checkpoint={whole}", "eval.num_drones=5", "env.push=0.0", "json=true")
    assert other.json["return"] != first.json["return"]


# -- the policies that ship ------------------------------------------------------------------------------------------


def test_the_shipped_drone_arrives_and_repeats():
    words = [
        "eval.num_drones=16",
        "eval.map_seeds=[401]",
        "eval.picture=false",
        "eval.bootstrap=50",
        "json=true",
        "device=cpu",
    ]
    first, again = run_cli("eval", *words), run_cli("eval", *words)
    assert first.code == 0, first.err
    (one,), (two,) = first.json["maps"], again.json["maps"]
    assert one == two and one["drones"] == 16 and round(one["success"] * 16) >= 14


def test_the_shipped_duellist_wins_and_repeats():
    words = [
        "task=aircombat",
        "red=learned",
        "blue=pursuit",
        "games=16",
        "eval.picture=false",
        "json=true",
        "device=cpu",
    ]
    first, again = run_cli("eval", *words), run_cli("eval", *words)
    assert first.code == 0, first.err
    (one,), (two,) = first.json["pairs"], again.json["pairs"]
    assert one == two and one["games"] == 16 and one["won"] >= 12 and one["won"] + one["draw"] + one["lost"] == 16
