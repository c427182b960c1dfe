"""Checkpoints that never stall training and never lie."""

from slipstream.checkpoint.describe import format_checkpoint_name, get_model_size, print_model_info
from slipstream.checkpoint.load import load_checkpoint
from slipstream.checkpoint.saver import AsyncCheckpointSaver, CheckpointError

__all__ = [
    "AsyncCheckpointSaver",
    "CheckpointError",
    "format_checkpoint_name",
    "get_model_size",
    "load_checkpoint",
    "print_model_info",
]
