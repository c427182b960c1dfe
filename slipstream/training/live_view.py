"""LiveView: a training run in the terminal; without a terminal a plain line now and then. Both show the same cells."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from slipstream.storage.errors import printable
from slipstream.ui.tables import ProgressLines, format_number, format_percent, format_time

REFRESH_S = 0.5  # drawing takes 3 ms of the loop's time: under 1 %
MAX_CHARS = 120
CELL_CHARS = 24  # one width for all cells: columns that follow their content would jump as numbers change
PLAIN_LINE_S = 10.0

RATES = ("success", "collision", "timeout")  # shares of episodes, shown in percent
RECENT_EPISODES = 1000  # that the means of `episode/*` are over, at least; all if there are fewer
MOST_OWN = 8  # metrics of the env's own `info` that are shown

# any may be absent; of others only `episode/*` and `eval/*` of the env's info are shown
EPISODE = ("return", "success", "collision", "timeout", "length")
SHOWN = ("fps", *(f"episode/{name}" for name in EPISODE), "eval/success", "eval/return", "league/stage")
LABELS = {"fps": "frames/s", "league/stage": "stage"}


class LiveView:
    """Shows how far a run is, how fast it is and how well it flies.

    Episode metrics are means over the last 1,000 episodes or more, with the number of episodes: those of one iteration
    may be of a handful of short episodes.

    It draws from `update`, at most twice a second. Without a terminal it prints plain lines: at most one in 10 s, and
    one at the end; while `waiting` is entered, an iteration that takes longer (compiling, evaluating) has lines too.

    Args:
        total_iterations: 0 if time ends the run; `total_frames` likewise.
        shown_info: Keys of the env's `info` that are shown besides the common ones; None for the first few.
    """

    def __init__(
        self,
        total_iterations: int,
        total_frames: int,
        title: str = "",
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        shown_info: Sequence[str] | None = None,
    ) -> None:
        self.total_iterations, self.total_frames, self.title = total_iterations, total_frames, title
        self.console = console or Console()
        self._clock = clock
        self._start_s = self._drawn_s = clock()
        self._done = (0, 0)  # iterations and frames finished
        self._share = 0.0  # of the run that is finished
        self._first: tuple[float, float] | None = None  # time and share at the first update of this start
        self._metrics: dict[str, float] = {}  # the last value of each, since some come only now and then
        self._recent: deque[tuple[float, dict[str, float]]] = deque()  # episodes of an iteration, and their means
        self._episodes = 0.0  # in `_recent`
        self._line_due = False
        self._shown_info = shown_info
        is_live = self.console.is_terminal and not self.console.is_dumb_terminal
        self._live = Live(console=self.console, auto_refresh=False, get_renderable=self._draw) if is_live else None
        self.waiting = ProgressLines("iteration 1", write=(lambda line: None) if is_live else self.print, clock=clock)

    def __enter__(self) -> LiveView:
        self._start_s = self._drawn_s = self._clock()
        if self._live:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live:
            self._live.stop()  # draws the last state once more and leaves it there
        elif self._line_due:
            self._print_line()

    def update(self, iteration: int, frames: int, share: float, metrics: Mapping[str, float]) -> None:
        """Take the state after `iteration`, counted from 1, and `frames` frames in total; `share` of the run is
        done."""
        now_s = self._clock()
        self._done, self._share = (iteration, frames), min(share, 1.0)
        self._first = self._first or (now_s, self._share)
        self._metrics.update(metrics)
        self._add_episodes(metrics)
        self._line_due = True
        self.waiting.restart(f"iteration {iteration + 1:,}")
        if now_s - self._drawn_s < (REFRESH_S if self._live else PLAIN_LINE_S):
            return
        self._drawn_s = now_s
        if self._live:
            self._live.refresh()
        else:
            self._print_line()

    def add(self, metrics: Mapping[str, float]) -> None:
        """Take metrics that come late, to be shown from the next update on."""
        self._metrics.update(metrics)

    def print(self, text: str) -> None:
        """Print lines above the live area."""
        self.console.print(printable(text), soft_wrap=True, markup=False, highlight=False, emoji=False)

    # -- what is shown -----------------------------------------------------------------------------------------------

    def _left_s(self) -> float:
        """Return the seconds left at the speed since the first update; NaN before it is known."""
        first_s, first_share = self._first or (0.0, 1.0)
        gone = self._share - first_share
        return (self._clock() - first_s) * (1 - self._share) / gone if gone > 0 else math.nan

    def _add_episodes(self, metrics: Mapping[str, float]) -> None:
        """Add the episodes of one iteration to the recent ones; forget the oldest that are not needed."""
        count = metrics.get("episode/count", 0.0)
        if not count > 0:
            return
        means = {key: value for key, value in metrics.items() if key.startswith("episode/") and key != "episode/count"}
        self._recent.append((count, means))
        self._episodes += count
        while self._episodes - self._recent[0][0] >= RECENT_EPISODES:
            self._episodes -= self._recent.popleft()[0]

    def _shown_metrics(self) -> dict[str, float]:
        """Return the last value of each metric; of the episodes' the means over the recent ones."""
        sums: dict[str, float] = {}
        for count, means in self._recent:
            for key, value in means.items():
                sums[key] = sums.get(key, 0.0) + count * value
        return self._metrics | {key: total / self._episodes for key, total in sums.items()}

    def _cells(self) -> list[tuple[str, str]]:
        """Return (label, value) of what is shown everywhere: progress, then metrics."""
        (iterations, frames), metrics = self._done, self._shown_metrics()
        of_iterations = f"/{self.total_iterations:,}" if self.total_iterations else ""
        of_frames = f"/{format_count(self.total_frames)}" if self.total_frames else ""
        cells = [("iteration", f"{iterations:,}{of_iterations}"), ("frames", f"{format_count(frames)}{of_frames}")]
        cells += [("elapsed", format_time(self._clock() - self._start_s)), ("left", format_time(self._left_s()))]
        own = [key.removeprefix("episode/") for key in metrics if key.startswith("episode/")]
        own = [name for name in own if name not in (*EPISODE, "count")]
        own = [name for name in own if self._shown_info is None or name in self._shown_info][:MOST_OWN]
        for key in (*SHOWN, *(f"episode/{name}" for name in own), *(f"eval/{name}" for name in own)):
            if key in metrics:
                label = LABELS.get(key, key.removeprefix("episode/").replace("eval/", "eval ", 1))
                cells.append((label, _format(key, metrics[key])))
        return cells + ([("episodes", f"{self._episodes:,.0f}")] if self._recent else [])

    def _print_line(self) -> None:
        self._line_due = False
        self.print("  ".join(f"{label} {value}" for label, value in self._cells()))

    def _draw(self) -> RenderableType:
        width = min(self.console.width, MAX_CHARS)
        inner = max(width - 4, 1)  # less the panel's border and padding
        bar = Table.grid(expand=True, padding=(0, 1))
        bar.add_column(ratio=1)
        percent = Text(format_percent(self._share), no_wrap=True)
        bar.add_row(ProgressBar(total=1.0, completed=self._share, complete_style="cyan"), percent)
        cells = [Text.assemble((f"{label} ", "dim"), (value, "bold")) for label, value in self._cells()]
        for cell in cells:
            cell.truncate(min(CELL_CHARS, inner))
        columns = Columns(cells, width=min(CELL_CHARS + 1, inner), padding=0)
        return Panel(Group(bar, columns), title=Text(self.title), border_style="dim", padding=(0, 1), width=width)


def format_count(number: float) -> str:
    """Return a count in about four characters: 950, 32.8k, 1.20M, 3.00G."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            scaled = number / size
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f}{unit}"
    return f"{number:.0f}"


def _format(key: str, value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "-"
    if key == "fps":
        return format_count(value)
    if key.rpartition("/")[2] in RATES:
        return format_percent(value)
    return format_number(value)
