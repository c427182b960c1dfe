"""The curves of a league: which panels there are, and nothing on top of the data."""

from __future__ import annotations

import pytest

from slipstream.tasks.aircombat.league import report
from slipstream.tasks.aircombat.league.report import outcome_curves


def row(frames, **won):
    """An evaluation with a share of games won against each, the rest drawn."""
    shares = {
        f"league/{name}/{what}": x
        for name, w in won.items()
        for what, x in (("won", w), ("draw", 1 - w), ("lost", 0.0))
    }
    return {
        "frames": frames,
        "league/elo": 1000.0,
        "league/elo_low": 950.0,
        "league/elo_high": 1050.0,
        "league/stage": 1.0,
    } | shares


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draws rows and hands back the figure."""
    kept = []

    def draw(rows, title="while learning"):
        finish = report.finish_figure
        monkeypatch.setattr(report, "finish_figure", lambda figure, *rest: kept.append(figure) or finish(figure, *rest))
        outcome_curves(rows, tmp_path / "curves.png", ["crank", "stage1", "stage2", "pool"], title)
        return kept[-1]

    return draw


def panels(figure):
    return [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]


def test_a_pool_of_one_has_no_panel_of_its_own(drawn):
    rows = [row(1e6, crank=0.2), row(2e6, crank=0.5, stage1=0.6, pool=0.6)]
    assert panels(drawn(rows)) == ["against crank", "against stage1"]
    rows.append(row(3e6, crank=0.5, stage1=0.8, stage2=0.4, pool=0.6))
    assert panels(drawn(rows)) == ["against crank", "against stage1", "against stage2", "against pool"]


def test_a_pool_with_unnamed_past_selves_has_a_panel(drawn):
    """Snapshots of self-play are in the pool but have no panel."""
    assert "against pool" in panels(drawn([row(1e6, crank=0.5, stage1=0.8, pool=0.6)]))


def test_a_single_evaluation_is_seen(drawn):
    crank, stage1 = drawn([row(1e6, crank=0.2), row(2e6, crank=0.5, stage1=0.6)]).axes[:2]
    assert not crank.patches and [bar.get_height() for bar in stage1.patches if bar.get_height() > 0] == pytest.approx(
        [0.6, 0.4]
    )
    assert crank.get_xlim() == stage1.get_xlim()


@pytest.mark.parametrize("title", ["games won, drawn and lost while learning", ""])
def test_the_legend_covers_no_panel(drawn, title):
    figure = drawn([row(1e6, crank=0.2), row(2e6, crank=0.5)], title)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["won", "draw", "lost"]
    box = legend.get_window_extent()
    assert not any(box.overlaps(axes.get_tightbbox()) for axes in figure.axes)
    assert not title or not box.overlaps(figure._suptitle.get_window_extent())
