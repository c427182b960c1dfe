"""AirCombatEnv: the contract, starts, seeds, time scales, state."""

from __future__ import annotations

import pytest
import torch
from duel_envs import Counting, make, pursuit, random_actions

from slipstream.collectors import SyncDataCollector
from slipstream.config.compose import load_train
from slipstream.tasks.aircombat.env import AirCombatConfig, AirCombatEnv
from slipstream.tasks.aircombat.observation import OBSERVED

GOLDEN_STARTS = [[46_562.3, 10_549.7, 3_437.7, 39_450.3], [37_669.9, 41_175.1, 12_330.1, 8_824.9]]


# -- starts and seeds ------------------------------------------------------------------------------------------------


def test_the_head_on_start_is_the_tasks():
    env = make(3, start="head_on")
    duels = env.engine.duels
    assert duels.pos[1].tolist() == [[10_000, 25_000], [40_000, 25_000]] and duels.vel[2].tolist() == [
        [300, 0],
        [-300, 0],
    ]
    assert (duels.left == 6).all() and (duels.winner == -1).all()


def test_random_starts_fill_their_limits_evenly():
    duels = make(4000).engine.duels
    distance = (duels.pos[:, 1] - duels.pos[:, 0]).norm(dim=-1)
    assert (
        distance.min() >= 15_000 - 1
        and distance.max() <= 60_000 + 1
        and distance.mean() == pytest.approx(37_500, rel=0.02)
    )
    speed = duels.vel.norm(dim=-1)
    assert speed.min() >= 249.9 and speed.max() <= 400.1 and speed.mean() == pytest.approx(325, rel=0.01)
    assert duels.left.min() == 1 and duels.left.max() == 6 and duels.left.float().mean() == pytest.approx(3.5, abs=0.1)
    angles = torch.atan2(duels.vel[..., 1], duels.vel[..., 0])
    assert torch.cos(angles).mean().abs() < 0.03 and torch.cos(angles[:, 0] - angles[:, 1]).mean().abs() < 0.04
    assert torch.allclose(duels.pos.mean(1), torch.tensor(25_000.0), atol=0.01)


def test_limits_of_random_starts_are_configuration():
    env = AirCombatEnv(
        50, config=load_train(["task=aircombat", "env.starts.range_m=[20000,21000]", "env.starts.missiles=[2,2]"]).env
    )
    distance = (env.engine.duels.pos[:, 1] - env.engine.duels.pos[:, 0]).norm(dim=-1)
    assert (
        env.config.start == "random"
        and distance.min() > 19_999
        and distance.max() < 21_001
        and (env.engine.duels.left == 2).all()
    )


def test_a_seed_always_gives_the_starts_it_gave_first():
    starts = make(2, seed=7).engine.duels.pos.reshape(2, 4)
    torch.testing.assert_close(starts, torch.tensor(GOLDEN_STARTS), rtol=0, atol=0.1)


def test_same_seed_same_duels_and_other_seeds_others(same_record):
    env, twin, other = make(seed=1), make(seed=1), make(seed=2)
    for action in random_actions(env, 40):
        a, b, c = env.step(action), twin.step(action), other.step(action)
        same_record(a, b)
    assert not torch.equal(a.observation["enemy"], c.observation["enemy"])


def test_a_duel_follows_from_seed_index_and_number_alone():
    few, many = make(2), make(6)
    mask = torch.tensor([True, False])
    few.reset(mask)
    many.reset(torch.cat((mask, torch.ones(4, dtype=torch.bool))))
    assert torch.equal(few.engine.duels.pos, many.engine.duels.pos[:2])


