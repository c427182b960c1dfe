"""The replay buffer on a GPU."""
