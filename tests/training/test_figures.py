"""Contracts of figures and films: a complete file at the path, no global state touched, what they refuse."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from slipstream.tasks.navigation.figures import FlightPicture, at_time, end_times, view_half_m
from slipstream.ui import film
from slipstream.ui.figures import learning_curve, own_metrics

BOXES = np.array([[0.0, 0.0, 0.15, 0.35, 2.0], [3.0, -2.0, 0.35, 0.35, 6.0]])
GOALS = np.array([[0.0, -6.0], [1.0, -6.0], [2.0, -6.0]])
OUTCOME = np.array([0, 1, 2])


def three_flights() -> np.ndarray:
    """[20, 3, 3]: southwards, the second ends after 15 steps, the third after 5."""
    paths = np.zeros((20, 3, 3))
    paths[:, :, 0] = [0.0, 1.0, 2.0]
    paths[:, :, 1] = np.linspace(6, -6, 20)[:, None]
    paths[15:, 1] = np.nan
    paths[5:, 2] = np.nan
    return paths


def size_of_png(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[-8:-4] == b"IEND"
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


NO_BOXES, NO_MOVERS = np.empty((0, 5)), (np.empty((20, 0, 3)), np.empty(0))


def test_a_png_shows_standing_and_moving_worlds(tmp_path):
    still = FlightPicture(BOXES, three_flights(), OUTCOME, GOALS, *NO_MOVERS, "three drones", 5.0)
    still = still.png(tmp_path / "still.png")
    assert size_of_png(still) == (1600, 1760)
    movers = np.cumsum(np.full((20, 2, 3), 0.05), axis=0), np.array([0.25, 1.0])
    moving = FlightPicture(BOXES, three_flights(), OUTCOME, GOALS, *movers, map_half_m=5.0).png(tmp_path / "m.png")
    assert moving.read_bytes() != still.read_bytes()


def test_an_empty_field_and_a_drone_that_never_flew(tmp_path):
    paths, goals = np.full((20, 1, 3), np.nan), np.zeros((1, 2))
    FlightPicture(NO_BOXES, paths, np.array([2]), goals, *NO_MOVERS).png(tmp_path / "a.png")
    assert size_of_png(tmp_path / "a.png") == (1600, 1760)


def test_the_view_leaves_out_a_drone_that_flew_off():
    goals = np.zeros((1, 2))
    assert view_half_m(np.full((2, 1, 3), 24.0), goals, 20.0) == pytest.approx(25.0)
    assert view_half_m(np.full((2, 1, 3), 5.0), goals, 20.0) == pytest.approx(21.0)
    flown_off = np.array([[[5.0, 5.0, 2.0]], [[900.0, 5.0, 2.0]]])
    assert view_half_m(flown_off, goals, 20.0) == pytest.approx(27.0)


def test_learning_curve_draws_gaps_and_a_single_row(tmp_path):
    rows = [
        {"iteration": i, "frames": 32 * i, "time_s": 2.0 * i, "episode/success": i / 100, "episode/return": None}
        for i in range(100)
    ]
    rows[0]["episode/success"] = None
    rows[50] |= {"eval/success": 0.4}
    both = size_of_png(learning_curve(rows, tmp_path / "both.png", "navigation"))
    frames_only = size_of_png(learning_curve([{"frames": 1, "episode/success": 0.5}], tmp_path / "one.png"))
    assert both[0] > frames_only[0]


def test_own_metrics_have_panels_of_their_own(tmp_path):
    rows = [
        {"frames": i, "episode/count": 1, "episode/return": i, "episode/length": 5, "episode/fuel": i} for i in range(9)
    ]
    rows[3] |= {"episode/hits": 2.0}
    assert own_metrics(rows) == ["fuel", "hits"]
    alone = size_of_png(learning_curve(rows, tmp_path / "a.png"))
    more = size_of_png(learning_curve(rows, tmp_path / "b.png", "", own_metrics(rows)))
    assert more[1] > 2 * alone[1]


def test_drawing_changes_no_global_of_matplotlib(tmp_path):
    program = f"""
import sys
import slipstream.ui.figures as runs
assert "matplotlib" not in sys.modules, "imported too early"
runs.learning_curve([{{"frames": 1, "episode/success": 0.5}}], {str(tmp_path / "a.png")!r})
assert "matplotlib.pyplot" not in sys.modules
import matplotlib
assert not any(matplotlib.rcParams[key] != matplotlib.rcParamsDefault[key] for key in ("figure.facecolor", "font.size", "axes.grid"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr


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
