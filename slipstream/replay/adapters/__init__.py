"""The replay buffer for Stable-Baselines3 and TorchRL."""
