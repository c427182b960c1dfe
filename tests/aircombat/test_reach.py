"""Reach: what r_max, r_min and r_ne promise, held against launches flown one by one."""

from __future__ import annotations

import math

import evasions
import pytest
import torch
from reach_table import HOLD, Geometry, envelope, placed, time_of_hit

SPEEDS = (200.0, 450.0)


def drawn(count, seed=0, speeds=SPEEDS):
    u = torch.rand(count, 4, generator=torch.Generator().manual_seed(seed))
    low, high = speeds
    return Geometry(
        low + (high - low) * u[:, 0], low + (high - low) * u[:, 1], math.pi * u[:, 2], math.pi * (2 * u[:, 3] - 1)
    )


def keep_on(geometry, distance):
    """Which straight flyers are hit from `distance` [P, K]."""
    state = (x.reshape(-1, 2) for x in placed(geometry, distance))
    zero = torch.zeros(distance.numel())
    return time_of_hit(*state, zero, zero + HOLD).isfinite().view(distance.shape)


def picked(geometry, where):
    return Geometry(*(x[where] for x in (geometry.own_speed, geometry.target_speed, geometry.bearing, geometry.aspect)))


def hold_straight(pairs, launches, speeds=SPEEDS, seed=1):
    geometry = drawn(pairs, seed, speeds)
    found = envelope(geometry)
    nearest, farthest = 1.05 * found.r_min, 0.95 * found.r_max
    some = farthest > nearest
    assert some.float().mean() > 0.6  # most geometries have launches that hit
    share = torch.rand(pairs, launches, generator=torch.Generator().manual_seed(2))
    share[:, 0], share[:, 1] = 0, 1
    inside = keep_on(geometry, nearest[:, None] + (farthest - nearest)[:, None] * share)
    beyond = keep_on(geometry, (found.r_max.clamp(min=100.0)[:, None] * (1.05 + share)))
    return (~inside & some[:, None]).sum().item(), (beyond & (found.r_max > 0)[:, None]).sum().item()


def hold_escapes(pairs, seed=3):
    """The shares of targets at 0.9 r_ne hit, by family; and how many there were of each."""
    geometry = drawn(pairs, seed)
    found = envelope(geometry)
    geometry, r_ne = picked(geometry, found.r_ne > 0), found.r_ne[found.r_ne > 0]
    u = torch.rand(len(r_ne), 4, generator=torch.Generator().manual_seed(seed + 1))
    shares = {
        name: evasions.hits(placed(geometry, 0.9 * r_ne), family(u)).float().mean().item()
        for name, family in evasions.FAMILIES.items()
    }
    return shares, len(r_ne)


def test_straight_flyers_inside_are_hit_and_none_beyond():
    missed, hit_beyond = hold_straight(60, 24)
    assert (missed, hit_beyond) == (0, 0)


def test_targets_inside_r_ne_are_hit_whatever_they_fly():
    shares, count = hold_escapes(80)
    assert count > 25
    assert sum(shares.values()) / len(shares) >= 0.95, shares
    assert min(shares.values()) >= 0.9, (
        shares
    )  # each family alone is held to 0.95 in full, where one shot does not decide


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 12])  # 1 has gaps of 3 % far below r_max, 12 one with a frayed end
def test_straight_flyers_inside_are_hit_in_full(seed):
    assert hold_straight(4000, 64, seed=seed) == (0, 0)


@pytest.mark.parametrize(("seed", "pair"), [(1, 2873), (1, 3420), (12, 2384)])
def test_gaps_that_are_narrow_or_frayed_move_r_min(seed, pair):
    geometry = picked(drawn(4000, seed), torch.tensor([pair]))
    found = envelope(geometry)
    nearest, farthest = 1.05 * found.r_min, 0.95 * found.r_max
    assert keep_on(geometry, nearest + (farthest - nearest) * torch.linspace(0, 1, 3000)[None]).all()
    assert not keep_on(geometry, torch.linspace(0.5, 1.0, 1000)[None] * found.r_min).all()  # there is a gap


@pytest.mark.soak
def test_targets_inside_r_ne_are_hit_in_full():
    shares, count = hold_escapes(4000)
    print(count, shares)
    assert min(shares.values()) >= 0.95, shares


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_search_finds_the_same_and_can_be_captured():
    there = drawn(200, seed=8)
    here = Geometry(*(x.cuda() for x in (there.own_speed, there.target_speed, there.bearing, there.aspect)))
    plain = envelope(here)  # also compiles the kernel
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = envelope(here)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured.r_max, plain.r_max) and torch.equal(captured.r_ne, plain.r_ne)
    expected = envelope(there)
    for name, share in (("r_max", 0.98), ("r_ne", 0.9)):
        a, b = getattr(plain, name).cpu(), getattr(expected, name)
        assert ((a - b).abs() <= 0.01 * b + 1).float().mean() >= share, name
