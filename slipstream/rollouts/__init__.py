"""Rollout files: batches of experience on disk."""
