"""AirCombatEnv: the contract, starts, seeds, time scales, state."""

from __future__ import annotations

import pytest
import torch
from duel_envs import Counting, make, random_actions

from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.physics.duel import StartConfig

GOLDEN_STARTS = [[46_562.3, 10_549.7, 3_437.7, 39_450.3], [37_669.9, 41_175.1, 12_330.1, 8_824.9]]


# -- starts and seeds ------------------------------------------------------------------------------------------------


def test_random_starts_fill_their_limits_evenly():
    duels = make(4000).engine.duels
    distance, speed = (duels.pos[:, 1] - duels.pos[:, 0]).norm(dim=-1), duels.vel.norm(dim=-1)
    for x, low, high in ((distance, 15_000, 60_000), (speed, 250, 400), (duels.left.float(), 1, 6)):
        assert x.min() >= 0.9999 * low and x.max() <= 1.0001 * high
        assert x.mean() == pytest.approx((low + high) / 2, rel=0.03)
    angles = torch.atan2(duels.vel[..., 1], duels.vel[..., 0])
    assert torch.cos(angles).mean().abs() < 0.03 and torch.cos(angles[:, 0] - angles[:, 1]).mean().abs() < 0.04
    assert torch.allclose(duels.pos.mean(1), torch.tensor(25_000.0), atol=0.01)


def test_a_seed_always_gives_the_starts_it_gave_first():
    starts = make(2, seed=7).engine.duels.pos.reshape(2, 4)
    torch.testing.assert_close(starts, torch.tensor(GOLDEN_STARTS), rtol=0, atol=0.1)


def test_a_duel_follows_from_seed_index_and_number_alone():
    few, many = make(2), make(6)
    mask = torch.tensor([True, False])
    few.reset(mask)
    many.reset(torch.cat((mask, torch.ones(4, dtype=torch.bool))))
    assert torch.equal(few.engine.duels.pos, many.engine.duels.pos[:2])


# -- time limits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("start", ["head_on", "random"])
def test_every_duel_may_have_a_time_limit_of_its_own(backend, start):
    env = make(400, sides=2, episode_s=(2.0, 6.0), backend=backend, start=start, starts=StartConfig(range_m=(6e4, 6e4)))
    straight = torch.tensor([0.0, 1.0, 0.0]).expand(2, 400, 3)
    left = env.views()[0]["time_left"] * 60
    assert 1.99 < left.min() < 2.05 and 5.95 < left.max() < 6.01 and left.mean() == pytest.approx(4, abs=0.2)
    ended = torch.zeros(400)
    for step in range(95):  # 6.3 s
        record = env.step(straight)
        elapsed = record.info["elapsed_s"][0]
        going = ended == 0
        assert torch.allclose((elapsed + record.observation["time_left"][0] * 60)[going], left[going], atol=1e-3)
        ended = torch.where(record.terminated[0] & going, (step + 1) * 4 / 60, ended)
    assert (record.info["winner"] <= 0).all() and (ended - left).abs().max() < 4.01 / 60
    again = make(400, sides=2, episode_s=(2.0, 6.0), backend=backend, start=start)
    assert torch.equal(again.views()[0]["time_left"] * 60, left)


@pytest.mark.parametrize("limit", [0.0, (6.0, 2.0), float("inf")])
def test_a_time_limit_that_cannot_be_is_refused(limit):
    with pytest.raises(
        ValueError, match=r"env.episode_s must be a positive number, or two of them, the lower one first"
    ):
        AirCombatConfig(episode_s=limit)


# -- the contract ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_record_holds_the_end_and_the_next_step_only_resets(sides, backend):
    env = make(2, sides=sides, episode_s=0.2, backend=backend, reward="outcome")  # three decisions of 4/60 s
    action = torch.zeros(*env.batch_shape, 3)
    for _ in range(2):
        assert not env.step(action).terminated.any()
    record = env.step(action)
    assert record.terminated.shape == env.batch_shape and record.terminated.all() and record.valid.all()
    assert not record.truncated.any()
    assert (record.info["winner"] == 0).all() and (record.observation["own"][..., 9] == 0).all()  # no time left
    assert torch.allclose(record.reward, torch.tensor(-50 + 6 * 4 / 60))
    assert torch.allclose(record.info["episode_return"], torch.tensor(-50 + 6 * 12 / 60))
    record = env.step(action + 1)
    assert not record.valid.any() and not record.terminated.any() and (record.reward == 0).all()
    assert (record.info["elapsed_s"] == 0).all() and (record.info["episode_return"] == 0).all()
    assert env.engine.episode.tolist() == [2, 2] and (env.engine.duels.left > 0).all()
    assert env.step(action).valid.all()


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_reset_with_a_mask_leaves_the_others_to_the_bit(backend):
    env = make(64, backend=backend, opponent="crank")
    for action in random_actions(env, 40):
        record = env.step(action)
    mask = torch.arange(64) < 8
    seen, info = ({name: x.clone() for name, x in facts.items()} for facts in (record.observation, record.info))
    fresh = env.reset(mask)
    assert all(torch.equal(fresh[name][~mask], x[~mask]) for name, x in seen.items())
    assert all(torch.equal(record.info[name][~mask], x[~mask]) for name, x in info.items())
    assert info["step_s"][~mask].min() > 0
    assert (fresh["time_left"][mask] == 1).all() and (fresh["time_left"][~mask] < 1).all()


