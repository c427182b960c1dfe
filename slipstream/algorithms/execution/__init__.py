"""Execution: CUDA graphs, compiled kernels, and their verification around plain PyTorch code."""
