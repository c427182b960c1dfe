"""Mid-range air combat: duels of two fighters with missiles."""