# -- the contract ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_the_record_that_ends_a_duel_holds_its_end_and_the_next_step_only_resets(sides, backend):
    env = make(2, sides=sides, episode_s=0.2, backend=backend, reward="outcome")  # three decisions of 4/60 s
    action = torch.zeros(*env.batch_shape, 3)
    for _ in range(2):
        assert not env.step(action).terminated.any()
    record = env.step(action)
    assert (
        record.terminated.shape == env.batch_shape
        and record.terminated.all()
        and not record.truncated.any()
        and record.valid.all()
    )
    assert (record.info["winner"] == 0).all() and (record.observation["own"][..., 9] == 0).all()  # no time left
    assert torch.allclose(record.reward, torch.tensor(-50 + 6 * 4 / 60))
    assert torch.allclose(record.info["episode_return"], torch.tensor(-50 + 6 * 12 / 60))
    record = env.step(action + 1)
    assert not record.valid.any() and not record.terminated.any() and (record.reward == 0).all()
    assert (record.info["elapsed_s"] == 0).all() and (record.info["episode_return"] == 0).all()
    assert env.engine.episode.tolist() == [2, 2] and (env.engine.duels.left > 0).all()
    assert env.step(action).valid.all()


def test_reset_with_a_mask_begins_only_those_and_clears_their_pending_resets():
    env = make(3, episode_s=1 / 60, time_scale=1.0)
    assert env.step(torch.zeros(3, 3)).terminated.all()
    kept = env.engine.duels.pos[1:].clone()
    env.reset(torch.tensor([True, False, False]))
    assert torch.equal(env.engine.duels.pos[1:], kept) and env.engine.duels.winner.tolist() == [-1, 0, 0]
    assert env.step(torch.zeros(3, 3)).valid.tolist() == [True, False, False]


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_reset_with_a_mask_leaves_what_the_others_saw_and_were_told_to_the_bit(backend):
    env = make(64, backend=backend, opponent="crank")
    for action in random_actions(env, 40):
        record = env.step(action)
    mask = torch.arange(64) < 8
    seen, told = ({name: x.clone() for name, x in facts.items()} for facts in (record.observation, record.info))
    fresh = env.reset(mask)
    assert all(torch.equal(fresh[name][~mask], x[~mask]) for name, x in seen.items())
    assert (
        all(torch.equal(record.info[name][~mask], x[~mask]) for name, x in told.items())
        and told["step_s"][~mask].min() > 0
    )
    assert (fresh["time_left"][mask] == 1).all() and (fresh["time_left"][~mask] < 1).all()


def test_observations_have_the_shapes_that_are_promised_and_names():
    for sides in (1, 2):
        env = make(5, sides=sides)
        observation = env.reset()
        assert {name: x.shape for name, x in observation.items()} == {
            name: (*env.batch_shape, *spec.shape) for name, spec in env.observation_spec.items()
        }
        assert all(observation[name].shape[: len(env.batch_shape)] == env.batch_shape for name in OBSERVED)
    with pytest.raises(KeyError):
        observation["enemy_rang"]


def test_what_a_side_sees_in_the_head_on_start():
    for view in make(2, start="head_on").views():
        assert view["enemy_range"].tolist() == pytest.approx([0.6, 0.6]) and view[
            "enemy_closing"
        ].tolist() == pytest.approx([0.6, 0.6])
        assert view["enemy_bearing_sin"].abs().max() < 1e-6 and (view["enemy_bearing_cos"] > 0.999).all()
        assert view["enemy_aspect_sin"].abs().max() < 1e-6 and (view["enemy_aspect_cos"] > 0.999).all()
        assert (
            view["own_speed"][0] == pytest.approx(0.6) and view["missiles_left"][0] == 1 and view["time_left"][0] == 1
        )
        assert view["own_alive"].tolist() == view["enemy_alive"].tolist() == [1, 1] and view[
            "can_fire"
        ].flatten().tolist() == [1, 1]
        assert view["incoming_1_present"].tolist() == [0, 0] and view["incoming_1_range"].tolist() == [2, 2]
        assert 0.9 < view["enemy_r_max"][0] < 1.9  # some 60 km
    one, two = make(2, start="head_on").views()
    assert one["own_heading_cos"][0] == 1 and two["own_heading_cos"][0] == -1
    assert one["own_x"][0] == pytest.approx(-0.6) and two["own_x"][0] == pytest.approx(0.6)


