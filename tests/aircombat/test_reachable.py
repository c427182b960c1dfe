"""The reachable set: random rudders never leave it, and its corners are flown."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from matplotlib.path import Path
from plain_flights import chases as plain_chases
from plain_flights import paths as plain_paths
from reachable_sets import CORNERS, reachable

from slipstream.tasks.aircombat.physics.flight import BURN_TICKS, MISSILE, PHYSICS_DT_S, advance, speed_of
from slipstream.tasks.aircombat.reach.flights_native import chases, paths
from slipstream.tasks.aircombat.reach.table import reachable_sets


def wandering(speed, count, seconds, seed=0):
    """Where missiles are after `seconds` with rudders that change at random, hard over as often as not: [count, 2]."""
    generator = torch.Generator().manual_seed(seed)
    rudders = torch.tensor([-1.0, -1.0, -0.6, -0.3, 0.0, 0.3, 0.6, 1.0, 1.0])[
        torch.randint(0, 9, (count, 6), generator=generator)
    ]
    changes = torch.sort(torch.rand(count, 5, generator=generator).square() * seconds, 1).values
    pos, vel = torch.tensor([[20.0, 0.0]]).repeat(count, 1), torch.tensor([[float(speed), 0.0]]).repeat(count, 1)
    for tick in range(round(seconds / PHYSICS_DT_S)):
        now = (changes < tick * PHYSICS_DT_S).sum(1, keepdim=True)
        thrust = torch.full((count,), float(tick < BURN_TICKS))
        pos, vel = advance(MISSILE, pos, vel, rudders.gather(1, now)[:, 0], thrust, PHYSICS_DT_S)
    return pos


@pytest.mark.parametrize("speed", [200.0, 450.0])
@pytest.mark.parametrize("seconds", [5.0, 20.0])
def test_random_rudders_stay_inside(speed, seconds):
    (boundary,) = reachable(speed, (seconds,))
    corners = boundary.polygon.numpy()
    places = wandering(speed, 2000, seconds).numpy()
    out = places[~Path(corners).contains_points(places)]
    gap = np.linalg.norm(out[:, None] - corners[None], axis=-1).min(1) if len(out) else np.zeros(1)
    size = np.linalg.norm(corners, axis=1).max()
    assert gap.max() < 0.02 * size, gap.max()  # the polygon cuts its own corners


def test_it_is_a_crescent_first_and_closes_behind_later():
    early, *_, late = reachable(300.0)
    widest = lambda b: math.degrees(math.atan2(b.outer[-1, 1], b.outer[-1, 0]))  # noqa: E731
    assert 40 < widest(early) < 60
    assert widest(late) == pytest.approx(180, abs=0.1)
    assert not Path(late.polygon.numpy()).contains_point((500.0, 0.0))  # it has left, and cannot be back yet
    assert late.mach.min() < 1 < late.mach.max()
    torch.testing.assert_close(late.outer, late.outer.flip(0) * torch.tensor([1.0, -1.0, 1.0]), atol=1e-2, rtol=0)


def test_native_paths_are_the_plain_ones():
    held, turn = torch.tensor([0.3, -1.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 2.0, -3.0])
    args = (torch.zeros(4, 2), torch.tensor([[250.0, 100.0]]).repeat(4, 1), held, turn, 900, 30)
    torch.testing.assert_close(torch.from_numpy(paths(*args)), plain_paths(*args), atol=0.5, rtol=1e-4)


def test_native_chases_are_the_plain_ones_and_end_with_the_hit():
    pos, vel = torch.tensor([[0.0, 0.0], [0.0, 3000.0]]), torch.tensor([[900.0, 0.0], [500.0, 200.0]])
    target, target_vel = torch.tensor([[9000.0, 0.0]]).repeat(2, 1), torch.tensor([[-300.0, 0.0]]).repeat(2, 1)
    args = (pos, vel, torch.tensor([300, 0]), target, target_vel, torch.tensor([0.0, 0.4]), 1200, 30)
    native, plain = torch.from_numpy(chases(*args)), plain_chases(*args)
    assert torch.equal(native.isnan(), plain.isnan())
    torch.testing.assert_close(native.nan_to_num(), plain.nan_to_num(), atol=1.0, rtol=1e-3)
    flown = int((~native[0, :, 0].isnan()).sum())
    assert 10 < flown < 20  # 9 km at some 1,300 m/s of closing speed: hit after 7 s, a row each half second
    assert speed_of(vel)[0] == native[0, 0, 2]


def test_the_shipped_sets_are_those_that_are_flown():
    sets = reachable_sets()
    row = int(np.flatnonzero(sets["speed"] == 300)[0])
    for k, boundary in enumerate(reachable(300.0)):
        assert boundary.time_s == sets["time"][k]
        np.testing.assert_allclose(sets["polygon"][row, k], boundary.polygon.numpy()[CORNERS], atol=1.1)
        np.testing.assert_allclose(sets["mach"][row, k], boundary.mach.numpy()[CORNERS], atol=0.011)
