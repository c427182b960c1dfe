"""Both dynamics: responses in numbers, and a quadrotor that no command within ±2 m/s upsets."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from slipstream.sim.frames import quat_to_matrix
from slipstream.tasks.navigation.physics.quadrotor import Quadrotor, Variation, VelocityLag

DT_S = 0.016


def _quadrotors(yaw: Tensor) -> Quadrotor:
    drones = Quadrotor(len(yaw), DT_S)
    drones.reset(torch.ones(len(yaw), dtype=torch.bool), torch.zeros(len(yaw), 3), yaw)
    return drones


def _tilt_deg(drones: Quadrotor) -> Tensor:
    return torch.rad2deg(torch.acos(quat_to_matrix(drones.quat)[:, 2, 2].clamp(-1, 1)))


# -- velocity lag ----------------------------------------------------------------------------------------------------


def test_the_lag_covers_63_percent_of_a_step_in_1_over_2_2_s():
    drones, command = VelocityLag(2, DT_S), torch.tensor([[2.0, -2.0, 1.0], [0.0, 0.5, -1.5]])
    seconds = 0.0
    while drones.vel[0, 0] < 2 * (1 - 1 / math.e):
        drones.advance(command, Variation.none(2, "cpu"))
        seconds += DT_S
    assert seconds == pytest.approx(1 / 2.2, abs=DT_S)
    torch.testing.assert_close(
        drones.vel / command.where(command != 0, torch.ones(())), drones.vel[0, 0] / 2 * (command != 0)
    )


def test_the_lag_moves_by_its_velocity_and_keeps_its_yaw():
    drones = VelocityLag(1, DT_S)
    drones.reset(torch.ones(1, dtype=torch.bool), torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([0.7]))
    drones.vel.fill_(1.0)
    drones.advance(torch.ones(1, 3), Variation.none(1, "cpu"))
    torch.testing.assert_close(drones.pos, torch.tensor([[1.016, 2.016, 3.016]]))
    assert drones.yaw.item() == pytest.approx(0.7)


@pytest.mark.parametrize("dynamics", [VelocityLag, Quadrotor])
def test_a_reset_touches_the_masked_drones_only(dynamics):
    drones = dynamics(3, DT_S)
    for _ in range(40):
        drones.advance(torch.tensor([[1.0, 2.0, -1.0]]).repeat(3, 1), Variation.none(3, "cpu"))
    before = {name: getattr(drones, name).clone() for name in drones.state_names}
    drones.reset(torch.tensor([False, True, False]), torch.full((3, 3), 9.0), torch.full((3,), 1.0))
    fresh = dynamics(1, DT_S)
    fresh.reset(torch.ones(1, dtype=torch.bool), torch.full((1, 3), 9.0), torch.full((1,), 1.0))
    for name, value in before.items():
        now = getattr(drones, name)
        assert torch.equal(now[[0, 2]], value[[0, 2]]), name
        assert torch.equal(now[1], getattr(fresh, name)[0]), name


# -- quadrotor: responses --------------------------------------------------------------------------------------------


def test_a_hovering_quadrotor_stays_where_it_is():
    drones = _quadrotors(torch.tensor([0.0, 1.0, -2.5]))
    for _ in range(1000):
        drones.advance(torch.zeros(3, 3), Variation.none(3, "cpu"))
    assert drones.pos.abs().max() < 1e-3 and drones.vel.abs().max() < 1e-4
    torch.testing.assert_close(drones.yaw, torch.tensor([0.0, 1.0, -2.5]), atol=1e-4, rtol=0)
    lift = 4 * 8.54858e-6 * (drones.throttle.mean() * 838) ** 2
    assert lift.item() == pytest.approx(0.716 * 9.81, rel=1e-4)


@pytest.mark.parametrize("command", [(2, 0, 0), (0, -2, 0), (0, 0, 2), (0, 0, -2), (1.5, -1.0, 0.5), (-2, 2, -2)])
def test_a_step_command_is_followed_and_settles(command):
    drones = _quadrotors(torch.tensor([0.0, 1.3, 3.0]))
    target = torch.tensor([command], dtype=torch.float32).repeat(3, 1)
    size = target[0].norm()
    log = []
    for _ in range(250):  # 4 s
        drones.advance(target, Variation.none(3, "cpu"))
        log.append(drones.vel.clone())
    error = (torch.stack(log) - target).norm(dim=-1) / size  # [250, 3]
    assert error[-1].max() < 0.02
    reached = (error < 1 / math.e).float().argmax(0) * DT_S
    assert (reached > 0.25).all() and (reached < 0.8).all()  # the lag's 1 / 2.2 s, and the attitude's own delay
    assert (torch.stack(log) * target / size**2).sum(-1).max() < 1.25  # overshoot
    assert (drones.yaw - torch.tensor([0.0, 1.3, 3.0])).abs().max() < 0.02


def test_the_first_reaction_to_a_command_is_a_tilt_towards_it():
    drones = _quadrotors(torch.tensor([0.0, math.pi / 2, math.pi, 0.3]))
    for _ in range(12):
        drones.advance(torch.tensor([[1.0, 0.0, 0.0]]).repeat(4, 1), Variation.none(4, "cpu"))
    thrust_axis = quat_to_matrix(drones.quat)[..., 2]
    assert (thrust_axis[:, 0] > 0.1).all() and (thrust_axis[:, 1].abs() < 0.01).all()


def test_a_throttle_closes_43_percent_of_its_gap_each_step():
    drones = _quadrotors(torch.zeros(1))
    hover = drones.throttle[0, 0].item()
    drones.advance(torch.tensor([[0.0, 0.0, 2.0]]), Variation.none(1, "cpu"))
    wanted = math.sqrt(0.716 * (9.81 + 2.2 * 2) / 4 / (8.54858e-6 * 838**2))
    assert drones.throttle[0].tolist() == pytest.approx([hover + 0.43 * (wanted - hover)] * 4, rel=1e-5)
    lift = 4 * 8.54858e-6 * 838**2 * drones.throttle[0, 0].item() ** 2
    assert drones.vel[0, 2].item() == pytest.approx((lift / 0.716 - 9.81) * DT_S, rel=1e-3)


@pytest.mark.parametrize(
    ("axis", "attitude_gain", "rate_gain"),
    [(0, 0.7, 0.1), (1, 0.7, 0.1), (2, 0.035, 0.025)],
    ids=["roll", "pitch", "yaw"],
)
def test_the_controller_asks_for_its_gains_times_tilt_and_rate(axis, attitude_gain, rate_gain):
    drones = _quadrotors(torch.zeros(1))
    angle, rate, max_thrust = 0.1, 0.2, 8.54858e-6 * 838**2
    drones.quat[0] = torch.tensor([math.cos(angle / 2), 0.0, 0.0, 0.0])
    drones.quat[0, 1 + axis] = math.sin(angle / 2)
    drones.omega[0, axis] = rate
    hover = drones.throttle[0].clone()
    drones.advance(torch.zeros(1, 3), Variation.none(1, "cpu"))
    asked = (
        ((drones.throttle[0] - hover) / 0.43 + hover) ** 2 * max_thrust
    ).tolist()  # N: rotors ahead, left, behind, right
    yaw_arm = 1.36777e-7 / 8.54858e-6
    torque = (
        0.17 * (asked[1] - asked[3]),
        0.17 * (asked[2] - asked[0]),
        yaw_arm * (asked[0] - asked[1] + asked[2] - asked[3]),
    )
    expected = [0.0, 0.0, 0.0]
    expected[axis] = -attitude_gain * math.sin(angle) - rate_gain * rate
    assert torque == pytest.approx(expected, abs=1e-4)
    assert sum(asked) == pytest.approx(0.716 * 9.81 * (1 if axis == 2 else math.cos(angle)), rel=1e-4)


def test_a_stronger_rotor_turns_the_body_away_from_it():
    drones = _quadrotors(torch.zeros(4))
    drones.throttle += 0.2 * torch.eye(4)  # rotors ahead, left, behind, right
    drones.advance(torch.zeros(4, 3), Variation.none(4, "cpu"))
    roll, pitch, yaw = drones.omega.T.tolist()
    arm, inertia = 0.17, 0.007
    assert (
        pitch[0] < -1e-3
        and pitch[2] == pytest.approx(-pitch[0])
        and roll[1] > 1e-3
        and roll[3] == pytest.approx(-roll[1])
    )
    assert max(map(abs, (roll[0], roll[2], pitch[1], pitch[3]))) < 1e-6
    assert abs(yaw[0]) > 1e-3 and yaw == pytest.approx(
        [yaw[0], -yaw[0], yaw[0], -yaw[0]]
    )  # neighbors spin against one another
    thrust = drones.throttle[1].square() * 8.54858e-6 * 838**2
    assert roll[1] == pytest.approx(float(arm * (thrust[1] - thrust[3]) / inertia * DT_S), rel=1e-4)


# -- quadrotor: no command upsets it ---------------------------------------------------------------------------------

DRONES = 1536
HOLD_STEPS = torch.tensor((1, 2, 3, 5, 8, 12, 20, 30, 45, 60, 90, 125))[
    torch.arange(DRONES) % 12
]  # between changes of command
Pilot = Callable[[Quadrotor, int], Tensor]


def _random(corners: bool) -> Pilot:
    generator = torch.Generator().manual_seed(7)
    held = torch.zeros(DRONES, 3)

    def command(drones: Quadrotor, step: int) -> Tensor:
        fresh = torch.rand(DRONES, 3, generator=generator) * 4 - 2
        fresh = fresh.sign() * 2 if corners else fresh
        held.copy_(torch.where((step % HOLD_STEPS == 0)[:, None], fresh, held))
        return held

    return command


def _reversals(drones: Quadrotor, step: int) -> Tensor:
    axes = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, -1, 0], [1, 1, 1], [1, 1, -1]])[
        torch.arange(DRONES) % 7
    ]
    return axes * (step // HOLD_STEPS % 2 * 4.0 - 2)[:, None]


def _after(first_steps: int, then: Pilot) -> Pilot:
    start = _random(corners=True)
    return lambda drones, step: start(drones, step) if step < first_steps else then(drones, step)


def _against_the_velocity(drones: Quadrotor, step: int) -> Tensor:
    return -2 * drones.vel.sign()


def _with_the_rotation(drones: Quadrotor, step: int) -> Tensor:
    """Asks for what speeds up the present rotation, with the least thrust to stop it."""
    rotation = quat_to_matrix(drones.quat)
    spin = (rotation @ drones.omega[..., None])[..., 0]
    command = 2 * torch.linalg.cross(spin, rotation[..., 2]).sign()
    command[:, 2] = -2.0
    return command


def _against_the_tilt(drones: Quadrotor, step: int) -> Tensor:
    command = -2 * quat_to_matrix(drones.quat)[..., 2].sign()
    command[:, 2] = 2.0 if step % 40 < 20 else -2.0
    return command


PILOTS: dict[str, Callable[[], Pilot]] = {
    "random": lambda: _random(corners=False),
    "random corners": lambda: _random(corners=True),
    "full reversals": lambda: _reversals,
    "against the velocity": lambda: _after(30, _against_the_velocity),
    "with the rotation": lambda: _after(30, _with_the_rotation),
    "against the tilt": lambda: _after(30, _against_the_tilt),
}


@pytest.mark.parametrize("pilot", PILOTS)
def test_no_command_within_2_m_s_upsets_the_quadrotor(pilot):
    drones = _quadrotors(torch.linspace(-3, 3, DRONES))
    command, nominal = PILOTS[pilot](), Variation.none(DRONES, "cpu")
    fastest, steepest, wildest = torch.zeros(()), torch.zeros(()), torch.zeros(())
    for step in range(500):
        drones.advance(command(drones, step), nominal)
        fastest = torch.maximum(fastest, drones.vel.abs().max())
        steepest = torch.maximum(steepest, _tilt_deg(drones).max())
        wildest = torch.maximum(wildest, drones.omega.abs().max())
    assert fastest < 3.2 and steepest < 70 and wildest < 9  # m/s on an axis, degrees, rad/s; a NaN fails too
    assert (drones.quat.norm(dim=-1) - 1).abs().max() < 1e-5
    held = _random(corners=True)(drones, 0)
    for _ in range(320):  # 5 s
        drones.advance(held, nominal)
    assert (drones.vel - held).abs().max() < 0.04
    assert (drones.yaw - torch.linspace(-3, 3, DRONES)).abs().max() < 0.05
    assert drones.omega.abs().max() < 0.05


@pytest.mark.parametrize("change", [0.7, 1.3])
def test_other_masses_gains_and_winds_do_not_upset_it_either(change):
    drones = _quadrotors(torch.linspace(-3, 3, DRONES))
    push = torch.tensor((2.0, -1.0, 1.0)).repeat(DRONES, 1)
    varied = Variation(torch.full((DRONES,), change), torch.full((DRONES,), 2 - change), push)
    command = _random(corners=True)
    for step in range(400):
        drones.advance(command(drones, step), varied)
        assert drones.omega.abs().max() < 12
    assert drones.vel.abs().max() < 8 and _tilt_deg(drones).max() < 75