def test_incoming_missiles_are_told_nearest_first():
    env = make(1, sides=2, start="head_on", time_scale=60.0)
    fire, hold = torch.tensor([[[0.0, 1, 1]], [[0.0, 1, 0]]]), torch.tensor([[[0.0, 1, 0]], [[0.0, 1, 0]]])
    env.step(fire)  # two missiles, half a second apart
    env.step(hold)
    one, two = env.views()
    assert two["incoming_1_present"].tolist() == two["incoming_2_present"].tolist() == [1] and one[
        "incoming_1_present"
    ].tolist() == [0]
    assert two["incoming_1_range"] < two["incoming_2_range"] < 0.6 and two["incoming_1_closing"] > 0.6
    seconds = float(two["incoming_1_range"] * 50_000 / (two["incoming_1_closing"] * 1000))
    assert float(two["incoming_1_time_to_go"]) == pytest.approx(seconds / 60, rel=1e-4)
    assert two["incoming_1_bearing_cos"] > 0.999 and two["incoming_1_engine_on"] == 1
    assert one["missiles_in_flight"][0] == pytest.approx(2 / 6) and one["missiles_left"][0] == pytest.approx(4 / 6)
    assert two["can_fire"][0] == 1


# -- time scales -----------------------------------------------------------------------------------------------------


def outcomes_at_two_rates(num: int, decisions: int) -> torch.Tensor:
    """Flies the same duels at time_scale 1 and 8, with commands held on the grid of the slower; gives how each
    ended."""
    slow, fast = (make(num, sides=2, time_scale=scale, reward="zero") for scale in (8.0, 1.0))
    noise = torch.Generator().manual_seed(0)
    nobody = torch.zeros(num, dtype=torch.bool)
    for _ in range(decisions):
        command = pursuit(slow)
        command[..., 0] = (command[..., 0] + 0.6 * torch.randn(2, num, generator=noise)).clamp(-1, 1)
        command[..., 2] = (torch.rand(2, num, generator=noise) < 0.05).float()
        slow.engine.step(command.clone(), nobody)
        for _ in range(8):
            fast.engine.step(command.clone(), nobody)
    for name in ("winner", "clock", "pos", "missile_pos", "missile_age", "fired"):
        assert torch.equal(getattr(slow.engine.duels, name), getattr(fast.engine.duels, name)), name
    return slow.engine.duels.winner


def test_time_scale_1_and_8_end_every_duel_alike():
    ends = outcomes_at_two_rates(400, 450)
    assert all((ends == way).sum() > 20 for way in (0, 1, 2)) and not (ends == -1).any()


@pytest.mark.soak
def test_time_scale_1_and_8_end_every_one_of_10_000_duels_alike():
    outcomes_at_two_rates(10_000, 450)


@pytest.mark.parametrize(
    ("scale", "ticks", "dt"), [(1.0, 1, 1 / 60), (4.0, 4, 1 / 60), (2.5, 3, 2.5 / 180), (0.5, 1, 1 / 120)]
)
def test_a_decision_is_taken_in_sub_steps_of_at_most_a_sixtieth(scale, ticks, dt):
    env = make(1, time_scale=scale)
    assert env.engine.ticks == ticks and env.engine.rules.dt_s == pytest.approx(dt)
    assert env.step(torch.zeros(1, 3)).info["elapsed_s"].item() == pytest.approx(scale / 60, rel=1e-5)


def test_coarse_dt_takes_the_one_big_step():
    env = make(1, time_scale=8.0, coarse_dt=True)
    assert env.engine.ticks == 1 and env.engine.rules.dt_s == pytest.approx(8 / 60)


def test_the_reward_of_time_does_not_depend_on_the_time_scale():
    returns = []
    for scale in (1.0, 8.0):
        env = make(4, time_scale=scale, start="head_on")
        for _ in range(round(96 / scale)):
            record = env.step(torch.tensor([[0.0, 1, 0]]).repeat(4, 1))
        returns.append(record.info["episode_return"][0].item())
    assert returns[0] == pytest.approx(returns[1], rel=1e-4) and returns[0] == pytest.approx(6 * 96 / 60, rel=1e-4)


