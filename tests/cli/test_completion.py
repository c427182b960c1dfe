"""The words that a shell completes."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from slipstream.cli import main


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["rec"], "recording "),
        (["train", "algo.learning_r"], "algo.learning_rate="),
        (["eval", "prese"], "preset="),
        (["view", "algo.learning_r"], ""),  # takes paths
        (["train", "nothing"], ""),
    ],
)
def test_bash_completes_commands_and_keys(capsys, typed, offered):
    assert main(["completion", "bash"]) == 0
    words = " ".join(["slipstream", *typed])
    script = (
        f'{capsys.readouterr().out}COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _slipstream; echo "${{COMPREPLY[*]}}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{offered}\n", "")


def test_the_other_shells_have_the_same_words(capsys):
    assert main(["completion", "zsh"]) == main(["completion", "fish"]) == 0
    shown = capsys.readouterr().out
    assert "bashcompinit" in shown and " algo.learning_rate= " in shown and shown.count("recording") >= 2
