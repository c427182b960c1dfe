"""Where the time and the memory go, and what to do about it. Imports nothing else of slipstream: any training loop can use it."""

from slipstream.monitor.advisor import Advisor
from slipstream.monitor.timers import PerformanceMonitor

__all__ = ["Advisor", "PerformanceMonitor"]
