"""Every form of the duel against the float64 reference: after up to 60 s, to 1e-4 of the way flown."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from duel_reference import Duel

from slipstream.tasks.aircombat.physics.duel import CARRIED, GONE, Duels, Rules, begin, fly
from slipstream.tasks.aircombat.physics.engine import DuelConfig, make_engine

FAR = (400_000.0, 25_000.0, 0.0, 250.0)
PLANE = (10_000.0, 25_000.0, 300.0, 0.0)

# name: both planes, the commands of both sides at a time in seconds
SCENES = {
    "free flight": ([PLANE, FAR], lambda t: [(0.0, 0.5 + 0.5 * math.sin(t), False), (0.0, 1.0, False)]),
    "coasting": ([PLANE, FAR], lambda t: [(0.0, 0.0, False), (0.0, 0.0, False)]),
    "turning flight": ([PLANE, FAR], lambda t: [(math.sin(t / 3), 1.0, False), (0.7, 0.8, False)]),
    "fly-out of a missile": (
        [PLANE, (900_000.0, 25_000.0, 250.0, 0.0)],
        lambda t: [(0.0, 1.0, t < 0.01), (0.0, 1.0, False)],
    ),
    "guided shot at a crossing target": (
        [PLANE, (30_000.0, 31_000.0, 0.0, -300.0)],
        lambda t: [(0.0, 1.0, t < 0.01), (0.0, 1.0, False)],
    ),
    "guided shots at a weaving target, both sides": (
        [PLANE, (60_000.0, 20_000.0, -300.0, 50.0)],
        lambda t: [(0.1 * math.cos(t / 4), 1.0, t < 2.5), (0.6 * math.sin(t / 2), 1.0, 3 < t < 5)],
    ),
    "a tail chase that runs out": (
        [PLANE, (40_000.0, 27_000.0, 380.0, 0.0)],
        lambda t: [(0.0, 1.0, t < 0.01), (0.0, 1.0, False)],
    ),
    "a shot over the shoulder": (
        [PLANE, (2_000.0, 33_000.0, 300.0, 0.0)],
        lambda t: [(0.0, 1.0, t < 0.01), (0.0, 1.0, False)],
    ),
}


def commands_at(scene, step):
    """On a grid of a quarter second, so that every form is given the same."""
    return SCENES[scene][1](step // 15 / 4)


@cache
def reference(scene):
    duel = Duel(SCENES[scene][0])
    for step in range(3600):
        duel.step(commands_at(scene, step))
    return duel


@cache
def flown(form) -> Duels:
    """The final state of all scenes, side by side, in one form."""
    dtype = torch.float64 if form == "torch float64" else torch.float32
    planes = torch.tensor([scene[0] for scene in SCENES.values()], dtype=dtype)
    start = begin(planes[..., :2].clone(), planes[..., 2:].clone(), torch.full((len(SCENES), 2), CARRIED))
    if form.startswith("torch"):
        duels, rules = start, Rules()
        run = lambda command: fly(duels, command, rules, 15)  # noqa: E731
    else:
        engine = make_engine(len(SCENES), DuelConfig(time_scale=15), 0, "cpu", form)
        engine.duels.copy_(start)
        duels, nobody = engine.duels, torch.zeros(len(SCENES), dtype=torch.bool)
        run = lambda command: engine.step(command.transpose(0, 1).contiguous(), nobody)  # noqa: E731
    for decision in range(240):
        commands = [[[r, t, float(f)] for r, t, f in commands_at(scene, 15 * decision)] for scene in SCENES]
        run(torch.tensor(commands, dtype=dtype))
    return duels


def state_of(scene, form) -> Duels:
    """One scene's final state."""
    index = list(SCENES).index(scene)
    return Duels(**{name: x[index : index + 1] for name, x in flown(form).tensors().items()})


@pytest.mark.parametrize("form", ["torch float64", "torch float32", "native"])
@pytest.mark.parametrize("scene", SCENES)
def test_agrees_with_the_reference(scene, form):
    duel, duels = reference(scene), state_of(scene, form)
    assert int(duels.winner) == duel.winner
    assert int(duels.clock) == duel.step_count
    close = 1e-9 if form == "torch float64" else 1e-4
    for side, plane in enumerate(duel.planes):
        compare(duels.pos[0, side], duels.vel[0, side], plane, close)
        assert int(duels.left[0, side]) == duel.stock[side]
    flying = [slot for slot in range(12) if duels.missile_age[0, slot] != GONE]
    expected = sorted(duel.rockets, key=lambda r: (r.owner, -r.steps))
    assert len(flying) == len(expected)
    for slot, rocket in zip(flying, expected, strict=True):
        assert int(duels.missile_age[0, slot]) == rocket.steps and slot // CARRIED == rocket.owner
        # guided, float32: what the rudder saw is rounded to some parts in a million
        compare(duels.missile_pos[0, slot], duels.missile_vel[0, slot], rocket, max(close, 1e-7))


def compare(pos, vel, flyer, close):
    way = max(math.hypot(flyer.x, flyer.y), 10_000.0)
    assert math.hypot(float(pos[0]) - flyer.x, float(pos[1]) - flyer.y) <= close * way
    off = math.hypot(float(vel[0]) - flyer.vx, float(vel[1]) - flyer.vy)
    assert off <= close * max(math.hypot(flyer.vx, flyer.vy), 1.0) * 3


def test_the_scenes_hold_what_they_promise():
    ends = {scene: reference(scene) for scene in SCENES}
    assert ends["guided shot at a crossing target"].winner == 1
    assert ends["free flight"].winner == 0 and ends["free flight"].step_count == 3600
    assert len(ends["fly-out of a missile"].rockets) == 1
    assert any(duel.gone for duel in ends.values())  # a self-destruct
    assert any(len(duel.rockets) > 1 for duel in ends.values())
    assert {duel.winner for duel in ends.values()} >= {0, 1}
