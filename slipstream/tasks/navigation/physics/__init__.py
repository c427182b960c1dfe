"""Obstacle fields, LiDAR, drones and disturbances."""
