"""Shots: what one missile does against a target that keeps on or turns and runs, and that all forms agree on it."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import torch
from plain_flights import time_of_hit as plain_time_of_hit
from reach_table import HOLD, Geometry, placed, time_of_hit

from slipstream.tasks.aircombat.physics.duel import Rules, begin, fly
from slipstream.tasks.aircombat.physics.flight import FIGHTER, PHYSICS_DT_S


def drawn(count, seed=0):
    """Launches of all kinds: half at targets that keep on, half at ones that turn, from 300 m to 60 km."""
    u = torch.rand(count, 7, generator=torch.Generator().manual_seed(seed))
    geometry = Geometry(200 + 250 * u[:, 0], 200 + 250 * u[:, 1], math.pi * u[:, 2], math.pi * (2 * u[:, 3] - 1))
    keeps = u[:, 5] < 0.5
    turn = torch.where(keeps, 0.0, math.pi * (2 * u[:, 6] - 1))
    return (*placed(geometry, 300 * 200 ** u[:, 4]), turn, torch.where(keeps, HOLD, 1.0))


def head_on(meters, throttle=HOLD, turn=0.0):
    as_row = lambda *x: torch.tensor([x])  # noqa: E731
    state = (as_row(0.0, 0.0), as_row(300.0, 0.0), as_row(float(meters), 0.0), as_row(-300.0, 0.0))
    return (*state, torch.tensor([turn]), torch.tensor([throttle]))


def agree(found, expected):
    """The same hits but for a stray one at the edge, at the same times."""
    both = found.isfinite() & expected.isfinite()
    assert (found.isfinite() != expected.isfinite()).float().mean() <= 0.01
    late = (found - expected)[both].abs() > 0.1
    assert late.float().mean() <= 0.01, (found - expected)[both].abs().max()


def test_a_head_on_shot_is_timed_as_the_duel_itself_times_it():
    shot = head_on(20_000)
    duel = begin(torch.stack((shot[0], shot[2]), 1), torch.stack((shot[1], shot[3]), 1), torch.tensor([[1, 0]]))
    trimmed = FIGHTER.drag * 300**2 / FIGHTER.thrust_mps2  # the throttle that keeps 300 m/s
    command = torch.tensor([[[0.0, trimmed, 1.0], [0.0, trimmed, 0.0]]])
    ticks = 0
    while int(duel.winner[0]) < 0:
        fly(duel, command, Rules(), 1)
        ticks += 1
    assert int(duel.winner[0]) == 1
    for form in (plain_time_of_hit, time_of_hit):
        assert form(*shot).item() == pytest.approx(ticks * PHYSICS_DT_S, abs=1e-3)


def test_native_shots_end_as_plain_ones():
    shots = drawn(333)  # no multiple of the 16 that fly abreast
    agree(time_of_hit(*shots), plain_time_of_hit(*shots))


KERNEL_RUN = """
import torch
from test_shots import agree, head_on
from slipstream.tasks.aircombat.physics.flight import launch
from reach_table import time_of_hit
from shots_triton import time_of_hit as kernel
shots = [torch.cat(x) for x in zip(head_on(4_000), head_on(5_000, 1.0, 2.0), head_on(300, 1.0, -3.0))]
agree(kernel(*launch(*shots[:2]), *shots[2:]), time_of_hit(*shots))
print("same")
"""


def test_the_kernel_flies_alike_in_tritons_interpreter():
    pytest.importorskip("triton")
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KERNEL_RUN], env=env, capture_output=True, text=True)
    assert done.stdout.strip().endswith("same"), done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_kernel_flies_alike_on_a_gpu():
    shots = drawn(5000)
    agree(time_of_hit(*(x.cuda() for x in shots)).cpu(), time_of_hit(*shots))
