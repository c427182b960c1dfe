"""`=auto`: the knee, the memory's end, and what is logged."""

from __future__ import annotations

import pytest

from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.monitor.advisor import Sample
from slipstream.training.tuning import choose_sizes, grow

SMALL = ["env.num_obstacles=0", "env.dyn.num_obstacles=0", "algo.rollout_steps=8", "algo.minibatches=4", "device=cpu"]


def machine(fixed, mb_each=1.0, fits=10**9):
    """Iterations take `fixed` + size; memory grows in proportion."""

    def measure(size):
        if size > fits:
            raise MemoryError
        return size / (fixed + size), mb_each * size

    return measure


def doublings(start, end):
    size = start
    while size <= end:
        yield size
        size *= 2


def test_it_stops_at_the_knee():
    size, why, rates = grow(doublings(64, 10**6), machine(fixed=1000), room_mb=1e9)
    # rates 0.06 0.11 0.20 0.34 0.51 0.67 0.80 0.89: 8192 brings 1.11 x 4096, 16384 only 1.06 x 8192
    assert size == 16384 and "16,384 brings only 1.06 × the frames/s" in why
    assert list(rates)[-2:] == [8192, 16384]


def test_a_size_that_brings_nothing_is_not_taken():
    size, why, rates = grow(doublings(64, 10**6), machine(fixed=0), room_mb=1e9)
    assert size == 64


def test_it_stops_before_memory_ends():
    size, why, rates = grow(doublings(64, 10**6), machine(fixed=10**6, mb_each=1.0), room_mb=600)
    assert size == 512 and "1,024 would take 1.0 GB of 0.6 GB" in why


def test_a_size_that_does_not_fit_ends_the_search():
    size, why, rates = grow(doublings(64, 10**6), machine(fixed=10**6, fits=300), room_mb=1e9)
    assert size == 256 and "512 did not fit" in why
    with pytest.raises(MemoryError):
        grow([64], machine(fixed=1, fits=1), room_mb=1e9)


class Trial:
    opened: list = []

    def __init__(self, config):
        self.config = config
        Trial.opened.append((config.env.num_envs, config.algo.minibatches))

    def run(self, seconds):
        envs, cuts = self.config.env.num_envs, self.config.algo.minibatches
        return Sample(1e6 * envs / (500 + envs + 20 * cuts), 1.0)

    def close(self):
        pass


def test_auto_becomes_numbers_and_each_is_logged_in_one_line():
    Trial.opened = []
    lines: list[str] = []
    config = load_train([*SMALL, "env.num_envs=auto", "algo.minibatches=auto"])
    assert config.auto == ["env.num_envs", "algo.minibatches"]
    found = choose_sizes(config, lines.append, Trial)
    # minibatches: 64 makes 697k frames/s, 32 782k (1.12 x), 16 833k (1.07 x: below the knee, but more)
    assert found.auto == [] and found.env.num_envs == 4096 and found.algo.minibatches == 16
    assert [line.partition(" ")[0] for line in lines] == ["env.num_envs=4096", "algo.minibatches=16"]
    assert all(envs * 8 % cuts == 0 for envs, cuts in Trial.opened)


def test_sizes_are_measured_at_the_length_of_the_users_run():
    lengths = set()

    class Long(Trial):
        def __init__(self, config):
            super().__init__(config)
            lengths.add((config.total_frames, config.max_time_s))

    choose_sizes(
        load_train([*SMALL, "env.num_envs=auto", "total_frames=400_000_000", "max_time_s=300"]), lambda text: None, Long
    )
    assert lengths == {(400_000_000, 300.0)}  # compile=auto goes by it


def test_sizes_hold_all_maps_and_divide_into_minibatches():
    Trial.opened = []
    words = [
        "env.num_obstacles=0",
        "env.dyn.num_obstacles=0",
        "algo.rollout_steps=5",
        "algo.minibatches=12",
        "env.num_worlds=100",
    ]
    choose_sizes(load_train([*words, "device=cpu", "env.num_envs=auto"]), lambda text: None, Trial)
    assert Trial.opened[0] == (192, 12)


def test_the_last_word_counts():
    assert load_train([*SMALL, "env.num_envs=auto", "env.num_envs=16"]).auto == []
    assert load_train([*SMALL, "env.num_envs=16", "num_envs=auto"]).auto == ["env.num_envs"]


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(ConfigError, match="only env.num_envs"):
        choose_sizes(load_train([*SMALL, "auto=[algo.gamma]"]))
    with pytest.raises(ConfigError, match="no minibatches"):
        choose_sizes(load_train(["algo=dqn", "device=cpu", "auto=[algo.minibatches]"]))


def test_a_training_chooses_its_size_and_writes_it_down(tmp_path, monkeypatch, capsys):
    from slipstream import train
    from slipstream.training import tuning

    monkeypatch.setitem(tuning.LARGEST, "cpu", 8)
    monkeypatch.setitem(tuning.SMALLEST, "cpu", 4)
    monkeypatch.setattr(tuning, "MEASURE_S", 0.01)
    words = [
        *SMALL,
        "env.num_envs=auto",
        "total_frames=64",
        "eval_interval=0",
        "quiet=true",
        "wandb.mode=disabled",
        f"root={tmp_path}",
    ]
    folder = train.run(load_train([*words, "model.encoder=dict", "model.part=8", "model.trunk=[8]", "threads=1"]))
    assert folder.config()["auto"] == [] and folder.config()["env"]["num_envs"] in (4, 8)
    assert "env.num_envs=" in capsys.readouterr().out
