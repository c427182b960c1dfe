"""Frames: the goal frame (x towards the goal, z up) and attitudes as quaternions (w, x, y, z), body to world."""

from __future__ import annotations

import torch
from torch import Tensor


def heading_of(vec: Tensor) -> Tensor:
    """Return the horizontal unit vector [..., 2] along `vec` [..., 2 or 3]; (1, 0) where it has no horizontal part."""
    flat = vec[..., :2]
    norm = torch.linalg.vector_norm(flat, dim=-1, keepdim=True)
    ahead = torch.zeros_like(flat)
    ahead[..., 0] = 1.0
    return torch.where(norm > 1e-6, flat / norm.clamp(min=1e-6), ahead)


def to_goal_frame(vec: Tensor, heading: Tensor) -> Tensor:
    """Rotate a world vector [..., 3] into the frame whose x axis is `heading` [..., 2]."""
    c, s = heading[..., 0], heading[..., 1]
    x, y, z = vec.unbind(-1)
    return torch.stack((c * x + s * y, c * y - s * x, z), -1)


def to_world(vec: Tensor, heading: Tensor) -> Tensor:
    """Rotate a goal-frame vector [..., 3] into world axes: the inverse of `to_goal_frame`."""
    c, s = heading[..., 0], heading[..., 1]
    x, y, z = vec.unbind(-1)
    return torch.stack((c * x - s * y, s * x + c * y, z), -1)


def quat_from_yaw(yaw: Tensor) -> Tensor:
    """Return the level attitude [..., 4] that faces `yaw` (rad)."""
    zero = torch.zeros_like(yaw)
    return torch.stack((torch.cos(yaw / 2), zero, zero, torch.sin(yaw / 2)), -1)


def quat_to_matrix(quat: Tensor) -> Tensor:
    """Return the rotation matrix [..., 3, 3] of a unit quaternion; its columns are the body axes in the world."""
    w, x, y, z = quat.unbind(-1)
    rows = (
        *(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        *(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        *(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return torch.stack(rows, -1).unflatten(-1, (3, 3))


def quat_rotate_by(quat: Tensor, turn: Tensor) -> Tensor:
    """Rotate `quat` by the rotation vector `turn` [..., 3] (rad, body axes), normalized."""
    angle = torch.linalg.vector_norm(turn, dim=-1, keepdim=True)
    half = angle / 2
    # sin(a/2)/a, by its series where a is small
    scale = torch.where(angle > 1e-4, torch.sin(half) / angle.clamp(min=1e-8), 0.5 - angle * angle / 48)
    bw, (bx, by, bz) = torch.cos(half)[..., 0], (turn * scale).unbind(-1)
    aw, ax, ay, az = quat.unbind(-1)
    out = torch.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        -1,
    )
    return out / torch.linalg.vector_norm(out, dim=-1, keepdim=True)
