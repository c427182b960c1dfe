"""Where the time and the memory go, and how to improve it. Imports nothing else of slipstream: any loop can use it."""

from slipstream.monitor.advisor import Advisor
from slipstream.monitor.performance import PerformanceMonitor

__all__ = ["Advisor", "PerformanceMonitor"]
