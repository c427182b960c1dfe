"""A docking task for Slipstream: a craft meets a port slowly, against a wind that it can only feel."""
