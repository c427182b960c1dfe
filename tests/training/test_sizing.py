"""`=auto`: the knee, the memory's end, and what is logged."""

from __future__ import annotations

import pytest

from slipstream import train
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.training import tuning
from slipstream.training.tuning import choose_sizes

SMALL = ["env.num_obstacles=0", "env.dyn.num_obstacles=0", "algo.rollout_steps=8", "algo.minibatches=4", "device=cpu"]


class Trial:
    """A training whose iterations take 500 + the environments + 20 per minibatch."""

    opened: list = []
    free = 1e9

    def __init__(self, config):
        self.config, self.memory_mb = config, config.env.num_envs
        Trial.opened.append((config.env.num_envs, config.algo.minibatches, config.total_frames, config.max_time_s))

    def setting(self, key):
        return self.config.env.num_envs if key == "env.num_envs" else self.config.algo.minibatches

    def free_mb(self):
        return self.free

    def run(self, seconds):
        envs, cuts = self.config.env.num_envs, self.config.algo.minibatches
        return 1e6 * envs / (500 + envs + 20 * cuts)

    def close(self):
        pass


@pytest.fixture(autouse=True)
def opened(monkeypatch):
    monkeypatch.setattr(Trial, "opened", [])
    return Trial.opened


def test_auto_becomes_numbers_and_each_is_logged_in_one_line():
    lines: list[str] = []
    config = load_train([*SMALL, "env.num_envs=auto", "algo.minibatches=auto"])
    assert sorted(config.auto) == ["algo.minibatches", "env.num_envs"]
    found = choose_sizes(config, lines.append, Trial)
    # 4,096 brings 1.13 x 2,048 and is the largest; 32 minibatches bring 1.12 x 64, 16 only 1.07 x 32
    assert found.auto == [] and found.env.num_envs == 4096 and found.algo.minibatches == 32
    assert lines[0].startswith("env.num_envs=4096: the largest size allowed (from 64 on, 128: 1.8")
    assert lines[1].startswith("algo.minibatches=32: 16 brings only 1.07 × the frames/s")
    assert all(envs * 8 % cuts == 0 for envs, cuts, *_ in Trial.opened)


def test_it_stops_before_memory_ends(monkeypatch, opened):
    lines: list[str] = []
    monkeypatch.setattr(Trial, "free", 600)
    assert choose_sizes(load_train([*SMALL, "env.num_envs=auto"]), lines.append, Trial).env.num_envs == 256
    assert max(opened)[0] == 256 and "env.num_envs=256: twice as much would not fit into 0.6 GB" in lines[0]


def test_sizes_are_measured_at_the_length_of_the_users_run(opened):
    words = [*SMALL, "env.num_envs=auto", "total_frames=400_000_000", "max_time_s=300"]
    choose_sizes(load_train(words), lambda text: None, Trial)
    assert {tuple(length) for _, _, *length in opened} == {(400_000_000, 300.0)}  # compile=auto goes by it


def test_sizes_hold_all_maps_and_divide_into_minibatches(opened):
    own = ["algo.rollout_steps=5", "algo.minibatches=12", "env.num_worlds=100", "env.num_envs=auto"]
    choose_sizes(load_train([*SMALL, *own]), lambda text: None, Trial)
    assert opened[0][:2] == (192, 12)


def test_the_last_word_counts():
    assert load_train([*SMALL, "env.num_envs=auto", "env.num_envs=16"]).auto == []
    assert load_train([*SMALL, "env.num_envs=16", "num_envs=auto"]).auto == ["env.num_envs"]


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(ConfigError, match="only env.num_envs"):
        choose_sizes(load_train([*SMALL, "auto=[algo.gamma]"]))
    with pytest.raises(ConfigError, match="no minibatches"):
        choose_sizes(load_train(["algo=dqn", "device=cpu", "auto=[algo.minibatches]"]))


def test_a_training_chooses_its_size_and_writes_it_down(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(tuning.LARGEST, "cpu", 8)
    monkeypatch.setitem(tuning.SMALLEST, "cpu", 4)
    monkeypatch.setattr(tuning, "RUN_S", 0.01)
    words = [*SMALL, "env.num_envs=auto", "total_frames=64", "eval_interval=0", "quiet=true", f"root={tmp_path}"]
    words += ["wandb.mode=disabled", "model.encoder=dict", "model.part=8", "model.trunk=[8]", "threads=1"]
    folder = train.run(load_train(words))
    assert folder.config()["auto"] == [] and folder.config()["env"]["num_envs"] in (4, 8)
    assert "env.num_envs=" in capsys.readouterr().out
