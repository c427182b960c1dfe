"""slipstream rollouts record: a policy is flown, and its batches are saved."""

from __future__ import annotations

import shlex

import pytest
import torch
from toy_env import Cart

from slipstream import RolloutStorage, train
from slipstream.algorithms.policy_file import load_policy
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.models.exploration import ExplorationType, set_exploration_type

WORDS = shlex.split("""
    task=toy_env:Cart env.num_envs=4 env.max_steps=6 algo.rollout_steps=4 algo.minibatches=2 model.part=8
    model.trunk=[8] total_frames=16 eval_interval=0 device=cpu quiet=true wandb.mode=disabled
""")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train.run(load_train([*WORDS, f"root={tmp_path_factory.mktemp('runs')}", "name=run"]))


def record(*words):
    return main(["rollouts", "record", "device=cpu", *map(str, words)])


def test_the_policy_is_flown_and_its_batches_are_saved(run, tmp_path, capsys):
    assert (
        record(f"checkpoint={run.path}", "task=toy_env:Cart", "frames=100", "envs=5", "steps=8", f"out={tmp_path}") == 0
    )
    assert "3 batches" in (said := capsys.readouterr().out) and "episodes ended: return" in said
    storage = RolloutStorage(tmp_path)
    assert storage.iterations() == [0, 1, 2] and storage.file(0).note["actions"] == "mean"
    batch = storage.load(1)
    assert batch.batch_size == (5, 8) and (batch["truncated"] | batch["terminated"]).any()
    last, first = storage.load(0)["next", "observation", "cart"][:, -1], batch["observation", "cart"][:, 0]
    assert torch.equal(last, first)  # one flight
    env = Cart(1)
    policy = load_policy(run.path).build(env, "cpu")
    with set_exploration_type(ExplorationType.MEAN), torch.no_grad():
        again = policy({name: batch["observation", name][:, 3] for name in ("cart", "place")})["action"]
    assert torch.allclose(again, batch["action"][:, 3], atol=1e-6)


def test_the_default_folder_is_beside_the_policy_and_is_not_written_twice(run, capsys):
    words = f"checkpoint={run.path}", "task=toy_env:Cart", "frames=8", "envs=2", "steps=2", "env.max_steps=3"
    assert record(*words, "actions=sampled") == 0
    assert RolloutStorage(run.path / "recorded").iterations() == [0, 1]
    assert record(*words) == 2
    assert "has rollout files already: name another folder with out=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["frames=-1"], "frames=-1 must be a whole number from 1 on"),
        (["envs=none"], "envs=none must be a whole number from 1 on"),
        (["actions=best"], "actions=best must be one of mean, sampled"),
        (["checkpoint=nowhere"], "nowhere"),
        (["env.nothing=1"], "unknown key 'env.nothing'"),
    ],
)
def test_wrong_words_are_refused_in_one_sentence(words, message, capsys):
    assert record(*words) == 2
    said = capsys.readouterr().err.strip()
    assert message in said and len(said.splitlines()) == 1
