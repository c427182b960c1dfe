"""Show runs, flights and duels in a browser.

  slipstream view                     the runs below runs/
  slipstream view runs/NAME           one run, also while it trains
  slipstream view flight.rec          one recording

The address that is printed has a token: only who knows it can open the page. `--host 0.0.0.0` lets other machines in.
A run that is not there yet is waited for, so that the command can follow `slipstream train` directly.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path
from typing import Any

from slipstream.config.help import ConfigError

DEFAULT = "runs"
WAIT_S = 60  # for the folder of a run that starts: the first import of torch after an installation takes 30 s


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the path and flags."""
    parser.add_argument("path", nargs="?", metavar="RUN|FOLDER|RECORDING", help="what to show (default: runs, or here)")
    add_server_arguments(parser)


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a server."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address without opening a browser")


def run(args: argparse.Namespace, console: Any) -> int:
    """Serve the page until Ctrl-C."""
    from slipstream.recordings import SUFFIX
    from slipstream.viewer.library import Library
    from slipstream.viewer.server import Server

    path = args.path or (DEFAULT if Path(DEFAULT).is_dir() else ".")
    if Path(path).is_file() and Path(path).suffix != SUFFIX:
        raise ConfigError(f"{path} is not a recording ({SUFFIX}), a run or a folder; a .html file opens in any browser")
    if Path(path).suffix != SUFFIX:
        _wait_for(Path(path))
    serve(Server(Library(path), host=args.host, port=args.port), args, f"{path}: ")
    return 0


def _wait_for(path: Path) -> None:
    """Wait for the folder of a run that was started a moment ago."""
    if path.exists():
        return
    print(f"{path} is not there yet: waiting {WAIT_S} s for a run to make it (Ctrl-C ends it)", flush=True)
    end = time.monotonic() + WAIT_S
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.2)


def serve(server: Any, args: argparse.Namespace, what: str) -> None:
    """Print the address, open a browser, and serve."""
    print(f"{what}{server.url}")
    if server.network_url:
        print(f"on another machine or a phone in this network: {server.network_url}")
    print("Ctrl-C ends it", flush=True)
    if not args.no_browser:
        threading.Timer(0.3, server.open_page).start()
    server.run()
