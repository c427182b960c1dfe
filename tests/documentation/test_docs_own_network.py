"""docs/your-own-network.md, as a reader follows it: its file written, its commands run, with fewer frames."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from slipstream.checkpoint import load_checkpoint
from slipstream.cli import main
from slipstream.models import ModelConfig, build_policy

PAGE = (Path(__file__).parents[2] / "docs" / "your-own-network.md").read_text(encoding="utf-8")
SMALL = {
    "train": "env.num_envs=4 total_frames=512 save_interval=1 device=cpu threads=1 quiet=true wandb.mode=disabled",
    "eval": "eval.num_drones=2 device=cpu",
    "export": "",
}


def test_the_page_from_training_to_export(tmp_path, monkeypatch, capsys):
    pytest.importorskip("gymnasium")
    pytest.importorskip("onnxscript")
    (code, mirror), (commands,) = (re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL) for kind in ("python", "bash"))
    exec(mirror, specs := {})
    assert build_policy(specs["observation_spec"], specs["action_spec"], ModelConfig(trunk=[8], mirror=True)).keys
    (tmp_path / "my_network.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    lines = [shlex.split(line)[1:] for line in commands.splitlines()]
    assert [line[0] for line in lines] == ["train", "train", "eval", "export", "train"]
    for line in lines:
        if "resume=runs/own" in line:
            line = [re.sub("total_frames=.*", "total_frames=640", word) for word in line]
        else:
            line += SMALL[line[0]].split()
        assert main(line) == 0, capsys.readouterr().err
    sys.modules.pop("my_network", None)
    assert (tmp_path / "policy.onnx").exists()
    assert "critic_encoder.layers.0.weight" in load_checkpoint("runs/own")["algo"]["policy"]
