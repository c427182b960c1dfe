"""render_mode="human": an env's steps in the browser."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from slipstream.viewer.library import Library
from slipstream.viewer.play import Games
from slipstream.viewer.server import Server


class Show:
    """Serves the page of one env, and opens it.

    Args:
        env: a TensorEnv with a scene (`TensorEnv.watched`).
    """

    def __init__(self, env: Any) -> None:
        self._folder = tempfile.TemporaryDirectory()  # with nothing to list
        self.games = Games(env.watched(), Path(self._folder.name), stepped=False)
        self.server = Server(Library(self._folder.name), self.games)
        self.server.start()
        print(f"watch: {self.server.url}", flush=True)
        self.server.open_page()

    def update(self) -> None:
        """Send the present state to the pages that are open."""
        self.games.push()

    def close(self) -> None:
        """End the server."""
        self.server.stop()
        self._folder.cleanup()
