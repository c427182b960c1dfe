"""Checkpoints: asynchronous, compressed, verified."""

from slipstream.checkpoint.describe import format_checkpoint_name, get_model_size, print_model_info
from slipstream.checkpoint.errors import CheckpointError, CorruptCheckpointError, UnsafeCheckpointError
from slipstream.checkpoint.load import load_checkpoint
from slipstream.checkpoint.saver import AsyncCheckpointSaver
from slipstream.storage.tree import register_named_tuple

__all__ = [
    "AsyncCheckpointSaver",
    "CheckpointError",
    "CorruptCheckpointError",
    "UnsafeCheckpointError",
    "format_checkpoint_name",
    "get_model_size",
    "load_checkpoint",
    "print_model_info",
    "register_named_tuple",
]
