"""The report of a league: its table and its curves."""

from __future__ import annotations

import pytest

from slipstream.tasks.aircombat.league import report
from slipstream.ui import figures

ROWS = [
    {
        "frames": 1_000_000 * (k + 1),
        "time_s": 60.0 * k,
        "league/stage": 1 + k,
        **{f"league/elo{part}": 1000.0 + 100 * k + d for part, d in (("", 0), ("_low", -50), ("_high", 50))},
        **{f"league/pursuit/{what}": share for what, share in (("won", 0.9), ("draw", 0.1), ("lost", 0.0))},
        **({f"league/crank/{what}": x for what, x in (("won", 0.5), ("draw", 0.2), ("lost", 0.3))} if k else {}),
        "league/pursuit/elo": 1000.0,
    }
    for k in range(3)
]


def test_the_learner_has_a_row_in_its_table(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(report, "write_report", lambda folder, title, table, *rest: seen.update(table=table))
    report.write_league_report(tmp_path, ROWS)
    pursuit, crank, learner = seen["table"]
    assert pursuit == {
        "opponent": "pursuit",
        "won": 0.9,
        "draw": 0.1,
        "lost": 0.0,
        "won of decided": 1.0,
        "won − lost": 0.9,
        "Elo": 1000.0,
    }
    assert crank["won of decided"] == 0.625 and crank["Elo"] is None
    assert learner["opponent"] == "all (the learner)" and learner["Elo"] == 1200.0
    assert [learner[what] for what in ("won", "draw", "lost", "won − lost")] == pytest.approx([0.7, 0.15, 0.15, 0.55])


def test_all_panels_have_one_axis_of_frames(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(report, "finish_figure", lambda figure, path, title: drawn.append(figure) or path)
    report.outcome_curves(ROWS, tmp_path / "curves.png", ["pursuit", "crank"])
    panels = drawn[0].axes
    assert len(panels) == 3 and all(axes.get_xlim() == (0.0, pytest.approx(3.06e6)) for axes in panels)
    assert [axes.get_xlabel() for axes in panels] == ["", "", "frames"]
    assert panels[0].xaxis.get_major_formatter()(2e6) == panels[2].xaxis.get_major_formatter()(2e6) == "2M"
    box = drawn[0].legends[0].get_window_extent(drawn[0].canvas.get_renderer())
    assert box.x0 >= 0 and box.x1 <= drawn[0].bbox.x1


def test_a_legend_with_long_names_wraps_inside_its_panel(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "finish_figure", lambda figure, path, title: drawn.append(figure) or path)
    names = [f"a long name of an episode, number {k}" for k in range(6)]
    figures.draw_curves(tmp_path / "curves.png", [{"reward": figures.np.arange(9.0)}] * 6, names, "episodes")
    axes = drawn[0].axes[0]
    box = axes.get_legend().get_window_extent(drawn[0].canvas.get_renderer())
    assert box.x0 >= axes.bbox.x0 and box.x1 <= axes.bbox.x1
