"""What docs/adapters.md shows must run."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text()
BLOCKS = re.findall(r"^## (.+?)\n```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
SMALLER = {
    "100_000": "256",
    "NavigationEnv(64)": "NavigationEnv(8)",
    'device="cpu"': 'device="cpu", n_steps=32, batch_size=64',
}


def test_the_page_has_an_example_for_each_library():
    assert [name for name, _ in BLOCKS] == ["Gymnasium", "PettingZoo", "TorchRL", "Stable-Baselines3"]


@pytest.mark.parametrize(("library", "code"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_the_example_runs(library, code):
    pytest.importorskip({"Stable-Baselines3": "stable_baselines3"}.get(library, library.lower()))
    for long, short in SMALLER.items():
        code = code.replace(long, short)
    exec(compile(code, f"docs/adapters.md, {library}", "exec"), {})
