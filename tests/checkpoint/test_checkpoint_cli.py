import pytest
import torch
from helpers.states import same, training_state

from slipstream import cli
from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint
from slipstream.checkpoint.errors import CorruptCheckpointError


def main(words):
    return cli.main(["ckpt", *words])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    state = training_state(32)
    with AsyncCheckpointSaver(full_every=3, links=True) as saver:
        for i in range(2):
            saver.save_async({**state, "iteration": i}, tmp_path / f"c_{i}.pt", metrics={"return": 1.5}, step=i)
    return tmp_path


def test_info_names_files_and_tensors(folder, capsys):
    assert main(["info", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "difference to c_0.pt.slip" in out and "complete" in out and "return 1.5" in out
    assert main(["info", str(folder / "c_1.pt"), "--tensors"]) == 0
    assert "optimizer.state.0.exp_avg" in capsys.readouterr().out


def test_verify_names_each_broken_file_and_why(folder, capsys):
    assert main(["verify", str(folder)]) == 0
    torch.save({"a": torch.ones(100)}, folder / "plain.pt")
    data = bytearray((folder / "plain.pt").read_bytes())
    data[data.index(torch.ones(100).numpy().tobytes()) + 7] ^= 1
    (folder / "plain.pt").write_bytes(data)
    damaged = bytearray((folder / "c_1.pt.slip").read_bytes())
    damaged[-3] ^= 1
    (folder / "c_1.pt.slip").write_bytes(damaged)
    assert main(["verify", str(folder)]) == 1
    out = " ".join(capsys.readouterr().out.replace("│", " ").split())  # a long path breaks the line anywhere
    assert "header's checksum at the end" in out and "plain.pt" in out and "1 good, 2 broken" in out


def test_an_exported_slip_file_needs_no_other(folder, capsys):
    before = load_checkpoint(folder / "c_1.pt")
    out = folder / "one.pt.slip"
    assert main(["export", str(folder / "c_1.pt"), "--to", "slip", "--out", str(out)]) == 0
    (folder / "c_0.pt.slip").unlink()
    assert same(load_checkpoint(out), before) and main(["info", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "complete" in shown and "return 1.5" in shown
    assert main(["export", str(out), "--to", "slip"]) == 0
    assert same(load_checkpoint(folder / "one.export.pt.slip"), before)


def test_a_missing_file_is_an_error_with_a_message(tmp_path, capsys):
    assert main(["info", str(tmp_path / "no.pt")]) == 2
    assert "no checkpoint at" in capsys.readouterr().err


def test_a_run_folder_means_its_checkpoints_too(tmp_path, capsys):
    with AsyncCheckpointSaver() as saver:
        saver.save_async({"w": torch.ones(3)}, tmp_path / "run" / "best.pt", compress=False)
        for step in (2, 10):
            saver.save_async(
                {"w": torch.full((3,), float(step))},
                tmp_path / "run" / "checkpoints" / f"ckpt_{step:06d}.pt",
                step=step,
            )
    assert main(["verify", str(tmp_path / "run")]) == 0
    assert "3 good, 0 broken" in capsys.readouterr().out
    assert load_checkpoint(tmp_path / "run")["w"][0] == 10


def test_a_file_that_is_no_checkpoint_is_called_so(tmp_path):
    (tmp_path / "readme.md").write_text("# Not a checkpoint")
    with pytest.raises(CorruptCheckpointError, match="is not a checkpoint"):
        load_checkpoint(tmp_path / "readme.md")
