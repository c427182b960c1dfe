"""A small training for the tests of commands that read one."""

import pytest
from helpers.small_run import TINY

from slipstream.cli import main


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    assert main(["train", *TINY, f"root={folder}", "name=run"]) == 0
    return folder / "run"
