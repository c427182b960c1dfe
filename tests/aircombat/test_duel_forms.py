"""The native form and the Triton kernel do what the plain form does; and a decision may be cut into sub-steps at
will."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from reach_table import grid

from slipstream.tasks.aircombat.physics.engine import DuelConfig, DuelEngine, make_engine
from slipstream.tasks.aircombat.reach.table import ReachTable, pseudo_angle


def commands(num: int, generator: torch.Generator) -> torch.Tensor:
    """Random rudder, throttle and fire [2, N, 3]."""
    command = torch.rand(2, num, 3, generator=generator)
    command[..., 0] = 2 * command[..., 0] - 1
    return command


def ordered(view: torch.Tensor) -> torch.Tensor:
    """The view, with the slower first of two missiles that are equally far to rounding: either may be the nearest."""
    other, one, two = view[..., :20], view[..., 20:27], view[..., 27:34]
    swap = ((one[..., :1] - two[..., :1]).abs() < 1e-6) & (one[..., 3:4] > two[..., 3:4])
    return torch.cat((other, torch.where(swap, two, one), torch.where(swap, one, two), view[..., 34:]), -1)


def assert_same(plain: DuelEngine, other: DuelEngine, meters: float) -> None:
    for name, x in plain.duels.tensors().items():
        y = getattr(other.duels, name).cpu()
        if x.is_floating_point():
            torch.testing.assert_close(y, x, rtol=1e-5, atol=meters, msg=lambda text, name=name: f"{name}: {text}")
        else:
            assert torch.equal(x, y), name
    torch.testing.assert_close(ordered(other.view.cpu()), ordered(plain.view), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(other.facts.cpu(), plain.facts, rtol=1e-5, atol=1e-5)
    assert torch.equal(plain.bad, other.bad.cpu()) and torch.equal(plain.episode, other.episode.cpu())


def stage(engine: DuelEngine) -> None:
    """What random play seldom shows: a missile too slow to live on, a kill, a draw by two kills, the last missiles
    gone, a timeout."""
    duels, slow, near = engine.duels, torch.tensor([150.0, 10.0]), torch.tensor([110.0, 40.0])
    burn = engine.rules.burn
    for slot, age in ((0, burn - 1), (1, burn + 50), (7, burn // 2)):
        duels.missile_vel[0, slot], duels.missile_age[0, slot] = slow.to(engine.device), age
    for duel, slot in ((1, 6), (2, 5), (2, 11)):
        duels.missile_pos[duel, slot] = duels.pos[duel, 1 - slot // 6] + near.to(engine.device)
        duels.missile_vel[duel, slot], duels.missile_age[duel, slot] = (
            duels.vel[duel, 1 - slot // 6] - 20 * near.to(engine.device),
            20,
        )
    duels.left[:4] = 0
    duels.clock[4] = engine.rules.limit - 1
    engine.refresh()


def compare(other: DuelEngine, decisions: int, meters: float) -> None:
    """Flies both with the same commands, some of them bad, and the same resets."""
    plain = DuelEngine(other.num, other.config, 7)
    everyone = torch.ones(other.num, dtype=torch.bool)
    for engine in (plain, other):
        engine.begin(everyone.to(engine.device))
        stage(engine)
    generator = torch.Generator().manual_seed(1)
    for decision in range(decisions):
        command = commands(other.num, generator)
        resetting = torch.rand(other.num, generator=generator) < (0.1 if decision else 0.0)
        if decision == 3:
            command[0, 0, 0], command[1, 1, 1], command[1, 2, 2] = float("nan"), float("inf"), -3.0
        mine, theirs = command.clone(), command.to(other.device)
        plain.step(mine, resetting)
        other.step(theirs, resetting.to(other.device))
        assert torch.equal(mine, theirs.cpu())
        assert_same(plain, other, meters)
        if decision == 0:
            assert plain.duels.winner[:5].tolist() == [-1, 2, 0, 0, 0]
            assert (plain.duels.missile_age[0, [0, 1, 7]] < 0).tolist() == [True, True, False]


@pytest.mark.parametrize("start", ["random", "head_on"])
@pytest.mark.parametrize("scale", [{"time_scale": 1.0}, {"time_scale": 7.5}, {"time_scale": 8.0, "coarse_dt": True}])
def test_the_native_form_agrees(start, scale):
    compare(make_engine(40, DuelConfig(start=start, **scale), 7, "cpu", "native"), 40, meters=0.5)


KERNEL_RUN = """
from test_duel_forms import compare
from slipstream.tasks.aircombat.physics.engine import DuelConfig
from slipstream.tasks.aircombat.physics.engine_triton import TritonEngine
for start, decisions in (("random", 6), ("head_on", 2)):
    compare(TritonEngine(7, DuelConfig(start=start, time_scale=2.5), 7, "cpu"), decisions, meters=0.5)
