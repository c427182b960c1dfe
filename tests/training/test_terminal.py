"""What a training and long work show in a terminal or as plain lines, on a clock and a console that the tests own."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from slipstream.cli import main
from slipstream.training.live_view import LiveView, format_count
from slipstream.ui import tables
from slipstream.ui.tables import ProgressLines, format_number, format_percent, format_rate

METRICS = {"fps": 54_321.0, "episode/return": 12.5, "episode/success": 0.713, "eval/return": float("nan")}


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
            view.update(i + 1, 10 * (i + 1), (i + 1) / 100, METRICS)
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
        view.update(1, 10, 0.01, {"episode/success": 0.5})
        screen.now_s = 10.0
        view.update(2, 20, 0.02, {"fps": 1.0, "loss/value": 3.0})
    first = "iteration 2/100  frames 20/1.00k  elapsed 0:10  left 16:20"
    assert screen.lines == [f"{first}  frames/s 1  success 50.0 %"]


def test_time_left_follows_the_speed_of_this_start():
    screen = Screen(terminal=False)
    view = screen.view()
    view.update(50, 500, 0.5, {})  # resumed half way
    screen.now_s = 10.0
    view.update(60, 600, 0.6, {})  # 100 frames in 10 s, 400 to go
    assert "left 0:40" in screen.lines[0]


def test_the_live_area_shows_progress_and_metrics():
    screen = Screen(terminal=True)
    with screen.view() as view:
        view.update(25, 250, 0.25, METRICS)
    text = screen.file.getvalue()
    for part in (
        "drones [red]",
        "25.0 %",
        "25/100",
        "frames/s 54.3k",
        "return 12.5",
        "success 71.3 %",
        "eval return -",
    ):
        assert part in text


def test_the_live_area_is_drawn_at_most_twice_a_second():
    screen = Screen(terminal=True)
    with screen.view() as view:
        before = len(screen.file.getvalue())
        for i in range(4):
            screen.now_s = 0.1 * i
            view.update(i + 1, i, 0.0, METRICS)
        assert len(screen.file.getvalue()) == before
        screen.now_s = 0.6
        view.update(5, 4, 0.0, METRICS)
        assert len(screen.file.getvalue()) > before


@pytest.mark.parametrize("width", [1, 12, 40, 300])
def test_any_width_of_terminal_is_survived(width):
    screen = Screen(terminal=True, width=width)
    with screen.view() as view:
        view.update(1, 10, 0.01, METRICS)
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
    view.update(1, 10, 0.01, {"episode/count": 4.0, "episode/success": 1.0})
    view.update(2, 20, 0.02, {"episode/count": 0.0})  # no episode ended
    screen.now_s = 10.0
    view.update(3, 30, 0.03, {"episode/count": 12.0, "episode/success": 0.5})
    assert "success 62.5 %  episodes 16" in screen.lines[0]  # (4 · 1 + 12 · 0.5) / 16
    screen.now_s = 20.0
    view.update(4, 40, 0.04, {"episode/count": 995.0, "episode/success": 0.2})  # without the first 4 it has 1,007
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
            view.update(1, 10, 0.01, metrics)
        lines += screen.lines
    assert "return 2  fuel_kg 3.25  b 1  eval fuel_kg 3.5  episodes 8" in lines[0]
    assert "return 2  b 1  episodes 8" in lines[1]


class Work:
    """A piece of work whose clock is moved by hand."""

    def __init__(self, what: str = "flying 64 drones") -> None:
        self.now_s, self.lines = 100.0, []
        self.progress = ProgressLines(what, self.lines.append, lambda: self.now_s)

    def until(self, seconds: float) -> list[str]:
        """Return the lines written until `seconds` after the start, looked at every second."""
        while self.now_s < 100.0 + seconds:
            self.now_s += 1.0
            self.progress.write_if_due()
        return self.lines


def test_long_work_writes_after_3_s_and_then_every_10_s():
    work = Work("exporting policy")
    assert work.until(95.0) == [f"exporting policy: {t // 60}:{t % 60:02d} elapsed" for t in range(3, 96, 10)]


def test_a_line_has_the_share_done_and_the_time_left():
    work = Work()
    work.progress.update(0.25)
    assert work.until(3.0) == ["flying 64 drones: 0:03 elapsed, 25 % done, about 0:09 left"]
    work.progress.update(1.0)
    assert work.until(13.0)[1] == "flying 64 drones: 0:13 elapsed, 100 % done, about 0:00 left"


def test_lines_that_nobody_reads_do_not_disturb_the_work():
    def gone(line):
        raise BrokenPipeError

    lines = ProgressLines("work", gone, clock=iter((0.0, 60.0)).__next__)
    lines._end.wait = lambda seconds: False
    lines._run()  # ends at the first line


@pytest.fixture
def started(monkeypatch):
    """The pieces of work that show progress, as commands begin them; each is due at once."""
    found = []

    class AtOnce(ProgressLines):
        def __init__(self, what):
            super().__init__(what, found.append, lambda: 0.0)
            self._due_s = -1.0

        def __enter__(self):
            self.write_if_due()
            return self

    monkeypatch.setattr(tables, "ProgressLines", AtOnce)
    return found


SHORT = ["eval.num_drones=2", "eval.map_seeds=[1,2]", "eval.max_steps=8", "eval.picture=false"]


def test_eval_shows_maps_and_flights(started, monkeypatch):
    assert main(["eval", *SHORT]) == 0
    assert [line.split(":")[0] for line in started] == ["generating 2 maps", "flying 4 drones over 2 maps"]


@pytest.mark.parametrize(("rate", "text", "percent"), [
    (0.0, "0.000", "0.0 %"), (1.0, "1.000", "100.0 %"), (255 / 256, "0.996", "99.6 %"), (1999 / 2000, "0.9995", "99.95 %"),
    (0.99996, "0.99996", "99.996 %"), (1 - 1e-9, "> 0.999999", "> 99.999999 %"), (1e-9, "< 0.000001", "< 0.000001 %"),
    (1 / 3000, "0.0003", "0.03 %"), (0.25, "0.250", "25.0 %"), (None, "–", "–"), (float("nan"), "–", "–"),
])  # fmt: skip
def test_a_rate_is_0_or_1_only_if_it_is(rate, text, percent):
    assert (format_rate(rate), format_percent(rate)) == (text, percent)


def test_few_digits_round_no_rate_to_1():
    assert format_percent(255 / 256, 0) == "99.6 %" and format_rate(0.998, 2) == "0.998"
    assert [format_number(x) for x in (0.99999, 1.0, 1.00001, 123456.0, 1e-9)] == [
        "0.999990",
        "1",
        "1",
        "1.235e+05",
        "1e-09",
    ]
