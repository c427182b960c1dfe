"""Which form of the hot loops runs: plain PyTorch anywhere, native code on a CPU, Triton kernels on a GPU."""

from __future__ import annotations

import importlib.util

import torch

BACKENDS = ("auto", "torch", "native", "triton")


def pick_backend(device: torch.device, wanted: str = "auto") -> str:
    """`wanted`, or for `auto` the fastest form that this device and the installed packages allow."""
    if wanted not in BACKENDS:
        raise ValueError(f"unknown backend '{wanted}': use one of {', '.join(BACKENDS)}")
    fast, package = {"cpu": ("native", "numba"), "cuda": ("triton", "triton")}.get(device.type, ("torch", ""))
    if wanted == "auto":
        return fast if package and importlib.util.find_spec(package) else "torch"
    if wanted not in ("torch", fast):
        raise ValueError(f"the {wanted} backend does not run on {device.type}: use auto or torch")
    return wanted
