"""Recordings that a training makes beside itself."""

from __future__ import annotations

import os
import shlex
import signal
import sys

import pytest

import slipstream.training.record as recording_process
from slipstream import train
from slipstream.config.compose import load_train
from slipstream.config.help import ConfigError
from slipstream.recordings import load_recording
from slipstream.tasks.navigation.evaluation import RECORDED_DRONES
from slipstream.training.metrics_log import RunLog, read_metrics
from slipstream.training.record import FlightRecorder, record

TINY = shlex.split("""
preset=demo env.num_envs=8 env.num_worlds=2 env.num_obstacles=4 algo.rollout_steps=4 total_frames=64 eval_interval=0 quiet=true
device=cpu threads=1 eval.num_drones=2 eval.map_seeds=[301] wandb.mode=disabled
""")


def tiny(tmp_path, *words):
    return load_train([*TINY, f"root={tmp_path}", *words])


plain_is_busy = FlightRecorder.is_busy


def wait_for_flight(self):
    if self._process is not None:
        self._process.wait(300)
    return plain_is_busy(self)


def test_a_training_records_a_flight_with_its_weights(tmp_path, monkeypatch):
    """The process that flies is the real one; the training waits for it here, so that it is not ended with the run."""
    films = []
    monkeypatch.setattr(RunLog, "add_film", lambda self, film, *when: films.append((film.read_bytes(), *when)))
    monkeypatch.setattr(FlightRecorder, "is_busy", wait_for_flight)
    folder = train.run(tiny(tmp_path, "name=seen", "record_minutes=1e-9", "total_frames=32")).path
    (path,) = (folder / "recordings").glob("*.rec")
    recording = load_recording(path)
    assert recording.scene == "flight" and recording.title == f"iteration {int(path.stem):,}"
    assert recording.columns["drone.position"].shape[1] == RECORDED_DRONES
    assert sorted(folder.glob("recordings/*")) == [path]
    ((film, iteration, frames),) = films
    assert film[:6] == b"GIF89a" and (iteration, frames) == (int(path.stem), 32)


class Saver:
    def save_async(self, state, path, compress):
        path.touch()


def flights_of(program, tmp_path, monkeypatch):
    """A recorder whose process is this shell program, and its warnings."""
    script = tmp_path / "fly"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    warned = []
    return FlightRecorder(tmp_path, 1e-9, warned.append), warned


def test_the_error_of_a_flight_is_shown_once(tmp_path, monkeypatch):
    recorder, warned = flights_of("yes noise | head -9999 >&2; echo no such map >&2; exit 1", tmp_path, monkeypatch)
    for iteration in range(3):
        assert recorder.is_due()
        recorder.start(iteration, Saver(), {})
        recorder._process.wait(60)
    assert recorder.is_due() and not list((tmp_path / "recordings").iterdir())
    recorder.close()
    assert len(warned) == 1 and warned[0].endswith("noise\nno such map") and len(warned[0]) < 2200


def test_a_flight_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    recorder, warned = flights_of("exec sleep 600", tmp_path, monkeypatch)
    recorder._minutes = 1000.0
    recorder.start(1, Saver(), {})
    assert not recorder.is_due()
    monkeypatch.setattr(recording_process, "LONGEST_S", 0.0)
    assert not recorder.is_due()
    assert recorder._process.wait(60) == -signal.SIGKILL
    assert not recorder.is_due() and len(warned) == 1 and "ended after 0 s" in warned[0]
    recorder.close()


def test_a_recorder_that_cannot_keep_up_says_so_once(tmp_path, monkeypatch):
    recorder, warned = flights_of("exec sleep 600", tmp_path, monkeypatch)
    recorder.start(1, Saver(), {})
    assert not recorder.is_due() and not recorder.is_due()
    recorder.close()
    (warning,) = warned
    assert warning.startswith("recording a flight takes longer than record_minutes=1e-09: ")
    assert "give a larger" in warning


def test_an_interrupt_of_the_terminal_is_no_failure_of_a_flight(tmp_path, monkeypatch):
    recorder, warned = flights_of("exec sleep 600", tmp_path, monkeypatch)
    recorder._minutes = 1000.0
    recorder.start(1, Saver(), {})
    assert os.getpgid(recorder._process.pid) != os.getpgid(0)  # so Ctrl-C does not reach it
    recorder.close()
    assert warned == [] and recorder._process is None


def test_without_record_minutes_nothing_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr(FlightRecorder, "start", None)
    folder = train.run(tiny(tmp_path, "name=plain")).path
    assert not (folder / "recordings").exists() and len(read_metrics(folder)) == 2


def test_a_duel_of_a_training_is_recorded_too(tmp_path):
    words = shlex.split("""
        task=aircombat league.enabled=false opponent=pursuit env.num_envs=4 algo.rollout_steps=4 total_frames=16 device=cpu
        env.episode_s=3 eval_interval=0 quiet=true threads=1 wandb.mode=disabled name=duel
    """)
    folder = train.run(load_train([*words, f"root={tmp_path}"])).path
    policy = next(folder.glob("checkpoints/ckpt_*"))
    copied = folder / ".00000001.pt"
    copied.symlink_to(policy)
    recording = load_recording(record(copied, 1, film=True))
    assert (folder / ".00000001.gif").read_bytes()[:6] == b"GIF89a"
    assert recording.scene == "duel" and "crank" in recording.meta["names"]


def test_a_task_without_a_scene_says_so(tmp_path):
    pytest.importorskip("gymnasium")
    with pytest.raises(ConfigError, match="task=gym has no scene for the viewer"):
        train.run(load_train(["task=gym", "env.id=CartPole-v1", "record_minutes=1", f"root={tmp_path}", "device=cpu"]))
