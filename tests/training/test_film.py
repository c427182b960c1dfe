"""Flights as an animation: what is shown when, in which format."""

from __future__ import annotations

import re
import stat
import subprocess

import numpy as np
import pytest
from PIL import Image

from slipstream.tasks.navigation.figures import FPS, FlightPicture, at_time, end_times
from slipstream.ui import film

TIMES = np.array([0.0, 0.5, 1.0])
NAN = [np.nan] * 3
PATHS = np.array([[[0, 0, 1], [1, 0, 1], NAN], [[1, 0, 1], NAN, NAN], [[3, 0, 1], NAN, NAN]], dtype=float)  # [T, N, 3]


def draw(path, **settings):
    boxes, goals = np.array([[0, 0, 0.5, 0.5, 2.0]]), np.array([[3.0, 0.0], [1.0, 5.0], [0.0, 0.0]])
    movers, widths = np.zeros((3, 1, 3)) + [2.0, 2.0, 1.0], np.array([0.8])
    picture = FlightPicture(boxes, PATHS, np.array([1, 2, 0]), goals, movers, widths, "two", 5.0)
    return picture.film(path, TIMES, **settings)


def test_a_gif_has_25_frames_per_second_and_holds_the_last(tmp_path):
    shares = []
    with Image.open(draw(tmp_path / "flight.gif", progress=shares.append)) as image:
        durations = []
        for k in range(image.n_frames):
            image.seek(k)
            durations.append(image.info["duration"])
        assert image.size == (720, 792)
    assert durations[0] == 40 and durations[-1] >= 2000  # ms
    assert sum(durations) == pytest.approx(1000 + 2040, abs=50)  # a second in real time, and the hold
    assert shares[-1] == 1.0 and shares == sorted(shares)


def test_a_flight_keeps_its_last_place_after_its_end():
    ended_s, places = end_times(PATHS, TIMES)
    assert ended_s.tolist() == [1.0, 0.0, -1.0]
    assert places[2, 1].tolist() == [1, 0, 1] and np.isnan(places[:, 2]).all()


def test_places_between_two_points_are_on_the_line():
    places = end_times(PATHS, TIMES)[1]
    assert [float(at_time(places, TIMES, t)[0, 0]) for t in (0.0, 0.25, 0.5, 0.75, 1.0, 2.0)] == [0, 0.5, 1, 2, 3, 3]
    assert at_time(places[:1], TIMES[:1], 0.7)[0].tolist() == [0, 0, 1]


def test_ffmpeg_gets_every_frame(tmp_path, monkeypatch):
    """Type the command into a program that counts the bytes, in place of ffmpeg."""
    fake = tmp_path / "ffmpeg"
    fake.write_text('#!/bin/sh\nfor last; do :; done\nwc -c > "$last"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setattr(film, "find_ffmpeg", lambda: str(fake))
    frames = FPS + 1 + 2 * FPS  # a second of flight and two of hold
    assert int(draw(tmp_path / "flight.mp4").read_bytes()) == frames * 720 * 792 * 3


@pytest.mark.skipif(film.find_ffmpeg() is None, reason="needs ffmpeg")
def test_an_mp4_is_h264_with_25_frames_per_second(tmp_path):
    path = draw(tmp_path / "flight.mp4")
    command = [film.find_ffmpeg(), "-hide_banner", "-i", str(path), "-f", "null", "-"]  # decodes every frame
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert re.search(r"Video: h264 .*yuv420p.*, 720x792,.* 25 fps", report), report
    assert "Duration: 00:00:03.04" in report and re.search(r"frame= *76 ", report), report


def test_a_film_without_ffmpeg_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(film, "find_ffmpeg", lambda: None)
    with pytest.raises(ValueError, match=r"game\.mp4 needs ffmpeg: install it, or write game\.gif"):
        film.check_outputs(tmp_path / "game.mp4")
