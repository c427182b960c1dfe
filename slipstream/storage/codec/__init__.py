"""The codecs of checkpoints, replay blocks and rollout columns.

registry.py names them and lays out a block. chunks.py encodes checkpoints; block_coder.py encodes and decodes blocks of
frames with the native code of kernels.py and gather.py.
"""
