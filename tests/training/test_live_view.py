"""Contracts of LiveView, on a clock and a console that the tests own."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from slipstream.training.live_view import LiveView, format_count

METRICS = {"fps": 54_321.0, "episode/return": 12.5, "episode/success": 0.713, "lr": 5e-4, "kl": float("nan")}
STATS = {
    "collect": {"mean": 300.0, "total": 3000.0},
    "learn": {"mean": 100.0, "total": 1000.0},
    "learn/forward": {"mean": 50.0, "total": 500.0},
}


class Screen:
    """A console that writes to memory and a clock moved by hand."""

    def __init__(self, terminal: bool, width: int = 100) -> None:
        self.file = io.StringIO()
        size = {"width": width, "height": 50, "color_system": None, "legacy_windows": False}
        self.console = Console(file=self.file, force_terminal=terminal, **size)
        self.now_s = 0.0

    def view(self, **options) -> LiveView:
        return LiveView(100, 1000, "drones [red]", console=self.console, clock=lambda: self.now_s, **options)

    @property
    def lines(self) -> list[str]:
        return self.file.getvalue().splitlines()


def test_without_a_terminal_a_line_comes_every_10_seconds():
    screen = Screen(terminal=False)
    with screen.view() as view:
        for i in range(25):  # one iteration a second, 10 frames each
            screen.now_s = float(i)
            view.update(i + 1, 10 * (i + 1), (i + 1) / 100, METRICS, STATS)
    assert [line.split("  ")[0] for line in screen.lines] == [f"iteration {n}/100" for n in (11, 21, 25)]


def test_an_iteration_of_a_minute_is_not_silent():
    plain, terminal = Screen(terminal=False), Screen(terminal=True)
    for screen in (plain, terminal):
        view = screen.view()
        for now_s in range(61):  # compiling, before the first update
            screen.now_s = float(now_s)
            view.waiting.write_if_due()
    assert plain.lines == [f"iteration 1: 0:{t:02d} elapsed" for t in (3, 13, 23, 33, 43, 53)]
    assert terminal.lines == []


def test_a_plain_line_names_what_is_known_and_nothing_else():
    screen = Screen(terminal=False)
    with screen.view() as view:
        view.update(1, 10, 0.01, {"episode/success": 0.5}, {})
        screen.now_s = 10.0
        view.update(2, 20, 0.02, {"fps": 1.0, "loss/value": 3.0}, {})
    first = "iteration 2/100  frames 20/1.00k  elapsed 0:10  left 16:20"
    assert screen.lines == [f"{first}  frames/s 1  success 50.0 %"]


def test_a_run_that_fails_at_once_prints_nothing():
    screen = Screen(terminal=False)
    with pytest.raises(RuntimeError), screen.view():
        raise RuntimeError
    assert screen.lines == []


def test_time_left_follows_the_speed_of_this_start():
    screen = Screen(terminal=False)
    view = screen.view()
    view.update(50, 500, 0.5, {}, {})  # resumed half way
    screen.now_s = 10.0
    view.update(60, 600, 0.6, {}, {})  # 100 frames in 10 s, 400 to go
    assert "left 0:40" in screen.lines[0]


def test_the_live_area_shows_progress_metrics_and_phases():
    screen = Screen(terminal=True)
    with screen.view() as view:
        view.update(25, 250, 0.25, METRICS, STATS)
    text = screen.file.getvalue()
    for part in ("drones [red]", "25.0 %", "25/100", "frames/s 54.3k", "return 12.5", "success 71.3 %", "kl -"):
        assert part in text
    assert "collect 75 % 300.0 ms" in text and "learn 25 %" in text and "learn/forward" not in text


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


@pytest.mark.parametrize("width", [1, 12, 40, 300])
def test_any_width_of_terminal_is_survived(width):
    screen = Screen(terminal=True, width=width)
    with screen.view() as view:
        view.update(1, 10, 0.01, METRICS, STATS)
        view.print("saved [bold]c.pt[/bold]")
    visible = [re.sub(r"\x1b\[[?\d;]*[A-Za-z]|\r", "", line) for line in screen.lines]
    assert "saved [bold]c.pt[/bold]" in visible  # as it is
    assert all(len(line) <= width for line in visible if not line.startswith("saved"))


def test_counts_are_short():
    numbers = {950: "950", 32_768: "32.8k", 1_200_000: "1.20M", 131_072_000: "131M", 3e9: "3.00G"}
    assert [format_count(number) for number in numbers] == list(numbers.values())


def test_episode_metrics_are_means_over_recent_episodes():
    screen = Screen(terminal=False)
    view = screen.view()
    view.update(1, 10, 0.01, {"episode/count": 4.0, "episode/success": 1.0}, {})
    view.update(2, 20, 0.02, {"episode/count": 0.0}, {})  # no episode ended
    screen.now_s = 10.0
    view.update(3, 30, 0.03, {"episode/count": 12.0, "episode/success": 0.5}, {})
    assert "success 62.5 %  episodes 16" in screen.lines[0]  # (4 · 1 + 12 · 0.5) / 16
    screen.now_s = 20.0
    view.update(4, 40, 0.04, {"episode/count": 995.0, "episode/success": 0.2}, {})  # without the first 4 it has 1,007
    assert f"success {100 * (6 + 199) / 1007:.1f} %  episodes 1,007" in screen.lines[1]


def test_the_envs_own_info_is_shown_or_what_a_task_chooses():
    metrics = {
        "episode/count": 8.0,
        "episode/return": 2.0,
        "episode/fuel_kg": 3.25,
        "episode/b": 1,
        "eval/fuel_kg": 3.5,
    }
    lines = []
    for chosen in (None, ["b"]):
        screen = Screen(terminal=False)
        with screen.view(shown_info=chosen) as view:
            view.update(1, 10, 0.01, metrics, {})
        lines += screen.lines
    assert "return 2  fuel_kg 3.25  b 1  eval fuel_kg 3.5  episodes 8" in lines[0]
    assert "return 2  b 1  episodes 8" in lines[1]