print("same")
"""


def test_the_kernel_agrees_in_tritons_interpreter():
    pytest.importorskip("triton")
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KERNEL_RUN], env=env, capture_output=True, text=True)
    assert done.stdout.strip().endswith("same"), done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("start", ["random", "head_on"])
@pytest.mark.parametrize("scale", [{"time_scale": 1.0}, {"time_scale": 8.0}, {"time_scale": 8.0, "coarse_dt": True}])
def test_the_kernel_agrees_on_a_gpu(start, scale):
    compare(make_engine(1000, DuelConfig(start=start, **scale), 7, "cuda", "triton"), 60, meters=1.0)


@pytest.mark.parametrize("form", ["torch", "native"])
def test_sub_steps_do_not_depend_on_how_they_are_grouped(form):
    one, eight = (make_engine(50, DuelConfig(time_scale=scale, start="random"), 3, "cpu", form) for scale in (1.0, 8.0))
    everyone, nobody = torch.ones(50, dtype=torch.bool), torch.zeros(50, dtype=torch.bool)
    for engine in (one, eight):
        engine.begin(everyone)
    generator = torch.Generator().manual_seed(2)
    for _ in range(30):
        command = commands(50, generator)
        for _ in range(8):
            one.step(command.clone(), nobody)
        eight.step(command.clone(), nobody)
    for name, x in one.duels.tensors().items():
        if name not in ("shots", "hits"):  # of the last decision
            assert torch.equal(x, getattr(eight.duels, name)), name


# -- the table of reach ----------------------------------------------------------------------------------------------


def test_the_table_interpolates_a_linear_field_exactly():
    own, target, bearing, aspect = grid(3, 4, 5, 6)
    pseudo = [pseudo_angle(torch.cos(x), torch.sin(x)) for x in (bearing, aspect)]
    pseudo[1][..., 0] = -2.0  # -180°, which the sine cannot tell from 180°
    pseudo[0][..., -1, :] = 2.0
    field = own + 2 * target + 1000 * pseudo[0] - 500 * pseudo[1]
    table = replace(ReachTable.load(), values=field[None].float())
    found = table.lookup(own.float(), target.float(), pseudo[0].float(), pseudo[1].float())[..., 0]
    torch.testing.assert_close(found, field.float(), rtol=1e-5, atol=1e-3)
    middle = table.lookup(torch.tensor([333.0]), torch.tensor([411.0]), torch.tensor([0.7]), torch.tensor([-1.3]))
    assert float(middle) == pytest.approx(333 + 822 + 700 + 650, rel=1e-5)


def test_mirrored_launches_reach_alike_and_speeds_are_clipped():
    table = ReachTable.load()
    own, target, bearing, aspect = (torch.tensor([x]) for x in (300.0, 320.0, 0.4, -0.9))
    assert torch.equal(table.lookup(own, target, bearing, aspect), table.lookup(own, target, -bearing, -aspect))
    fast, edge = (table.lookup(torch.tensor([speed]), target, bearing, aspect) for speed in (900.0, 550.0))
    assert torch.equal(fast, edge)
