"""What a run leaves behind and shows while it goes: its folder, log, terminal view, plots and report."""

from slipstream.runs.animation import animate
from slipstream.runs.folder import RunFolder
from slipstream.runs.log import RunLog, read_metrics
from slipstream.runs.plots import flight_paths, learning_curve, success_bars, success_over_time
from slipstream.runs.report import write_report
from slipstream.runs.spacetime import spacetime
from slipstream.runs.view import LiveView

__all__ = [
    "LiveView",
    "RunFolder",
    "RunLog",
    "animate",
    "flight_paths",
    "learning_curve",
    "read_metrics",
    "spacetime",
    "success_bars",
    "success_over_time",
    "write_report",
]
