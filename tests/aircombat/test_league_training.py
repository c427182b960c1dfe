"""Tiny runs with a league: stages, pool, ratings, resume; and the evaluation of what they leave."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys

import numpy as np
import pytest
import torch

from slipstream import train
from slipstream.checkpoint import load_checkpoint
from slipstream.cli import main
from slipstream.config.compose import load_train
from slipstream.config.registry import find_task
from slipstream.recordings import load_recording
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.league.evaluation import short_name
from slipstream.training import evaluate
from slipstream.training.metrics_log import read_metrics

TINY = shlex.split("""
    task=aircombat reward=shaped num_envs=8 env.time_scale=60 env.backend=native algo.rollout_steps=8 algo.minibatches=2
    algo.epochs=1 algo.schedule=constant model.trunk=[8] model.part=0
    league.enabled=true league.seats=4 league.pool=4 league.games=2 league.patience=1 league.snapshot_every=1
    total_frames=512 save_interval=3 eval_interval=1 device=cpu quiet=true wandb.mode=disabled threads=1
""")


def run_tiny(root, name, *words):
    return train.run(load_train([*TINY, f"root={root}", f"name={name}", *words]))


@pytest.fixture(scope="module")
def league(tmp_path_factory):
    return run_tiny(tmp_path_factory.mktemp("league"), "league")


def test_the_run_passes_all_stages_and_logs_them(league):
    rows = read_metrics(league.path)
    assert [row["league/stage"] for row in rows] == [1, 2, 3, 4, 4, 4, 4, 4]
    last = rows[-1]
    for name in ("placeholder", "pursuit", "crank", "evade", "stage1", "stage2", "stage3", "pool"):
        shares = [last[f"league/{name}/{what}"] for what in ("won", "draw", "lost")]
        assert sum(shares) == pytest.approx(1.0) and min(shares) >= 0
    assert last["league/elo_low"] < last["league/elo"] < last["league/elo_high"] and last["league/pursuit/elo"] == 1000
    assert last["eval/score"] == pytest.approx(last["eval/success"] - last["eval/lost"])


def test_the_pool_keeps_the_stages_champions_and_lets_others_go(league):
    state = load_checkpoint(league.checkpoints)["controller"]
    names = state["members"]
    assert {"stage1", "stage2", "stage3"} < set(names) and len(names) == 4
    assert names[3].startswith("self") and int(names[3][4:]) > 4  # a later one took the place of the first
    assert state["stage"] == 3 and any(seat.startswith("#") for seat in state["seats"])
    assert all(
        {row["red"], row["blue"]} <= {*names, "placeholder", "pursuit", "crank", "evade"} for row in state["results"]
    )


def test_each_stages_champion_flies_by_its_path(league):
    pool = load_checkpoint(league.checkpoints)["controller"]
    for stage in (1, 2, 3):
        champion = load_checkpoint(league.path / f"stage{stage}-champion.pt")["policy"]
        place = pool["members"].index(f"stage{stage}")
        assert all(torch.equal(x[place], champion[name]) for name, x in pool["pool"].items())
    assert not (league.path / "stage4-champion.pt").exists() and not (league.path / "latest.pt").exists()
    result = evaluated(league.path, f"blue={league.path}/stage1-champion.pt", "eval.picture=false")
    assert result["pairs"][0]["games"] == 2


def test_a_resumed_run_equals_the_uninterrupted_one(league, tmp_path):
    part = run_tiny(tmp_path, "part", "total_frames=320")
    resumed = train.run(load_train([f"resume={part.path}", "total_frames=512"]))
    one, two = (load_checkpoint(folder.checkpoints) for folder in (league, resumed))
    for name, x in one["algo"]["policy"].items():
        assert torch.equal(x, two["algo"]["policy"][name]), name
    for name, x in one["controller"]["pool"].items():
        assert torch.equal(x, two["controller"]["pool"][name]), name
    for key in ("members", "seats", "results", "stage", "stage_evaluations", "evaluations"):
        assert one["controller"][key] == two["controller"][key], key
    clocked = lambda key: key in ("time_s", "fps") or key.startswith("perf/")  # noqa: E731
    rows = [
        [{k: v for k, v in row.items() if not clocked(k)} for row in read_metrics(folder.path)]
        for folder in (league, resumed)
    ]
    assert rows[0] == rows[1]


def test_exploiters_have_seats_and_judges_may_be_held_out(league, tmp_path):
    words = [f"league.mixes=[{{crank: 0.5, '{league.path}/best.pt': 0.5}}]", "league.promote=[]", "league.pfsp=true"]
    words += ["league.judges=[scripted,straight]", "env.episode_s=[10,40]"]
    run = run_tiny(tmp_path, "holes", *words)
    last = read_metrics(run.path)[-1]
    assert f"league/{league.path}/best.pt/won" in last and "league/scripted/won" in last
    judged = [last[f"league/{name}/won"] - last[f"league/{name}/lost"] for name in ("scripted", "straight")]
    assert last["eval/score"] == pytest.approx(sum(judged) / 2)
    part = run_tiny(tmp_path, "part", *words, "total_frames=320")
    resumed = train.run(load_train([f"resume={part.path}", "total_frames=512"]))
    one, two = (load_checkpoint(folder.checkpoints)["algo"]["policy"] for folder in (run, resumed))
    assert all(torch.equal(x, two[name]) for name, x in one.items())


def test_a_sampled_opponent_draws_its_actions(league):
    env, same, drawn = (
        AirCombatEnv(32, seed=1, config=AirCombatConfig(opponent=str(league.path), sampled=sampled, time_scale=60.0))
        for sampled in (False, False, True)
    )
    rudders = []
    for each in (env, same, drawn):
        each.step(torch.zeros(32, 3))
        rudders.append(each.engine.duels.rudder[:, 1].clone())
    assert torch.equal(rudders[0], rudders[1]) and len(rudders[0].unique()) == 1  # head-on: all alike
    assert len(rudders[2].unique()) == 32


GAMES = "task=aircombat threads=1 device=cpu games=2 red="


def evaluated(red, *words):
    return evaluate.run(*evaluate.configure([*f"{GAMES}{red}".split(), *words]))


# -- evaluation --------------------------------------------------------------------------------------------------------


def test_eval_prints_a_matrix(league, capsys):
    words = ["blue=pursuit,evade", "games=8", "json=true", "threads=1", "device=cpu", "eval.picture=false"]
    assert main(["eval", "task=aircombat", f"red={league.path},crank", *words]) == 0
    text = capsys.readouterr().out
    result = json.loads(text.splitlines()[-1])
    assert [(p["red"], p["blue"]) for p in result["pairs"]] == [
        (r, b) for r in (str(league.path), "crank") for b in ("pursuit", "evade")
    ]
    for pair in result["pairs"]:
        assert pair["won"] + pair["draw"] + pair["lost"] == pair["games"] == 8
        assert pair["won_low"] <= pair["won_share"] <= pair["won_high"]
        assert list(pair["parts"]) == ["side 1", "side 2", "15–30 km", "30–45 km", "45–60 km"]
        sides, bands = (np.sum(list(pair["parts"].values())[at], 0).tolist() for at in (slice(2), slice(2, 5)))
        assert sides == bands == [pair["won"], pair["draw"], pair["lost"]]
    assert [p["lost"] for p in result["pairs"] if p["blue"] == "evade"] == [0, 0]  # which never fires
    assert result["ratings"]["pursuit"]["elo"] == 1000 and result["ratings"]["evade"]["elo"] is None  # never decided
    assert "pursuit being 1000" in text and "won − lost" in text and "decided" in text
    assert result["time_scale"] == 60  # as in red's training


def test_eval_prints_the_files_of_those_who_play_only(league, capsys):
    small = [*f"{GAMES}crank eval.picture=false env.episode_s=2".split()]
    assert main(["eval", f"checkpoint={league.path}", *small, f"blue={league.path}/stage1-champion.pt"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "sha256" in line]
    assert len(lines) == 1 and lines[0].startswith(f"policy: {league.path}/stage1-champion.pt, sha256 ")
    assert main(["eval", "blue=pursuit", *small]) == 0
    assert "sha256" not in capsys.readouterr().out


def test_eval_draws_a_game(league, capsys):
    result = evaluated(league.path, "blue=pursuit", "env.episode_s=4")
    assert result["picture"] == str(league.path / "duel.png") and result["page"] == str(league.path / "duel.html")
    assert (league.path / "duel.png").read_bytes()[:4] == b"\x89PNG"
    assert (league.path / "duel.html").read_bytes().startswith(b"<!doctype html>")
    assert (league.path / "duel.acmi").read_text("utf-8-sig").startswith("FileType=text/acmi/tacview\n")
    recording = load_recording(league.path / "duel.rec")
    assert recording.scene == "duel" and sorted(recording.meta["names"]) == ["league", "pursuit"]
    blue = recording.meta["names"].index("pursuit")  # the opponent's own view: red= is drawn red
    assert recording.meta["shown_side"] == blue + 1 and recording.groups[0]["color"].split(",")[blue] == "Blue"
    assert recording.seconds <= 4 and "animation" not in result
    assert "league against pursuit: " in capsys.readouterr().out


def test_eval_writes_an_animation_if_it_is_named(league, tmp_path):
    result = evaluated(league.path, "blue=pursuit", "env.episode_s=2", f"out={tmp_path / 'game.gif'}")
    assert result["animation"] == str(tmp_path / "game.gif") and (tmp_path / "game.gif").read_bytes()[:3] == b"GIF"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["game.acmi", "game.gif", "game.html", "game.png", "game.rec"]


def test_identical_games_are_counted_once(capsys):
    small = ["games=20", "env.start=head_on", "eval.picture=false"]
    result = evaluated("crank", "blue=placeholder", *small)
    assert [result["pairs"][0][key] for key in ("games", "won", "won_low")] == [2, 2, pytest.approx(0.342, abs=1e-3)]
    text = capsys.readouterr().out
    assert "the same game again does not count" in text and re.search(r"crank +│ placeholder +│ +2 ", text), text
    result = evaluated("crank,placeholder", "blue=placeholder,crank", *small)
    rating = result["ratings"]["crank"]  # a pair and its mirror are the same games
    assert (rating["won"], rating["draw"], rating["lost"]) == (2, 0, 0) and len(result["pairs"]) == 3


REFUSED = {
    "blue=ace": "unknown agent 'ace'",
    "games=7": "games=7 must be even",
    "compare=x.pt": "compare=x.pt is not supported; name several agents",
    "out=game.bmp": "the name must end in .png, .html, .gif or .mp4",
    "num_envs=3": "sets env.num_envs itself: use games",
}


@pytest.mark.parametrize("word", REFUSED)
def test_eval_refuses_what_cannot_be_before_a_game_is_flown(league, word, monkeypatch):
    monkeypatch.setattr("slipstream.tasks.aircombat.league.evaluation.Match", None)
    with pytest.raises((ValueError, OSError), match=REFUSED[word]):
        evaluated(league.path, word)


SHORT = {
    "crank": "crank",
    "my_module:MyAgent": "my_module:MyAgent",
    "runs/ac60/": "ac60",
    "/far/away/runs/ac60/best.pt": "ac60/best",
    "runs/ac60/checkpoints/ckpt_000100.pt.slip": "ac60/ckpt_000100",
    "policy.pt": "policy",
    str(find_task("aircombat").weights): "learned",
}


@pytest.mark.parametrize("name", SHORT)
def test_paths_are_shown_short(name):
    assert short_name(name) == SHORT[name]


def test_a_run_with_a_reward_that_is_gone_can_be_judged(tmp_path, monkeypatch):
    module = "from slipstream import BaseReward\n\nclass Mine(BaseReward):\n    def compute(self, a, b, action, done, info):\n"
    module += "        return info['success']\n"
    (tmp_path / "passing_reward.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    run = run_tiny(tmp_path, "own", "reward=passing_reward:Mine", "total_frames=64")
    (tmp_path / "passing_reward.py").unlink()
    monkeypatch.delitem(sys.modules, "passing_reward")
    importlib.invalidate_caches()
    cfg, _ = evaluate.configure(["task=aircombat", f"red={run.path}", "games=2"])
    assert cfg.env.reward == "zero"