def test_what_a_side_sees_in_the_head_on_start():
    one, two = make(2, start="head_on").views()
    seen = {"enemy_range": 0.6, "enemy_closing": 0.6, "own_speed": 0.6, "missiles_left": 1, "time_left": 1}
    seen |= {"own_alive": 1, "enemy_alive": 1, "can_fire": 1, "incoming_1_present": 0, "incoming_1_range": 2}
    seen |= {"enemy_bearing_sin": 0, "enemy_bearing_cos": 1, "enemy_aspect_sin": 0, "enemy_aspect_cos": 1}
    for view in (one, two):
        for name, value in seen.items():
            assert view[name].flatten().tolist() == pytest.approx([value] * 2, abs=1e-6), name
        assert 0.9 < view["enemy_r_max"][0] < 1.9  # some 60 km
    assert one["own_heading_cos"][0] == 1 and two["own_heading_cos"][0] == -1
    assert one["own_x"][0] == pytest.approx(-0.6) and two["own_x"][0] == pytest.approx(0.6)
    with pytest.raises(KeyError):
        one["enemy_rang"]


def test_incoming_missiles_come_nearest_first():
    env = make(1, sides=2, start="head_on", time_scale=60.0)
    fire, hold = torch.tensor([[[0.0, 1, 1]], [[0.0, 1, 0]]]), torch.tensor([[[0.0, 1, 0]], [[0.0, 1, 0]]])
    env.step(fire)  # two missiles, half a second apart
    env.step(hold)
    one, two = env.views()
    assert two["incoming_1_present"] == two["incoming_2_present"] == 1 and one["incoming_1_present"] == 0
    assert two["incoming_1_range"] < two["incoming_2_range"] < 0.6 and two["incoming_1_closing"] > 0.6
    seconds = float(two["incoming_1_range"] * 50_000 / (two["incoming_1_closing"] * 1000))
    assert float(two["incoming_1_time_to_go"]) == pytest.approx(seconds / 60, rel=1e-4)
    assert two["incoming_1_bearing_cos"] > 0.999 and two["incoming_1_engine_on"] == 1
    assert one["missiles_in_flight"][0] == pytest.approx(2 / 6) and one["missiles_left"][0] == pytest.approx(4 / 6)


# -- time scales -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "ticks", "dt"), [(1.0, 1, 1 / 60), (4.0, 4, 1 / 60), (2.5, 3, 2.5 / 180), (0.5, 1, 1 / 120)]
)
def test_a_decision_is_taken_in_sub_steps_of_at_most_a_sixtieth(scale, ticks, dt):
    env = make(1, time_scale=scale)
    assert env.engine.ticks == ticks and env.engine.rules.dt_s == pytest.approx(dt)
    assert env.step(torch.zeros(1, 3)).info["elapsed_s"].item() == pytest.approx(scale / 60, rel=1e-5)


# -- state, capture, collecting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("opponent", [f"{Counting.__module__}:Counting", "scripted"])
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_loaded_env_continues_bit_for_bit(backend, opponent, same_record):
    settings = {"opponent": opponent, "backend": backend, "episode_s": (1.0, 3.0)}
    env = make(6, **settings)
    actions = random_actions(env, 80)
    for action in actions[:50]:
        env.step(action)
    state = env.state_dict()
    twin = make(6, **settings)
    twin.load_state_dict(state)
    for action in actions[50:]:
        same_record(env.step(action), twin.step(action))


def test_the_state_of_another_seed_is_refused():
    with pytest.raises(ValueError, match="seed"):
        make(3, seed=1).load_state_dict(make(3, seed=2).state_dict())


def test_a_step_needs_no_value_and_no_shape_from_the_data():
    # a meta tensor has a shape and no values: any read-back, boolean index or data-dependent shape raises
    for sides in (1, 2):
        settings = {"start": "random", "time_scale": 3.0, "episode_s": (1.0, 3.0), "opponent": "scripted"}
        env = AirCombatEnv(6, "meta", 1, AirCombatConfig(sides=sides, **settings))
        for _ in range(3):
            record = env.step(torch.zeros(*env.batch_shape, 3, device="meta"))
        env.reset(torch.ones(6, dtype=torch.bool, device="meta"))
        assert record.reward.shape == env.batch_shape and record.observation["enemy"].shape == (*env.batch_shape, 9)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("sides", [1, 2])
def test_steps_captured_as_a_cuda_graph_are_the_steps(sides, backend):
    from slipstream.algorithms.execution.graphs import GraphedFunction

    config = AirCombatConfig(sides=sides, start="random", time_scale=4.0, episode_s=(1.0, 2.0), backend=backend)
    env, twin = (AirCombatEnv(300, "cuda", 3, config) for _ in range(2))
    actions = random_actions(env, 5).cuda()
    logged: list[str] = []

    def run() -> torch.Tensor:
        return torch.stack([env.step(action).reward for action in actions])

    captured = GraphedFunction(run, "the steps", logged.append)
    for _ in range(12):
        expected = torch.stack([twin.step(action).reward for action in actions])
        torch.testing.assert_close(captured(), expected)
    assert logged == [] and torch.equal(env.engine.episode, twin.engine.episode) and int(env.engine.episode.max()) > 1
