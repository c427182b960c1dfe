"""Names of checkpoints and sizes of models, for training scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn


def format_checkpoint_name(
    iteration: int | str, prefix: str = "checkpoint", suffix: str = ".pt", directory: str | Path = ""
) -> str:
    """Return `checkpoint_1000.pt`, or `checkpoint_final.pt` for iteration "final"; in `directory` if one is given."""
    name = f"{prefix}_{iteration}{suffix}"
    return str(Path(directory) / name)


def get_model_size(model: nn.Module) -> dict[str, Any]:
    """Count the parameters of a model, those that are trained, and the megabytes (10^6 bytes) of parameters and
    buffers."""
    params = list(model.parameters())
    param_bytes = sum(p.numel() * p.element_size() for p in params)
    buffer_bytes = sum(b.numel() * b.element_size() for b in model.buffers())
    return {
        "total_params": sum(p.numel() for p in params),
        "trainable_params": sum(p.numel() for p in params if p.requires_grad),
        "param_mb": param_bytes / 1e6,
        "buffer_mb": buffer_bytes / 1e6,
        "size_mb": (param_bytes + buffer_bytes) / 1e6,
    }


def print_model_info(model: nn.Module, name: str = "Model") -> None:
    """Print the size of a model and of each of its children."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{name}: {type(model).__name__}")
    for column in ("part", "parameters", "trainable", "MB"):
        table.add_column(column, justify="left" if column == "part" else "right")
    for part, module in [*model.named_children(), ("all", model)]:
        size = get_model_size(module)
        table.add_row(part, f"{size['total_params']:,}", f"{size['trainable_params']:,}", f"{size['size_mb']:.2f}")
    Console().print(table)
