"""Contracts of RunLog: rows, nulls, torn lines, resuming, and the optional loggers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from slipstream.config.compose import load_train, to_dict
from slipstream.config.help import ConfigError
from slipstream.storage.errors import DamagedFileError
from slipstream.training import metrics_log
from slipstream.training.metrics_log import RunLog, read_metrics
from slipstream.training.run_folder import RunFolder


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return RunFolder.create(tmp_path, "run", {"task": "navigation"})


@pytest.fixture
def no_tensorboard(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # makes its import fail, and the tests quick


def clock_of(*seconds: float):
    times = iter(seconds)
    return lambda: next(times)


@pytest.mark.usefixtures("no_tensorboard")
class TestJsonLines:
    def test_a_row_holds_iteration_frames_time_and_metrics(self, run):
        with RunLog(run, clock=clock_of(10.0, 12.5)) as log:
            log.write(1, 32, {"loss/policy": 0.25, "episode/success": 1})
        expected = {"iteration": 1, "frames": 32, "time_s": 2.5, "loss/policy": 0.25, "episode/success": 1.0}
        assert read_metrics(run.metrics_path) == [expected]
        assert read_metrics(run.path) == [expected]

    def test_values_that_json_cannot_hold_become_null(self, run):
        with RunLog(run) as log:
            log.write(1, 32, {"a": float("nan"), "b": float("inf"), "c": -float("inf")})
        row = json.loads(run.metrics_path.read_text(), parse_constant=pytest.fail)
        assert (row["a"], row["b"], row["c"]) == (None, None, None)

    def test_a_torn_last_line_is_left_out(self, run):
        run.metrics_path.write_bytes(b'{"iteration": 0, "frames": 1}\n{"iteration": 1, "fra')
        assert read_metrics(run.path) == [{"iteration": 0, "frames": 1}]

    def test_a_resumed_log_equals_an_uninterrupted_one(self, run, tmp_path):
        whole = RunFolder.create(tmp_path, "whole", {})
        with RunLog(whole, clock=clock_of(0, 1, 2, 3, 4)) as log:
            for i in range(4):
                log.write(i + 1, 32 * (i + 1), {"kl": i / 10})
        with RunLog(
            run, clock=clock_of(0, 1, 2, 3)
        ) as log:  # dies in the fourth iteration, its last checkpoint is that of two iterations
            for i in range(3):
                log.write(i + 1, 32 * (i + 1), {"kl": i / 10})
        with open(run.metrics_path, "ab") as file:
            file.write(b'{"iteration": 4, "fra')
        with RunLog(run, done=2, clock=clock_of(100, 101, 102)) as log:
            for i in range(2, 4):
                log.write(i + 1, 32 * (i + 1), {"kl": i / 10})
        assert run.metrics_path.read_bytes() == whole.metrics_path.read_bytes()

    def test_a_missing_tensorboard_is_named_once(self, run, capsys):
        with RunLog(run) as log:
            log.write(1, 32, {"kl": 1.0})
            log.write(2, 64, {"kl": 2.0})
        assert capsys.readouterr().err.count("TensorBoard is not installed") == 1
        assert len(read_metrics(run.path)) == 2


class FakeWandb:
    """Takes the place of the wandb package."""

    def __init__(self) -> None:
        self.inits: list[dict] = []
        self.logged: list[tuple[int, dict]] = []
        self.finished = 0

    def init(self, **settings):
        self.inits.append(settings)
        return SimpleNamespace(log=self.log, finish=self.finish)

    def log(self, values, step=None) -> None:
        self.logged.append((step, values))

    def Video(self, path, caption, format):  # noqa: N802 (W&B's name)
        return Path(path).read_bytes(), caption, format

    def finish(self) -> None:
        self.finished += 1


@pytest.fixture
def fake(monkeypatch) -> FakeWandb:
    monkeypatch.setitem(sys.modules, "wandb", package := FakeWandb())
    return package


@pytest.mark.usefixtures("no_tensorboard")
class TestWandb:
    def test_a_missing_package_is_a_warning(self, run, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, "wandb", None)
        with RunLog(run, {"mode": "online"}) as log:
            log.write(1, 32, {"kl": 0.5})
        warning = capsys.readouterr().err
        assert "warning: wandb.mode=online" in warning and "pip install -e '.[wandb]'" in warning
        assert len(read_metrics(run.path)) == 1

    @pytest.mark.parametrize("broken", ["init", "log", "finish"])
    def test_a_failing_package_is_a_warning(self, run, fake, monkeypatch, capsys, broken):
        def fail(*args, **settings):
            raise RuntimeError("no API key configured")

        monkeypatch.setattr(fake, broken, fail)
        with RunLog(run, {"mode": "online"}) as log:
            log.write(1, 32, {"kl": 0.5})
            log.write(2, 64, {"kl": 0.5})
        assert capsys.readouterr().err.count("no API key configured") == 1 and len(read_metrics(run.path)) == 2

    def test_it_runs_no_git_and_uploads_no_difference_unless_asked(self, run, fake, monkeypatch):
        monkeypatch.delenv("WANDB_DISABLE_GIT", raising=False)
        monkeypatch.setenv("WANDB_DISABLE_CODE", "false")
        RunLog(run, {"mode": "offline"}).close()
        assert (os.environ["WANDB_DISABLE_GIT"], os.environ["WANDB_DISABLE_CODE"]) == ("true", "false")

    def test_it_gets_as_few_rows_as_tensorboard(self, run, fake, monkeypatch):
        monkeypatch.setattr(metrics_log, "KEEP_ROWS", 16)
        with RunLog(run, {"mode": "offline"}) as log:
            for i in range(1, 65):
                log.write(i, 32 * i, {"kl": 0.5} | ({"eval/success": 0.9} if i == 63 else {}))
        logged = [step for step, _ in fake.logged]
        assert logged == [*range(1, 16), *range(16, 32, 2), *range(32, 63, 4), 63, 64]

    def test_rows_go_there_and_a_resumed_run_keeps_its_id(self, run, fake):
        with RunLog(run, {"mode": "offline", "project": "drones", "entity": None}) as log:
            log.write(1, 32, {"kl": 0.5, "bad": float("nan")})
        RunLog(run, {"mode": "offline"}, done=1).close()
        RunLog(run, {"mode": "online", "run_id": "2026-abc"}, done=1).close()
        first, second, third = fake.inits
        settings = {"mode": "offline", "project": "drones", "name": "run", "config": {"task": "navigation"}}
        assert settings.items() <= first.items() and "entity" not in first
        assert first["id"] == second["id"] and (third["id"], third["resume"]) == ("2026-abc", "allow")
        assert fake.logged == [(1, {"frames": 32, "kl": 0.5})] and fake.finished == 3


def test_tensorboard_files_appear_with_the_first_row(run):
    pytest.importorskip("torch.utils.tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with RunLog(run) as log:
        assert not (run.path / "tensorboard").exists()
        log.write(1, 32, {"kl": 0.5, "bad": float("nan")})
        log.write(2, 64, {"kl": 0.25})
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    assert events.Tags()["scalars"] == ["kl"]
    assert [(event.step, event.value) for event in events.Scalars("kl")] == [(32, 0.5), (64, 0.25)]


def test_the_id_of_a_wandb_run_is_typed_for_one_run(tmp_path):
    cfg = load_train(["task=gym", "env.id=CartPole-v1", "wandb.run_id=12e5"])
    assert cfg.wandb.run_id == "12e5"
    folder = RunFolder.create(tmp_path, "a", to_dict(cfg)).path
    assert load_train([f"config={folder}"]).wandb.run_id is None
    with pytest.raises(ConfigError, match="without spaces"):
        load_train(["task=gym", "env.id=CartPole-v1", "wandb.run_id=a/b"])


def test_a_film_goes_to_tensorboard_and_wandb(run, fake, tmp_path):
    pytest.importorskip("torch.utils.tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    film = tmp_path / "film.gif"
    frames = [Image.new("RGB", (48, 32), (60 * k, 0, 0)) for k in range(3)]
    frames[0].save(film, save_all=True, append_images=frames[1:])
    data = film.read_bytes()
    with RunLog(run, {"mode": "offline"}) as log:
        log.add_film(film, 7, 224)
        film.unlink()
    assert fake.logged == [(None, {"frames": 224, "flight": (data, "iteration 7", "gif")})]
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    (image,) = events.Images("flight")
    assert (image.step, image.width, image.height, image.encoded_image_string) == (224, 48, 32, data)


@pytest.mark.usefixtures("no_tensorboard")
class TestBounds:
    def test_a_long_log_keeps_new_rows_and_evaluations(self, run, monkeypatch):
        monkeypatch.setattr(metrics_log, "KEEP_ROWS", 16)
        monkeypatch.setattr(metrics_log, "MAX_BYTES", 4000)
        with RunLog(run, clock=lambda: 0.0) as log:
            for i in range(1, 2001):
                log.write(i, 32 * i, {"kl": 0.5} | ({"eval/success": 0.9} if i % 400 == 0 else {}))
        rows = read_metrics(run.path)
        numbers = [row["iteration"] for row in rows]
        assert numbers == sorted(numbers) and numbers[-16:] == list(range(1985, 2001))
        assert len(rows) < 200 and numbers[0] < 600  # of 2,000
        assert [row["iteration"] for row in rows if "eval/success" in row] == [400, 800, 1200, 1600, 2000]
        assert run.metrics_path.stat().st_size < 2 * 4000 * 2

    def test_resuming_keeps_a_damaged_line_and_ends_at_a_damaged_row(self, run):
        row = b'{"iteration": %d, "frames": %d, "time_s": 1.0, "x": "' + b" " * 1000 + b'"}\n'
        run.metrics_path.write_bytes(b"damaged\n" + b"".join(row % (i, i) for i in range(1, 301)) + b'{"iterat')
        RunLog(run, done=290).close()
        assert run.metrics_path.read_bytes() == b"damaged\n" + b"".join(row % (i, i) for i in range(1, 291))
        run.metrics_path.write_bytes(b'{"iteration": 1, "frames": "x"}\n')
        with pytest.raises(DamagedFileError, match=r"metrics\.jsonl"):
            RunLog(run, done=1)


def test_a_full_disk_ends_tensorboard_not_the_training(run, capsys):
    pytest.importorskip("torch.utils.tensorboard")
    with RunLog(run) as log:
        log.write(1, 32, {"kl": 0.5})
        writer = log._loggers["TensorBoard"].file_writer.event_writer._async_writer
        writer._worker.exception = OSError(28, "No space left on device")
        log.write(2, 64, {"kl": 0.25})
        log.write(3, 96, {"kl": 0.25})
    assert len(read_metrics(run.path)) == 3
    assert capsys.readouterr().err.count("TensorBoard cannot write ([Errno 28] No space left on device)") == 1


def test_a_log_with_a_hole_at_its_end_is_cut(tmp_path):
    run = RunFolder.create(tmp_path, "a", {})
    rows = [{"iteration": n, "frames": n, "time_s": 1.0} for n in (1, 2, 3)]
    run.metrics_path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.truncate(run.metrics_path, run.metrics_path.stat().st_size + (1 << 28))  # as a power cut may leave it
    with RunLog(run, done=2) as log:
        log.write(3, 3, {})
    assert [row["iteration"] for row in read_metrics(run.path)] == [1, 2, 3]


def test_a_row_without_its_line_end_stays_a_row(tmp_path):
    run = RunFolder.create(tmp_path, "a", {})
    run.metrics_path.write_text('{"iteration": 1, "frames": 1, "time_s": 1.0}')
    with RunLog(run, done=1) as log:
        log.write(2, 2, {})
    assert [row["iteration"] for row in read_metrics(run.path)] == [1, 2]
