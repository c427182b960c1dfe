"""A training run: trainer, evaluation, run folder, metrics log, terminal view, tuning."""
