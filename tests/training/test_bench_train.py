import importlib
from pathlib import Path

import pytest

from slipstream.cli.bench import measure_training

TINY = "env.num_obstacles=20 env.dyn.num_obstacles=8 algo.rollout_steps=4 algo.minibatches=2 algo.epochs=1 device=cpu"


@pytest.mark.parametrize("form", ["plain", "torchrl"])
def test_a_form_is_measured(tmp_path, capsys, monkeypatch, form):
    peers = {}
    if form == "torchrl":
        pytest.importorskip("torchrl")
        monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        peers["torchrl"] = importlib.import_module("train_torchrl").TorchRLTraining
    monkeypatch.setattr("slipstream.cli.bench.MEASURED_S", 0.01)
    sizes = [4, 8] if form == "plain" else [4]
    words = [f"sizes={','.join(map(str, sizes))}", f"forms={form}", f"out={tmp_path / 'train.md'}"]
    assert measure_training([*words, *TINY.split()], peers) == 0
    table = (tmp_path / "train.md").read_text()
    assert table.count(f"| {form} |") == len(sizes) and "4 steps, 1 x 2 minibatches" in table
    assert "end to end" in capsys.readouterr().out
