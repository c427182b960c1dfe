"""Recordings of flights: one file with the scene, the paths by time, events and outcomes. Clients of `storage`."""

from slipstream.recordings.export import export_recording, write_html
from slipstream.recordings.format import SUFFIX, Recording, load_recording, parse_recording, read_title

__all__ = ["SUFFIX", "Recording", "export_recording", "load_recording", "parse_recording", "read_title", "write_html"]
