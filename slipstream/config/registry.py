"""Classes by name: one of ours, or `package.module:Class` of the user's."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from slipstream.config.help import ConfigError, nearest


def named_class(
    name: str, known: Mapping[str, type[Any] | str], base: type[Any], what: str, besides: str = ""
) -> type[Any]:
    """The class of a name: one of `known`, or `package.module:Class`, a subclass of `base`. `besides`: what else may be given for it."""
    listed = known.get(name, name)
    if not isinstance(listed, str):
        return listed
    if ":" not in listed:
        choices = ", ".join((*known, besides) if besides else known)
        own = f"my_package.my_module:My{base.__name__[4:]}"
        raise ConfigError(f"unknown {what} '{name}'{nearest(name, known)} (there are: {choices}, or {own})")
    return class_at(listed, base, f"{what} '{name}'")


def class_at(path: str, base: type[Any], asked: str) -> type[Any]:
    """The subclass of `base` at `package.module:Class`; `asked` is what an error begins with."""
    module_name, _, class_name = path.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` would: modules of the folder you stand in
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"{asked}: cannot import {module_name} ({error}); run from its folder or install it"
        ) from None
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError(f"{asked}: {module_name} has no {base.__name__} subclass named {class_name}")
    return found


def built(kind: type[Any], **given: Any) -> Any:
    """An object of a class that somebody named; a constructor that cannot take what it is given is told in one line."""
    try:
        inspect.signature(kind).bind(**given)
    except TypeError as error:
        who = f"{kind.__module__}:{kind.__name__}"
        raise ValueError(f"{who} is built with {', '.join(given)} ({error}): let its __init__ take them") from None
    return kind(**given)
