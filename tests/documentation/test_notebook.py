"""The notebook runs from top to bottom, with smaller numbers."""

import json
import sys
import types
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

NOTEBOOK = json.loads((Path(__file__).parents[2] / "examples" / "slipstream.ipynb").read_text())
SMALLER = {
    "SECONDS = 90": "SECONDS = 1",
    '"preset=demo", ': '"preset=demo", "env.num_envs=64", "threads=1", "wandb.mode=disabled", ',
    "eval.num_drones=32": "eval.num_drones=4",
    "games=16": "games=2",
    "64 * 16": "64 * 4",
}


def test_it_runs_and_shows_pictures(tmp_path, monkeypatch):
    shown = []
    display = types.ModuleType("IPython.display")
    display.Image = lambda path, width: shown.append((path, Path(path).read_bytes()[:4]))
    package = types.ModuleType("IPython")
    package.get_ipython, package.version_info = lambda: None, (9, 0)  # matplotlib asks
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    text = "\n".join("".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code")
    for before, after in SMALLER.items():
        assert before in text, before
        text = text.replace(before, after)
    exec(compile(text, "slipstream.ipynb", "exec"), {"__name__": "__main__"})
    plt.close("all")
    assert shown == [("flight.png", b"\x89PNG"), ("duel.png", b"\x89PNG")]
