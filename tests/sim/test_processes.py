"""Work in several processes against the same work in this one."""

import subprocess
import sys

import numpy as np
import pytest

from slipstream.sim import processes
from slipstream.sim.processes import map_in_processes
from slipstream.tasks.navigation.physics.maps import place_boxes, place_moving


def are_equal(one, other):
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(one, other, strict=True))


@pytest.mark.parametrize(("function", "more"), [(place_boxes, ()), (place_moving, (4.5,))])
def test_other_processes_place_the_same_obstacles(function, more):
    items = [(seed, 40, 20.0, *more) for seed in range(5)]
    assert are_equal(processes._map(function, items, 2), map_in_processes(function, items, 1))


@pytest.mark.parametrize("command", ["/no/such/python", "false"])
def test_without_other_processes_the_work_is_done_here(monkeypatch, command):
    items = [(seed, 8, 20.0) for seed in range(4)]
    expected = map_in_processes(place_boxes, items, 1)
    monkeypatch.setattr(sys, "executable", command)
    assert are_equal(map_in_processes(place_boxes, items, 2), expected)


def test_maps_are_placed_without_torch():
    code = f"import sys, {place_boxes.__module__}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
