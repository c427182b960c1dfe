"""The states that benchmarks/checkpoint.py saves: networks trained for some hundred steps of Adam."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

State = dict[str, Any]


def mlp(activation: type[nn.Module], dead: float) -> nn.Sequential:
    """15.7 M parameters; a share `dead` of the hidden units never fires."""
    torch.manual_seed(0)
    sizes = [512, 2048, 2048, 2048, 2048, 1024]
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:], strict=False)):
        linear = nn.Linear(a, b)
        if dead and i < len(sizes) - 2:
            with torch.no_grad():
                linear.bias[torch.randperm(b)[: int(b * dead)]] = -10.0
        layers += [linear, activation()]
    return nn.Sequential(*layers[:-1])


def navrl(width: int) -> nn.Sequential:
    """The layers of NavRL's policy (width 256), its critic and actor heads as one; width 512 makes 5 MB with Adam."""
    torch.manual_seed(0)
    cnn = [nn.Conv2d(1, 4, (5, 3), padding=(2, 1)), nn.ELU(), nn.Conv2d(4, 16, (5, 3), (2, 1), (2, 1)), nn.ELU()]
    cnn += [nn.Conv2d(16, 16, (5, 3), (2, 2), (2, 1)), nn.ELU(), nn.Flatten(), nn.Linear(288, 128), nn.LayerNorm(128)]
    trunk = [
        nn.Linear(128, width),
        nn.LeakyReLU(),
        nn.LayerNorm(width),
        nn.Linear(width, width),
        nn.LeakyReLU(),
        nn.LayerNorm(width),
    ]
    return nn.Sequential(*cnn, *trunk, nn.Linear(width, 7))


def train(model: nn.Module, shape: tuple[int, ...], at: tuple[int, ...], fresh: bool) -> dict[int, State]:
    """States after the steps in `at`, of a model that learns a fixed function: from new inputs every step, or always
    the same ones."""
    optimizer, batch = torch.optim.Adam(model.parameters(), lr=3e-4), 64
    generator = torch.Generator().manual_seed(1)
    outputs = model(torch.zeros(1, *shape)).shape[-1]
    teacher = torch.randn(torch.Size(shape).numel(), outputs, generator=generator) / torch.Size(shape).numel() ** 0.5
    inputs = torch.randn(batch, *shape, generator=generator)
    states = {}
    for step in range(1, max(at) + 1):
        if fresh:
            inputs = torch.randn(batch, *shape, generator=generator)
        loss = (model(inputs) - torch.tanh(inputs.flatten(1) @ teacher)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in at:
            states[step] = copy.deepcopy(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iteration": step}
            )
    return states


def make_states(cache: Path | None) -> dict[str, dict[int, State]]:
    """Every state of the tables, after 300, 301 and 310 updates."""
    recipes: dict[str, Callable[[], dict[int, State]]] = {
        "dense (ELU)": lambda: train(mlp(nn.ELU, 0.0), (512,), (300, 301, 310), fresh=False),
        "sparse (ReLU, dead units)": lambda: train(mlp(nn.ReLU, 0.18), (512,), (300, 301, 310), fresh=False),
        "dense, new data every step": lambda: train(mlp(nn.ELU, 0.0), (512,), (300, 301, 310), fresh=True),
        "sparse, new data every step": lambda: train(mlp(nn.ReLU, 0.18), (512,), (300, 301, 310), fresh=True),
        "NavRL policy, 512 wide": lambda: train(navrl(512), (1, 36, 4), (300, 301, 310), fresh=True),
        "NavRL policy": lambda: train(navrl(256), (1, 36, 4), (300, 301, 310), fresh=True),
    }
    states = {}
    for name, make in recipes.items():
        file = cache / f"{name}.pt" if cache else None
        if file is not None and file.exists():
            states[name] = torch.load(file, weights_only=True)
            continue
        states[name] = make()
        if file is not None:
            torch.save(states[name], file)
    return states


def tensors(state: Any) -> list[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    children = state.values() if isinstance(state, dict) else state if isinstance(state, (list, tuple)) else []
    return [t for child in children for t in tensors(child)]


def megabytes(state: State) -> float:
    return sum(t.numel() * t.element_size() for t in tensors(state)) / 1e6
