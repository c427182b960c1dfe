"""What the tasks' physics share: random numbers, coordinate frames, devices and backends."""
