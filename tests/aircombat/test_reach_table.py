"""The table of reach: as near to what is flown as it says, and what agents see of it."""

from __future__ import annotations

import pytest
import torch
from reach_table import Geometry, envelope, grid, make_table, save_table
from test_reach import drawn

from slipstream.tasks.aircombat.reach.table import CHANNELS, ReachTable, pseudo_angle


def place(geometry):
    angles = (pseudo_angle(torch.cos(x), torch.sin(x)) for x in (geometry.bearing, geometry.aspect))
    return (geometry.own_speed, geometry.target_speed, *angles)


def errors(geometry, name):
    """Of the table, relative, where there is such a range."""
    flown = getattr(envelope(geometry), name)
    looked_up = ReachTable.load().lookup(*place(geometry))[:, CHANNELS.index(name)]
    return ((looked_up - flown) / flown)[flown > 0].abs()


def hold_tolerance(count):
    """As the documentation states it."""
    geometry = drawn(count, seed=9)
    r_max, r_ne = errors(geometry, "r_max"), errors(geometry, "r_ne")
    assert r_max.quantile(0.5) < 0.01 and r_max.quantile(0.85) < 0.06, r_max.quantile(torch.tensor([0.5, 0.85, 0.9]))
    assert r_ne.quantile(0.5) < 0.02 and r_ne.quantile(0.8) < 0.15, r_ne.quantile(torch.tensor([0.5, 0.8, 0.9]))


def test_the_table_is_what_is_flown():
    hold_tolerance(120)


@pytest.mark.soak
def test_the_table_is_what_is_flown_in_full():
    hold_tolerance(4000)


def test_a_new_table_has_the_numbers_of_the_shipped_one(tmp_path):
    made = make_table(2, 2, 3, 5)
    points = [x.flatten().float() for x in grid(2, 2, 3, 5)]
    shipped = ReachTable.load().lookup(*place(Geometry(*points))).T.reshape(made.values.shape)
    same = (made.values - shipped).abs() <= 0.01 * shipped + torch.tensor([3.0, 3.0, 3.0, 0.1, 0.1, 0.1]).view(
        -1, 1, 1, 1, 1
    )
    slow = same[:, :, 0]  # behind a target at 550 m/s, faster than it can stay, a hit hangs on the last bit
    assert slow[0].all() and slow.float().mean() > 0.95
    save_table(made, tmp_path / "t.npz")
    torch.testing.assert_close(ReachTable.load(tmp_path / "t.npz").values[:3], made.values[:3], atol=1.01, rtol=0)
