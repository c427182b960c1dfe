"""Settings as `key=value` words: those that are typed, flags, and the lines of YAML files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from slipstream.config.help import ConfigError
from slipstream.config.names import ALIASES, FLAGS, WORDS

MAX_FILE_BYTES = 1 << 17  # of a configuration file: the reader is slow, and ours have 10 kB
SWITCHES = ("json", "prune")  # keys of commands that are complete without a value
OF_ONE_RUN = ("root", "name", "resume", "resume_envs", "wandb.name", "wandb.run_id")  # config=RUN leaves them out


class Word(str):
    """A `key=value` word.

    Attributes:
        source: The file and line it was read from; empty if it was typed.
        data: The list or mapping that a file holds there.
        is_switch: Whether it was typed as a flag without a value, such as `--quiet`.
    """

    source: str
    data: Any
    is_switch: bool

    def __new__(cls, text: str, source: str = "", data: Any = None, is_switch: bool = False) -> Word:
        """Return the word."""
        word = super().__new__(cls, text)
        word.source, word.data, word.is_switch = source, data, is_switch
        return word

    @property
    def key(self) -> str:
        """What is before the equals sign."""
        return self.partition("=")[0]

    @property
    def value(self) -> str:
        """What is after the equals sign, without the quotes around it."""
        value = self.partition("=")[2]
        return value[1:-1] if re.fullmatch(r"(['\"]).*\1", value, re.DOTALL) else value

    @property
    def at(self) -> str:
        """What an error message begins with: the file and line."""
        return f"{self.source}: " if self.source else ""


def plain_overrides(words: Iterable[str]) -> list[Word]:
    """Return what was typed as `key=value` words under our own names.

    `--num-envs 256` and `num_envs=256` become `env.num_envs=256`. `config=FILE` stands for the settings in a YAML
    file; they come before typed words. Words that this function gave are returned as they are.
    """
    typed = list(_typed_words(list(words)))
    files = [line for word in typed if word.key == "config" for line in yaml_words(Path(word.value))]
    return [*files, *(word for word in typed if word.key != "config")]


def value_of(key: str, words: Iterable[str]) -> str | None:
    """Return the last value that the words give `key`; None if they give none, or null."""
    value = split_keys(words, [key])[0].get(key)
    return None if value == "null" else value


def split_keys(words: Iterable[str], own: Iterable[str]) -> tuple[dict[str, str], list[Word]]:
    """Return the values of a command's own keys, and the other words."""
    values: dict[str, str] = {}
    others: list[Word] = []
    own = set(own)
    for word in plain_overrides(words):
        if word.key not in own:
            others.append(word)
        elif word.is_switch and word.key not in SWITCHES:
            raise ConfigError(f"{word.key} needs a value: give {word.key}=VALUE")
        else:
            values[word.key] = word.value
    return values, others


def _typed_words(rest: list[str]) -> Iterator[Word]:
    while rest:
        text = rest.pop(0)
        if isinstance(text, Word):
            yield text
            continue
        given, is_switch = text, False
        text = FLAGS.get(text, text)
        if text.startswith("--"):
            flag, equals, value = text[2:].partition("=")
            is_switch = not equals and (not rest or rest[0].startswith("--") or "=" in rest[0])
            if not equals:
                value = "true" if is_switch else rest.pop(0)
            text = f"{flag.replace('-', '_')}={value}"
        if "=" not in text:
            form = f"checkpoint={text} (train: resume= or config=)" if Path(text).exists() else "env.num_envs=1024"
            raise ConfigError(f"'{text}' is not an override: write key=value, as in {form}; --help lists the keys")
        key, _, value = text.partition("=")
        text = f"{_renamed(key)}={value}"
        word = Word(WORDS.get(text, text), is_switch=is_switch)
        if " " in word and word == WORDS.get(text):
            raise ConfigError(f"{text}: {word}")
        if not word.value:  # such as resume=$RUN where RUN is not set
            name = given.partition("=")[0].lstrip("-")
            raise ConfigError(f"{name}= has no value: give one, or leave {name}= out")
        yield word


