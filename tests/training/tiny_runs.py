"""What tiny runs left behind, to be compared."""

from __future__ import annotations

import torch

from slipstream.checkpoint import load_checkpoint
from slipstream.training.metrics_log import read_metrics


def state_of(folder):
    return load_checkpoint(folder.checkpoints)


def differences(a, b, at=""):
    """Where two checkpoints differ in a bit; but for their configurations, the paths in them and the time they took."""
    if isinstance(a, dict):
        keys = [key for key in {**a, **b} if key not in ("config", "trained_s")]
        return [
            d
            for key in keys
            for d in (differences(a[key], b[key], f"{at}.{key}") if key in a and key in b else [f"{at}.{key}"])
        ]
    if isinstance(a, list):
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{at}[{i}]")]
    if isinstance(a, torch.Tensor):
        same = a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        return [] if same else [at]
    return [] if a == b else [at]


def rows_of(folder):
    """The metrics without what a clock measured."""
    return [
        {k: v for k, v in row.items() if k not in ("time_s", "fps") and not k.startswith("perf/")}
        for row in read_metrics(folder.path)
    ]
