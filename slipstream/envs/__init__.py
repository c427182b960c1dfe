"""TensorEnv, the one contract, and the tasks that keep it."""
