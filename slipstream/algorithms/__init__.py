"""Learning algorithms: they are given batches, and change weights."""
