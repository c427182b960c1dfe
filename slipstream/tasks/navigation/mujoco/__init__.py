"""MuJoCo as a second simulator: the same maps, sensors and protocol with another rigid body, rays and contacts."""
