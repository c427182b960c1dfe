"""The codecs of checkpoints, replay blocks and rollout columns.

registry.py names them and lays out a block. chunks.py encodes checkpoints; block_coder.py encodes and decodes blocks of
frames, with the native code of kernels.py and gather.py or with NumPy (portable.py).
"""

from slipstream.storage.codec.chunks import CHUNK_BYTES, Scratch, decode_chunk, encode_chunk
from slipstream.storage.codec.registry import CodecError

__all__ = ["CHUNK_BYTES", "CodecError", "Scratch", "decode_chunk", "encode_chunk"]
