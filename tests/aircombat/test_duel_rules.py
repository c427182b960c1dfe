"""The rules of a duel, in situations made by hand, in the plain and in the native form."""

from __future__ import annotations

import pytest
import torch

from slipstream.tasks.aircombat.physics.duel import CARRIED, GONE, begin
from slipstream.tasks.aircombat.physics.engine import FACTS, DuelConfig, make_engine

HOLD = (0.0, 1.0, 0.0)
FIRE = (0.0, 1.0, 1.0)
APART = [(0.0, 0.0, 300.0, 0.0), (30_000.0, 0.0, -300.0, 0.0)]


class Table:
    """One duel on an engine, set up and stepped by hand."""

    def __init__(self, form: str, planes=APART, missiles=(6, 6), time_scale=1.0, **config) -> None:
        self.engine = make_engine(1, DuelConfig(time_scale=time_scale, **config), 0, "cpu", form)
        rows = torch.tensor([planes])
        self.engine.duels.copy_(begin(rows[..., :2].clone(), rows[..., 2:].clone(), torch.tensor([missiles])))
        self.duels = self.engine.duels

    def put_missile(self, side, x, y, vx, vy, age, number=0):
        slot = (side - 1) * CARRIED + number
        self.duels.missile_pos[0, slot] = torch.tensor([x, y])
        self.duels.missile_vel[0, slot] = torch.tensor([vx, vy])
        self.duels.missile_age[0, slot] = age

    def step(self, one=HOLD, two=HOLD, times=1):
        nobody = torch.zeros(1, dtype=torch.bool)
        for _ in range(times):
            self.engine.step(torch.tensor([[one], [two]]), nobody)
        return self

    def fact(self, name):
        return self.engine.facts[FACTS.index(name), :, 0].tolist()

    @property
    def winner(self):
        return int(self.duels.winner)


@pytest.fixture(params=["torch", "native"])
def table(request):
    return lambda *args, **kw: Table(request.param, *args, **kw)


@pytest.mark.parametrize(("offset", "hits"), [(99.0, True), (101.0, False)])
def test_a_missile_is_judged_by_its_closest_approach(table, offset, hits):
    planes = [(-50_000.0, 0.0, 300.0, 0.0), (0.0, 0.0, 0.001, 0.0)]
    duel = table(planes, time_scale=60, coarse_dt=True)  # one step of a second: 1,000 m
    duel.put_missile(1, -500.0, offset, 1000.0, 0.0, 0)  # its first step is straight
    duel.step(two=(0.0, 0.0, 0.0))
    assert (duel.winner == 1) is hits


def test_both_killed_in_the_same_sub_step_is_a_draw(table):
    duel = table(time_scale=60)
    duel.put_missile(1, 29_000.0, 0.0, 1000.0, 0.0, 600)
    duel.put_missile(2, 1_000.0, 0.0, -1000.0, 0.0, 600)
    duel.step()
    assert duel.winner == 0 and duel.duels.alive[0].tolist() == [False, False]
    assert duel.fact("draw") == [1, 1] and duel.fact("hits") == [1, 1]


def test_no_missiles_on_either_side_and_none_in_flight_is_a_draw(table):
    duel = table(missiles=(0, 1)).step()
    assert duel.winner == -1
    duel.step(two=FIRE)
    assert duel.winner == -1 and duel.duels.left[0].tolist() == [0, 0]  # one is in flight
    duel.duels.missile_age.fill_(GONE)
    assert duel.step().winner == 0


def test_the_timeout_is_a_draw_at_its_very_tick(table):
    duel = table(episode_s=0.5).step(times=29)
    assert duel.winner == -1
    assert duel.step().winner == 0 and duel.fact("elapsed_s")[0] == pytest.approx(0.5)


def test_a_duel_that_ends_inside_a_decision_keeps_its_end(table):
    duel = table(time_scale=60)
    duel.put_missile(2, 1_000.0, 0.0, -1000.0, 0.0, 600)
    duel.step()
    ended, clock = duel.duels.pos.clone(), int(duel.duels.clock)
    assert duel.winner == 2 and 30 < clock < 60
    assert duel.fact("step_s")[0] == pytest.approx(clock / 60, rel=1e-5)
    duel.step(FIRE, FIRE)
    assert torch.equal(duel.duels.pos, ended) and int(duel.duels.clock) == clock and duel.winner == 2
    assert duel.duels.left[0].tolist() == [6, 6] and duel.fact("step_s") == [0, 0]


def test_fire_is_held_and_bound_by_the_cooldown(table):
    duel = table(time_scale=60).step(one=FIRE)  # one second: at 0 and at 0.5 s
    assert duel.duels.left[0].tolist() == [4, 6] and duel.fact("shots") == [2, 0]
    assert duel.duels.missile_age[0, :3].tolist() == [60, 30, GONE]
    duel.step(one=FIRE)
    assert duel.fact("fired") == [4, 0] and duel.fact("shots") == [2, 0]


def test_a_slow_missile_destroys_itself_only_after_burn_out(table):
    duel = table()
    duel.put_missile(1, -20_000.0, 0.0, 150.0, 0.0, 300)
    duel.put_missile(1, -21_000.0, 0.0, 150.0, 0.0, 600, number=1)
    duel.put_missile(1, -22_000.0, 0.0, 250.0, 0.0, 600, number=2)
    duel.put_missile(1, -23_000.0, 0.0, 150.0, 0.0, 598, number=3)
    duel.put_missile(1, -24_000.0, 0.0, 150.0, 0.0, 599, number=4)  # burnt out at the end of this step
    duel.step()
    assert duel.duels.missile_age[0, :5].tolist() == [301, GONE, 601, 599, GONE]


def test_a_new_start_replaces_the_step_and_clears_everything(table):
    duel = table().step(FIRE, FIRE, times=5)
    begun = int(duel.engine.episode)
    duel.engine.step(torch.tensor([[FIRE], [FIRE]]), torch.ones(1, dtype=torch.bool))
    duels = duel.duels
    assert duels.pos[0].tolist() == [[10_000, 25_000], [40_000, 25_000]]
    assert (duels.missile_age == GONE).all() and duels.left[0].tolist() == [6, 6] and int(duels.clock) == 0
    assert duel.fact("fired") == [0, 0] and duel.fact("step_s") == [0, 0] and int(duel.engine.episode) == begun + 1
