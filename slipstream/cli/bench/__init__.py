"""slipstream bench env | train: measurements of this installation on this machine, peers beside it."""

from __future__ import annotations

from slipstream.config.help import ConfigError


def run(argv: list[str]) -> int:
    """`slipstream bench SUBJECT [key=value ...]`."""
    from slipstream.cli.bench import env, train

    subjects = {"env": env.run, "train": train.run}
    if not argv or argv[0] not in subjects:
        raise ConfigError(f"slipstream bench measures: {', '.join(subjects)} (slipstream bench env --help)")
    return subjects[argv[0]](argv[1:])


def help_text(argv: list[str]) -> str:
    """What there is to say of the subjects named, or of all."""
    from slipstream.cli.bench import env, train

    texts = {"env": env.__doc__ or "", "train": train.__doc__ or ""}
    return "\n".join(text for name, text in texts.items() if name in argv or not set(texts) & set(argv))
