"""Where the time goes: timers. Imports nothing else of slipstream, so that any training loop can use it."""

from slipstream.monitor.timers import PerformanceMonitor

__all__ = ["PerformanceMonitor"]
