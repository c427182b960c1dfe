"""Contracts of LiveView, on a clock and a console that the tests own."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from slipstream.training.live_view import LiveView, format_count, format_time

METRICS = {
    "fps": 54_321.0,
    "episode/return": 12.5,
    "episode/success": 0.713,
    "episode/collision": 0.2,
    "lr": 5e-4,
    "kl": float("nan"),
}
STATS = {
    "collect": {"mean": 300.0, "total": 3000.0},
    "learn": {"mean": 100.0, "total": 1000.0},
    "learn/forward": {"mean": 50.0, "total": 500.0},
}


class Screen:
    """A console that writes to memory and a clock moved by hand."""

    def __init__(self, terminal: bool, width: int = 100) -> None:
        self.file = io.StringIO()
        self.console = Console(
            file=self.file, force_terminal=terminal, width=width, height=50, color_system=None, legacy_windows=False
        )
        self.now_s = 0.0

    def view(self, **options) -> LiveView:
        return LiveView(100, 1000, "drones [red]", console=self.console, clock=lambda: self.now_s, **options)

    @property
    def lines(self) -> list[str]:
        return self.file.getvalue().splitlines()


def test_without_a_terminal_a_line_comes_every_10_seconds_and_at_the_end():
    screen = Screen(terminal=False)
    with screen.view() as view:
        for i in range(25):  # one iteration a second, 10 frames each
            screen.now_s = float(i)
            view.update(i + 1, 10 * (i + 1), (i + 1) / 100, METRICS, STATS)
    assert [line.split("  ")[0] for line in screen.lines] == [
        "iteration 11/100",
        "iteration 21/100",
        "iteration 25/100",
    ]


def test_an_iteration_of_a_minute_is_not_silent():
    screen = Screen(terminal=False)
    with screen.view() as view:
        for now_s in range(61):  # compiling, before the first update
            screen.now_s = float(now_s)
            view.waiting.write_if_due()
        assert screen.lines == [f"iteration 1: 0:{t:02d} elapsed" for t in (3, 13, 23, 33, 43, 53)]
        view.update(1, 10, 0.01, METRICS, STATS)
        screen.now_s += 9.0
        view.waiting.write_if_due()
        screen.now_s += 2.0
        view.waiting.write_if_due()
    assert (
        "iteration 2: 0:11 elapsed" in screen.lines
        and sum(line.startswith("iteration 2:") for line in screen.lines) == 1
    )


def test_a_terminal_gets_no_lines_of_waiting():
    screen = Screen(terminal=True)
    view = screen.view()
    screen.now_s = 60.0
    view.waiting.write_if_due()
    assert screen.lines == []


def test_a_plain_line_names_what_is_known_and_nothing_else():
    screen = Screen(terminal=False)
    with screen.view() as view:
        view.update(1, 10, 0.01, {"episode/success": 0.5}, {})
        screen.now_s = 10.0
        view.update(2, 20, 0.02, {"fps": 1.0}, {})
    assert screen.lines == ["iteration 2/100  20 frames  frames/s 1  success 50.0 %  elapsed 0:10  left 16:20"]


def test_a_run_of_days_is_told_so_once():
    said = []
    for seconds in (100.0, 1000.0):  # an iteration
        screen = Screen(terminal=False)
        with screen.view(long_run_hint="take a smaller world") as view:
            for i in range(5):
                screen.now_s = seconds * i
                view.update(i + 1, 10 * (i + 1), (i + 1) / 100, {}, {})
        said.append([line for line in screen.lines if "smaller world" in line])
    assert said == [[], ["at this speed 27 hours are left: take a smaller world"]]


def test_the_last_line_is_not_said_twice():
    screen = Screen(terminal=False)
    with screen.view() as view:
        screen.now_s = 10.0
        view.update(100, 1000, 1.0, {}, {})
    assert len(screen.lines) == 1


def test_a_run_that_fails_before_its_first_iteration_prints_nothing():
    screen = Screen(terminal=False)
    with pytest.raises(RuntimeError), screen.view():
        raise RuntimeError
    assert screen.lines == []


def test_time_left_follows_the_speed_of_this_start_not_the_frames_of_earlier_ones():
    screen = Screen(terminal=False)
    view = screen.view()
    view.update(50, 500, 0.5, {}, {})  # resumed half way
    screen.now_s = 10.0
    view.update(60, 600, 0.6, {}, {})  # 100 frames in 10 s, 400 to go
    assert "left 0:40" in screen.lines[0]


def test_the_live_area_shows_progress_metrics_and_the_share_of_each_phase():
    screen = Screen(terminal=True)
    with screen.view() as view:
        view.update(25, 250, 0.25, METRICS, STATS)
    text = screen.file.getvalue()
    for part in ("drones [red]", "25.0 %", "25 / 100", "frames/s 54.3k", "return 12.5", "success 71.3 %", "kl -"):
        assert part in text
    assert "collect 75 %" in text
    assert "learn 25 %" in text
    assert "learn/forward" not in text


def test_the_live_area_is_drawn_at_most_twice_a_second():
    screen = Screen(terminal=True)
    with screen.view() as view:
        before = len(screen.file.getvalue())
        for i in range(4):
            screen.now_s = 0.1 * i
            view.update(i + 1, i, 0.0, METRICS, STATS)
        assert len(screen.file.getvalue()) == before
        screen.now_s = 0.6
        view.update(5, 4, 0.0, METRICS, STATS)
        assert len(screen.file.getvalue()) > before


@pytest.mark.parametrize("width", [1, 2, 5, 12, 25, 40, 300])
def test_any_width_of_terminal_is_survived(width):
    screen = Screen(terminal=True, width=width)
    with screen.view() as view:
        view.update(1, 10, 0.01, METRICS, STATS)
        view.print("a checkpoint was saved")
    visible = [re.sub(r"\x1b\[[?\d;]*[A-Za-z]|\r", "", line) for line in screen.lines]
    assert "a checkpoint was saved" in visible
    assert all(len(line) <= width for line in visible if line != "a checkpoint was saved")


@pytest.mark.parametrize("terminal", [True, False])
def test_printed_text_appears_as_it_is(terminal):
    screen = Screen(terminal=terminal)
    with screen.view() as view:
        view.print("saved [bold]c.pt[/bold]")
    assert any("saved [bold]c.pt[/bold]" in line for line in screen.lines)


def test_counts_and_times_are_short():
    assert [format_count(n) for n in (950, 32_768, 1_200_000, 131_072_000, 3e9)] == [
        "950",
        "32.8k",
        "1.20M",
        "131M",
        "3.00G",
    ]
    assert [format_time(s) for s in (5.9, 123, 3723, float("nan"))] == ["0:05", "2:03", "1:02:03", "-"]


def test_episode_metrics_are_means_over_recent_episodes_with_their_number():
    screen = Screen(terminal=False)
    view = screen.view()
    view.update(1, 10, 0.01, {"episode/count": 4.0, "episode/success": 1.0}, {})
    view.update(2, 20, 0.02, {"episode/count": 0.0}, {})  # no episode ended
    screen.now_s = 10.0
    view.update(3, 30, 0.03, {"episode/count": 12.0, "episode/success": 0.5}, {})
    assert "success 62.5 %  (of 16 episodes)" in screen.lines[0]  # (4 · 1 + 12 · 0.5) / 16
    screen.now_s = 20.0
    view.update(4, 40, 0.04, {"episode/count": 995.0, "episode/success": 0.2}, {})  # without the first 4 it has 1,007
    assert f"success {100 * (6 + 199) / 1007:.1f} %  (of 1,007 episodes)" in screen.lines[1]


def test_the_envs_own_info_is_shown():
    metrics = {"episode/count": 8.0, "episode/return": 2.0, "episode/fuel_kg": 3.25, "eval/fuel_kg": 3.5}
    plain, live = Screen(terminal=False), Screen(terminal=True)
    for screen in (plain, live):
        with screen.view() as view:
            view.update(1, 10, 0.01, metrics, {})
    assert "return 2  fuel_kg 3.25  (of 8 episodes)" in plain.lines[0]
    for part in ("fuel_kg 3.25", "eval fuel_kg 3.5", "means of 8 episodes"):
        assert part in live.file.getvalue()


def test_a_task_can_choose_the_info_that_is_shown():
    screen = Screen(terminal=False)
    with screen.view(shown_info=["b"]) as view:
        view.update(1, 10, 0.01, {"episode/count": 1.0, "episode/a": 1.0, "episode/b": 2.0}, {})
    assert "b 2" in screen.lines[0] and "a 1" not in screen.lines[0]
