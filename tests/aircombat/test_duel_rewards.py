"""ShapedReward by numbers, and its sums over duels flown at different rates."""

from __future__ import annotations

import pytest
import torch

from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.rewards import ShapedReward

ZEROS = {name: torch.zeros(1) for name in ("success", "lost", "draw", "shots")}


def view(range_km=40.0, r_max_km=20.0, time_s=60.0, closing=0.0, present=0.0):
    names = {"enemy_range": range_km / 50, "enemy_r_max": r_max_km / 50, "incoming_1_time_to_go": time_s / 60}
    names |= {"incoming_1_closing": closing, "incoming_1_present": present}
    return {name: torch.tensor([float(x)]) for name, x in names.items()}


def paid(before, after, done=False, **facts):
    info = ZEROS | {name: torch.tensor([float(x)]) for name, x in facts.items()}
    return ShapedReward().compute(before, after, torch.zeros(1, 3), torch.tensor([done]), info).item()


def test_coming_within_reach_is_paid_by_the_share_of_the_reach():
    assert paid(view(range_km=40), view(range_km=25)) == pytest.approx(4 * 0.35 * (0.8 - 0.5))
    assert paid(view(range_km=7), view(range_km=5)) == 0.0  # 0.35 of 20 km are 7: nearer is not better


def test_an_incoming_missile_costs_until_it_is_gone():
    danger = view(time_s=5, closing=0.8, present=1)
    assert paid(view(), danger) == pytest.approx(-2 * 0.75)
    assert paid(danger, view()) == pytest.approx(2 * 0.75)
    assert paid(view(), view(time_s=5, closing=-0.1, present=1)) == 0.0  # it flies away


@pytest.mark.parametrize(("fact", "worth"), [("success", 10.0), ("lost", -10.0), ("draw", -6.0)])
def test_the_outcome_is_paid_and_the_potential_ends_at_zero(fact, worth):
    assert paid(view(range_km=40), view(range_km=10), done=True, **{fact: 1.0}) == pytest.approx(worth - 4 * 0.35 * 0.5)


def flown(time_scale, seed=5):
    """Returns of duels without missiles fired by us, commands held for a second, at a rate of decisions."""
    env = AirCombatEnv(32, seed=seed, config=AirCombatConfig(start="random", time_scale=time_scale, reward="shaped"))
    plan = torch.rand(61, 32, 3, generator=torch.Generator().manual_seed(1)) * torch.tensor(
        [2.0, 1.0, 0.0]
    ) - torch.tensor([1.0, 0.0, 0.0])
    done, total = torch.zeros(32, dtype=torch.bool), torch.zeros(32)
    each = round(60 / time_scale)
    for step in range(61 * each):
        record = env.step(plan[min(step // each, 60)])
        ends = record.terminated & ~done
        total = torch.where(ends, record.info["episode_return"], total)
        done |= ends
        if done.all():
            break
    assert done.all()
    return total


def test_the_rate_of_decisions_does_not_change_what_a_duel_pays():
    slow, fast = flown(60), flown(15)
    torch.testing.assert_close(slow, fast, atol=1e-3, rtol=1e-4)
    assert slow.std() > 0.01  # they differ among one another


def test_shaping_sums_to_minus_the_potential_at_the_start():
    env = AirCombatEnv(16, seed=2, config=AirCombatConfig(start="random", time_scale=60, reward="shaped"))
    start = env.reward.potential(env.views()[0])
    total, done = torch.zeros(16), torch.zeros(16, dtype=torch.bool)
    for _ in range(61):
        record = env.step(torch.tensor([0.4, 0.6, 0.0]).expand(16, 3))
        total += torch.where(done, 0.0, record.reward)
        done |= record.terminated
    assert done.all()
    torch.testing.assert_close(total, -6.0 - start, atol=1e-4, rtol=0)  # nobody fires: sixteen draws
