"""The curves of a league."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.tasks.aircombat.league import curves

ROWS = [
    {
        "frames": 1_000_000 * (k + 1),
        "league/stage": 1 + k,
        **{f"league/elo{part}": 1000.0 + 100 * k + d for part, d in (("", 0), ("_low", -50), ("_high", 50))},
        **{f"league/pursuit/{what}": share for what, share in (("won", 0.9), ("draw", 0.1), ("lost", 0.0))},
        **(
            {f"league/my_module:Agent/{what}": x for what, x in (("won", 0.5), ("draw", 0.5), ("lost", 0))} if k else {}
        ),
    }
    for k in range(3)
]


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draw rows and return the figure."""
    figures, finish = [], curves.finish_figure

    def draw(rows):
        monkeypatch.setattr(
            curves, "finish_figure", lambda figure, *rest: figures.append(figure) or finish(figure, *rest)
        )
        assert curves.league_curves(rows, tmp_path / "learning.png", "while learning").stat().st_size > 10_000
        return figures[-1]

    return draw


def test_each_opponent_has_a_panel_on_one_axis_of_frames(drawn):
    figure = drawn([{"frames": 10, "episode/return": 1.0}, *ROWS])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["against pursuit", "against my_module:Agent", ""]
    assert all(axes.get_xlim() == (0.0, pytest.approx(3.06e6)) for axes in figure.axes)
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "", "frames"]
    assert figure.axes[0].xaxis.get_major_formatter()(2e6) == "2M"
    assert [text.get_text() for text in figure.axes[2].texts] == [" stage 2", " stage 3"]
    assert np.allclose(figure.axes[2].lines[0].get_ydata(), [1000, 1100, 1200])


def test_the_legend_is_beside_the_title(drawn):
    figure = drawn(ROWS[:1])
    renderer = figure.canvas.get_renderer()
    title, legend = figure._suptitle.get_window_extent(renderer), figure.legends[0].get_window_extent(renderer)
    assert legend.x0 > title.x1 and legend.x1 <= figure.bbox.x1


def test_a_run_without_a_league_has_no_such_curves(tmp_path):
    assert curves.league_curves([{"frames": 10, "episode/return": 1.0}], tmp_path / "learning.png") is None