def _renamed(key: str) -> str:
    for alias, name in ALIASES.items():
        if key == alias or key.startswith(alias + "."):
            key = name + key[len(alias) :]
    return key


# -- files -------------------------------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """YAML of plain values, whose words are those of YAML 1.2: `on` and `no` are text, 1e-3 is a number.

    It refuses anchors, aliases and tags: a small file cannot become a large value.
    """

    yaml_implicit_resolvers: dict[Any, Any] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or event.anchor or event.tag:
            raise yaml.MarkedYAMLError(problem="an anchor, alias or tag", problem_mark=event.start_mark)
        return super().compose_node(parent, index)


_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf)|\.(?:nan|NaN)"
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)", "-+0123456789"),
    ("float", _FLOAT, "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))
_NOT_PLAIN = (yaml.YAMLError, ValueError, RecursionError)


def parse_value(text: str) -> Any:
    """Return the value that a text means, as in a YAML file.

    Raises:
        ValueError: It is not YAML, such as an open bracket; the message is what it must be.
    """
    try:
        return yaml.load(text, _Loader)
    except _NOT_PLAIN as error:
        raise ValueError("a value, or a list as [1,2,3]") from error


def read_yaml(path: Path) -> Any:
    """Return the contents of a YAML file of bounded size. Errors name the line, never what the file holds."""
    return _read_file(path)[1]


def _read_file(path: Path) -> tuple[yaml.Node | None, Any]:
    """Return the tree of nodes of a YAML file, and what it means."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: {MAX_FILE_BYTES // 1024} kB are the most for a configuration")
        node = yaml.compose(data.decode("utf-8"), _Loader)
        return node, None if node is None else _Loader("").construct_document(node)
    except OSError as error:
        raise ConfigError(f"config={path}: cannot be read ({error.strerror})") from error
    except _NOT_PLAIN as error:  # a text that is no UTF-8 is a ValueError, too
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: this is not YAML of plain values") from None


def yaml_words(path: Path) -> list[Word]:
    """Return the settings of a YAML file, or of a run folder, as words."""
    of_run = path.is_dir() or (path.name == "config.yaml" and (path.parent / "git.json").is_file())
    if path.is_dir():
        path = path / "config.yaml"
        if not path.is_file():
            raise ConfigError(f"config={path.parent} is not a run folder: config.yaml is missing")
    root, _ = _read_file(path)
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path} has no settings: write key: value on each line")
    words: dict[str, Word] = {}
    for word in _node_words(root, "", path) if root else ():
        if word.key in words:
            first = words[word.key].source
            raise ConfigError(f"{word.at}this key is set twice, first in {first}: keep one of them")
        if not word.value:
            raise ConfigError(f"{word.at}{word.key} has no value: give one, or null")
        if word.key == "config":
            raise ConfigError(f"{word.at}a file cannot name another: type config= for each, the stronger one last")
        words[word.key] = word
    return [word for word in words.values() if not (of_run and word.key in OF_ONE_RUN)]


def _node_words(node: yaml.Node, key: str, path: Path) -> Iterator[Word]:
    source = f"{path}, line {node.start_mark.line + 1}"
    name = "algo" if key == "algo.name" else _renamed(key)
    if isinstance(node, yaml.MappingNode) and node.value:
        for child, value in node.value:
            yield from _node_words(value, f"{key}.{child.value}" if key else child.value, path)
    elif isinstance(node, yaml.ScalarNode):  # its text, since the key decides its type: `name: 007` is a name
        text = "null" if node.tag.endswith(":null") else node.value
        yield Word(f"{name}='{text}'" if text else f"{name}=", source)
    else:
        value = _Loader("").construct_object(node, deep=True)
        yield Word(f"{name}={json.dumps(value)}", source, value)
