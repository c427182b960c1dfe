"""Progress of long work without a terminal, on a clock that the tests own."""

from __future__ import annotations

import pytest

from slipstream.cli import main
from slipstream.ui import tables
from slipstream.ui.tables import ProgressLines


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


def test_the_thread_ends_with_the_work():
    with ProgressLines("work") as lines:
        assert not lines._end.is_set()
    assert lines._end.is_set()


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
