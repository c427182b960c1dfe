"""Pure tensor physics, not a word of RL: worlds, LiDAR, moving obstacles, drones and what disturbs them."""