# -- state, capture, collecting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_saved_env_goes_on_bit_for_bit(backend, same_record):
    settings = {"opponent": f"{Counting.__module__}:Counting", "backend": backend, "episode_s": 3.0}
    env = make(6, **settings)
    actions = random_actions(env, 80)
    for action in actions[:50]:
        env.step(action)
    state = env.state_dict()
    twin = make(6, **settings)
    twin.load_state_dict(state)
    for action in actions[50:]:
        same_record(env.step(action), twin.step(action))


def test_the_state_of_another_seed_or_number_is_refused():
    with pytest.raises(ValueError, match="seed"):
        make(3, seed=1).load_state_dict(make(3, seed=2).state_dict())
    with pytest.raises(ValueError, match="build it with the num_envs and world of the saved one"):
        make(3).load_state_dict(make(4).state_dict())


def test_a_step_needs_no_value_and_no_shape_from_the_data():
    # a meta tensor has a shape and no values: any read-back, boolean index or data-dependent shape raises
    for sides in (1, 2):
        env = AirCombatEnv(6, "meta", 1, AirCombatConfig(sides=sides, start="random", time_scale=3.0))
        for _ in range(3):
            record = env.step(torch.zeros(*env.batch_shape, 3, device="meta"))
        env.reset(torch.ones(6, dtype=torch.bool, device="meta"))
        assert record.reward.shape == env.batch_shape and record.observation["enemy"].shape == (*env.batch_shape, 9)


def test_the_plain_step_compiles_as_one_graph():
    env = make(3, sides=2, backend="torch", time_scale=1.0)
    twin = make(3, sides=2, backend="torch", time_scale=1.0)
    compiled = torch.compile(lambda action: env.step(action).reward, backend="eager", fullgraph=True)
    for action in random_actions(env, 3):
        torch.testing.assert_close(compiled(action), twin.step(action).reward)


def test_a_collector_gathers_duels_and_their_ends():
    env = make(16, time_scale=8.0, episode_s=4.0)
    collector = SyncDataCollector(env, lambda observation: random_actions(env, 1)[0], frames_per_batch=16 * 40)
    batch = collector.rollout()
    assert (
        batch["observation", "incoming"].shape == (16, 40, 2, 7)
        and batch["terminated"].sum() == 16
        and not batch["truncated"].any()
    )
    facts = collector.episodes.pop()
    assert facts["count"] == 16 and facts["success"] + facts["lost"] + facts["draw"] == pytest.approx(1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("sides", [1, 2])
def test_steps_captured_as_a_cuda_graph_are_the_steps(sides, backend):
    from slipstream.algorithms.execution.graphs import GraphedFunction

    config = AirCombatConfig(sides=sides, start="random", time_scale=4.0, episode_s=2.0, backend=backend)
    env, twin = (AirCombatEnv(300, "cuda", 3, config) for _ in range(2))
    actions = random_actions(env, 5).cuda()
    told: list[str] = []

    def run() -> torch.Tensor:
        return torch.stack([env.step(action).reward for action in actions])

    captured = GraphedFunction(run, "the steps", told.append)
    for _ in range(12):
        expected = torch.stack([twin.step(action).reward for action in actions])
        torch.testing.assert_close(captured(), expected)
    assert told == [] and torch.equal(env.engine.episode, twin.engine.episode) and int(env.engine.episode.max()) > 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_seed_gives_the_same_duels_on_a_gpu():
    config = AirCombatConfig(sides=2, start="random", time_scale=4.0)
    cpu, gpu = (AirCombatEnv(200, device, 3, config) for device in ("cpu", "cuda"))
    for action in random_actions(cpu, 120):
        a, b = cpu.step(action), gpu.step(action.cuda())
    assert torch.equal(cpu.engine.duels.left, gpu.engine.duels.left.cpu())
    torch.testing.assert_close(b.observation["own"].cpu(), a.observation["own"], rtol=1e-3, atol=1e-3)
