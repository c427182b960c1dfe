"""Recordings of flights: one file with the scene, the paths by time, events and outcomes. Clients of `storage`."""

from slipstream.recordings.export import export_recording, write_html
from slipstream.recordings.format import KIND, SUFFIX, Recorder, Recording, load_recording, read_title

__all__ = ["KIND", "SUFFIX", "Recorder", "Recording", "export_recording", "load_recording", "read_title", "write_html"]
