"""The commands of docs/tutorials/floor-plan.md, one after the other, at small size."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from slipstream.cli import main
from slipstream.recordings import load_recording

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "floor-plan.md"
ALWAYS = ["device=cpu", "threads=1", "env.max_episode_steps=160"]
SMALL = {
    "train": [*ALWAYS, "env.num_envs=8", "total_frames=512", "max_time_s=0", "algo.rollout_steps=16", "quiet=true"]
    + ["algo.minibatches=2", "algo.epochs=1", "eval_interval=0", "wandb.mode=disabled", "env.num_worlds=2"],
    "eval": [*ALWAYS[:2], "eval.num_drones=2", "eval.max_steps=80"],
    "map": [],
}


def test_every_step_of_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ran = []
    for kind, block in re.findall(r"```(python)?\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        if kind:
            exec(compile(block, str(PAGE), "exec"), {})
            continue
        for line in block.strip().splitlines():
            command, *words = shlex.split(line)[1:]
            assert main([command, *words, *SMALL[command]]) == 0, f"{line}: {capsys.readouterr().err}"
            ran.append(command)
    assert ran == ["map", "train", "train", "train", "eval", "eval"]
    assert (tmp_path / "map.png").is_file() and (tmp_path / "runs/building/flight.html").is_file()
    recording = load_recording(tmp_path / "runs/building/flight.rec")
    assert recording.meta["map_half_m"] == 6.0 and len(recording.arrays["box"]) > 3
