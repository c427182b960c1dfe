"""The observation of both sides of all duels, in plain tensors: one packed tensor [2, N, WIDTH]; `observation` names its columns."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.tasks.aircombat.observation import (
    ABSENT,
    CLOSING_SCALE_MPS,
    INCOMING,
    POSITION_SCALE_M,
    RANGE_SCALE_M,
    SPEED_SCALE_MPS,
    TIME_SCALE_S,
)
from slipstream.tasks.aircombat.physics.airframe import speed_of
from slipstream.tasks.aircombat.physics.duel import CARRIED, GONE, SIDES, Duels, Rules, can_fire, targets_of
from slipstream.tasks.aircombat.reach.reach_table import ReachTable, pseudo_angle


def view_of_sides(duels: Duels, rules: Rules, table: ReachTable) -> Tensor:
    """What both sides see [2, N, WIDTH]."""
    heading = duels.vel / speed_of(duels.vel)[..., None]  # [N, 2, 2]
    parts = (_own(duels, rules, heading), _enemy(duels, heading, table), _incoming(duels, rules, heading))
    return torch.cat((*parts, can_fire(duels).to(heading.dtype)[..., None]), -1).transpose(0, 1)


def _own(duels: Duels, rules: Rules, heading: Tensor) -> Tensor:
    dtype = heading.dtype
    place = duels.pos / POSITION_SCALE_M - 1
    time_left = (rules.limit - duels.clock).to(dtype) * (rules.dt_s / TIME_SCALE_S)
    flying = (duels.missile_age != GONE).reshape(-1, SIDES, CARRIED).sum(-1)
    columns = (
        place[..., 0],
        place[..., 1],
        heading[..., 1],
        heading[..., 0],
        speed_of(duels.vel) / SPEED_SCALE_MPS,
        duels.left.to(dtype) / CARRIED,
        flying.to(dtype) / CARRIED,
        duels.cooldown.to(dtype) / rules.cooldown,
        duels.rudder,
        time_left[:, None].expand(-1, SIDES),
        duels.alive.to(dtype),
    )
    return torch.stack(columns, -1)


def _enemy(duels: Duels, heading: Tensor, table: ReachTable) -> Tensor:
    speed = speed_of(duels.vel)
    distance, line = _towards(duels.pos.flip(1) - duels.pos)
    bearing = _off(heading, line)
    aspect = _off(heading.flip(1), -line)
    closing = ((duels.vel - duels.vel.flip(1)) * line).sum(-1)
    r_max = table.lookup(speed, speed.flip(1), pseudo_angle(bearing[1], bearing[0]), pseudo_angle(aspect[1], aspect[0]))
    columns = (
        distance / RANGE_SCALE_M,
        *bearing,
        *aspect,
        closing / CLOSING_SCALE_MPS,
        speed.flip(1) / SPEED_SCALE_MPS,
        r_max / RANGE_SCALE_M,
        duels.alive.flip(1).to(heading.dtype),
    )
    return torch.stack(columns, -1)


def _incoming(duels: Duels, rules: Rules, heading: Tensor) -> Tensor:
    """The nearest missiles that come for each side [N, 2, INCOMING * columns]."""
    num, dtype = len(heading), heading.dtype
    distance, line = _towards(duels.missile_pos - targets_of(duels.pos))  # from the target to the missile [N, 12]
    flies = duels.missile_age != GONE
    bearing = _off(targets_of(heading), line)
    closing = ((targets_of(duels.vel) - duels.missile_vel) * line).sum(-1)
    time_to_go = torch.where(closing > 0, distance / closing.clamp(min=1e-3) / TIME_SCALE_S, 1.0).clamp(max=1.0)
    engine_on = (duels.missile_age < rules.burn).to(dtype)
    there = (
        distance / RANGE_SCALE_M,
        *bearing,
        closing / CLOSING_SCALE_MPS,
        time_to_go,
        engine_on,
        torch.ones_like(distance),
    )
    rows = torch.stack([torch.where(flies, x, absent) for x, absent in zip(there, ABSENT, strict=True)], -1)
    rows = rows.reshape(num, SIDES, CARRIED, -1).flip(1)  # those that side 2 launched come for side 1
    order = torch.where(flies, distance, float("inf")).reshape(num, SIDES, CARRIED).flip(1)
    nearest = order.topk(INCOMING, -1, largest=False).indices[..., None].expand(-1, -1, -1, rows.shape[-1])
    return rows.gather(2, nearest).flatten(2)


def _towards(offset: Tensor) -> tuple[Tensor, Tensor]:
    """Length [...] and unit vector [..., 2] of an offset."""
    distance = offset.square().sum(-1).sqrt()
    return distance, offset / distance.clamp(min=1e-3)[..., None]


def _off(heading: Tensor, line: Tensor) -> tuple[Tensor, Tensor]:
    """Sine and cosine of the angle from `heading` to `line`."""
    return heading[..., 0] * line[..., 1] - heading[..., 1] * line[..., 0], (heading * line).sum(-1)
