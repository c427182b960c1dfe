"""A browser for the tests of the viewer's page: found, or installed by `python tests/helpers/browser.py`.

Debian's chromium by apt where we are root, else the one that playwright downloads.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

# WebGL without a graphics card
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """Return the program of a browser."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            path = playwright.chromium.executable_path
    except Exception:
        return None
    return path if path and os.path.exists(path) else None


def until(page: Any, expression: str, seconds: float = 60) -> None:
    """Wait until an expression of JavaScript is true; one that reads what the page has not made yet is false.
    (playwright's own way needs eval, which the page forbids.)"""
    script = f"(() => {{ try {{ return {expression} }} catch (e) {{ if (!(e instanceof TypeError)) throw e }} }})()"
    for _ in range(int(seconds / 0.05)):
        if page.evaluate(script):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not after {seconds} s: {expression}")


def install_browser() -> bool:
    """Install a browser if there is none and that is possible; return whether there is one."""
    if find_browser():
        return True
    ways = [
        ["apt-get", "install", "-y", "-qq", "chromium"],
        [sys.executable, "-m", "playwright", "install", "chromium"],
    ]
    if not (hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get")):
        ways = ways[1:]
    for way in ways:
        print("no browser for the tests of the viewer: " + " ".join(way), flush=True)
        try:
            done = subprocess.run(way, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
            if done.returncode and way[0] == "apt-get":
                subprocess.run(
                    ["apt-get", "update", "-qq"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120
                )
                subprocess.run(way, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if find_browser():
            return True
    print("no browser could be installed: the tests of the viewer's page are skipped", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(0 if install_browser() else 1)
