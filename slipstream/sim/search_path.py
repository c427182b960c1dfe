"""Where Python searches for modules. This module is the first one that a command imports; it uses only what Python has
loaded itself."""

import os
import sys


def current_folder() -> str:
    """Return the current folder, "" if it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def folders_given() -> list[str]:
    """Return the folders that PYTHONPATH names; the current one only by its absolute path."""
    entries = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    here = current_folder()
    return [os.path.join(here, entry) for entry in entries if os.path.isabs(entry) or os.path.realpath(entry) != here]


def end_of_own() -> int:
    """Return where the folders of the program and of PYTHONPATH end in sys.path. Later ones are Python's and those of
    installed packages, also with `pip install -e .`."""
    standard = os.path.dirname(os.__file__)
    return sys.path.index(standard) if standard in sys.path else len(sys.path)


def leave_out_current_folder() -> None:
    """Search for no module in the current folder, and let no file there set up numba or matplotlib: it may be somebody
    else's run folder.

    `python -m` and an empty or relative entry of PYTHONPATH put it before everything installed. It stays if PYTHONPATH
    has its absolute path, or if this package is there. `config.registry` finds modules there that the user types.
    """
    here, package = current_folder(), os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    if "PYTHONPATH" in os.environ:  # for child processes
        os.environ["PYTHONPATH"] = os.pathsep.join(folders_given())
    if here not in (os.path.dirname(package), *map(os.path.realpath, folders_given())):
        end = end_of_own()
        sys.path[:end] = [entry for entry in sys.path[:end] if entry and os.path.realpath(entry) != here]
    for name, module in (".numba_config.yaml", "numba.core.config"), ("matplotlibrc", "matplotlib"):
        if os.path.lexists(name):  # they read it from the current folder while they are imported
            os.chdir(package)
            try:
                settings = __import__(module, fromlist=["settings"])
            finally:
                os.chdir(here)
            if module == "numba.core.config":  # it would read it again when it compiles; workers of Ray read it too
                settings._config_fname = os.devnull  # type: ignore[attr-defined]
                for code in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
                    os.environ.setdefault(code, "")


def is_command() -> bool:
    """Return whether this process is the command line or one that it started, not a user's script."""
    program = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    if program == "-m":  # while Python looks for the module
        word = sys.orig_argv[-len(sys.argv)].partition(".")[0]
        return word == "slipstream" or (word.startswith("-") and word.endswith("mslipstream"))
    return program in ("slipstream", "slipstream.exe", "slipstream-script.py")
