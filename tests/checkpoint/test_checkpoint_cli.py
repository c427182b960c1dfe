import os

import pytest
import torch
from checkpoint_states import same, training_state

from slipstream import cli
from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint
from slipstream.checkpoint.errors import CorruptCheckpointError
from slipstream.storage.files import WriterLock


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


def test_diff_tells_what_changed(folder, capsys):
    assert main(["diff", str(folder / "c_0.pt"), str(folder / "c_0.pt")]) == 0
    assert main(["diff", str(folder / "c_0.pt"), str(folder / "c_1.pt")]) == 1
    out = capsys.readouterr().out
    assert "iteration" in out and "0 -> 1" in out and "1 entries differ" in out


def test_squash_makes_a_difference_stand_alone(folder):
    before = load_checkpoint(folder / "c_1.pt")
    assert main(["squash", str(folder / "c_1.pt")]) == 0
    (folder / "c_0.pt.slip").unlink()
    assert same(load_checkpoint(folder / "c_1.pt"), before)


def test_exported_torch_files_open_with_torch_alone(folder):
    assert main(["export", str(folder / "c_1.pt"), "--to", "pt", "--out", str(folder / "out.pt")]) == 0
    assert same(torch.load(folder / "out.pt", weights_only=True), load_checkpoint(folder / "c_1.pt"))


def test_exported_safetensors_open_with_safetensors(folder, capsys):
    safetensors = pytest.importorskip("safetensors.torch")
    assert main(["export", str(folder / "c_1.pt"), "--to", "safetensors"]) == 0
    assert "optimizer.param_groups.0.lr" in capsys.readouterr().out
    tensors = safetensors.load_file(folder / "c_1.safetensors")
    assert torch.equal(tensors["model.0.weight"], load_checkpoint(folder / "c_1.pt")["model"]["0.weight"])


def test_repair_of_a_folder_puts_broken_files_aside_and_mends_links(folder, capsys):
    (folder / "c_1.pt.slip").write_bytes(b"broken")
    (folder / ".c_9.pt.slip.otherhost-1-0.tmp").write_bytes(b"half")
    assert main(["repair", str(folder)]) == 0
    assert sorted(p.name for p in folder.iterdir()) == ["c_0.pt.slip", "c_1.pt.slip.broken", "latest.pt.slip"]
    assert load_checkpoint(folder)["iteration"] == 0


@pytest.mark.parametrize("given", ["run", "run/checkpoints"])
def test_repair_of_a_run_or_of_its_checkpoints_leaves_the_same(tmp_path, given):
    run = tmp_path / "run"
    with AsyncCheckpointSaver(links=True) as saver:
        for step in (9, 10, 11):
            saver.save_async({"step": step}, run / "checkpoints" / f"ckpt_{step}.pt", step=step)
        saver.save_async({"step": 99}, run / "best.pt", compress=False)  # newer, but no checkpoint of the series
    (run / "checkpoints" / "ckpt_11.pt.slip").write_bytes(b"broken")
    (run / "checkpoints" / ".ckpt_12.pt.slip.otherhost-1-0.tmp").write_bytes(b"half")
    os.utime(run / "checkpoints" / "ckpt_9.pt.slip")  # copied about: the number says which is the newest
    assert main(["repair", str(tmp_path / given)]) == 0
    left = ["ckpt_10.pt.slip", "ckpt_11.pt.slip.broken", "ckpt_9.pt.slip", "latest.pt.slip"]
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == left
    assert sorted(p.name for p in run.iterdir()) == ["best.pt", "checkpoints"]
    assert load_checkpoint(run / "checkpoints" / "latest.pt")["step"] == 10
    assert main(["verify", str(run)]) == 0


@pytest.mark.parametrize(
    ("place", "given"), [(".", "run"), (".", "run/checkpoints"), ("run", "."), ("run/checkpoints", ".")]
)
def test_repair_of_a_run_that_is_being_written_is_refused(tmp_path, place, given, capsys, monkeypatch):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / place)
    half = tmp_path / "run" / "checkpoints" / "ckpt_3.pt.slip"
    half.write_bytes(b"half")
    with WriterLock(tmp_path / "run"):
        assert main(["repair", given]) == 2
        assert "is being written by process" in capsys.readouterr().err and half.exists()
    assert main(["repair", given]) == 0
    assert not half.exists()


def test_repair_of_a_file_saves_what_is_whole(tmp_path):
    noise = {name: torch.randint(0, 256, (1 << 20,), dtype=torch.uint8) for name in "abc"}
    with AsyncCheckpointSaver() as saver:
        path = saver.save_async({**noise, "n": 3}, tmp_path / "c.pt")
    data = bytearray(path.read_bytes())
    data[data.index(noise["b"].numpy().tobytes()) + 5] ^= 1
    path.write_bytes(data)
    assert main(["repair", str(path)]) == 1
    assert same(load_checkpoint(tmp_path / "c.salvaged.pt"), {"a": noise["a"], "c": noise["c"], "n": 3})


def test_a_missing_file_is_an_error_with_a_message(tmp_path, capsys):
    assert main(["info", str(tmp_path / "no.pt")]) == 2
    assert "no checkpoint at" in capsys.readouterr().err


def test_help_lists_the_commands(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("info", "verify", "diff", "squash", "export", "repair"))


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
