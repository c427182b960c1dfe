"""Words of the command line as `key=value`: flags, other names of keys, and files of words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from slipstream.config.help import ConfigError
from slipstream.config.names import KEYS

MAX_YAML_BYTES = 1 << 17  # of a configuration file: the reader is slow, and ours have 10 kB
MAX_YAML_VALUES = 10_000  # with every alias counted as often as it is used
MAX_YAML_DEPTH = 40
MAX_YAML_DIGITS = 400  # of one number
NEEDS_VALUE = frozenset((
    *("task", "algo", "preset", "config", "checkpoint", "compare", "resume", "init", "root", "name", "out", "red", "blue"),
    "init_replay",
    *("algo.data", "algo.teacher", "storage", "env.id", "env.factory"),
    *("env.opponent", "to", "apply", "seconds", "only", "sizes", "forms"),
))  # fmt: skip


class Word(str):
    """A `key=value` word. `source` names the file and line it was read from; it is empty if the word was typed. `data`
    is the list or mapping that a YAML file holds there."""

    source: str
    data: Any

    def __new__(cls, text: str, source: str = "", data: Any = None) -> Word:
        """Return the word."""
        word = super().__new__(cls, text)
        word.source, word.data = source, data
        return word

    @property
    def key(self) -> str:
        """What is before the equals sign."""
        return self.partition("=")[0]

    @property
    def value(self) -> str:
        """What is after the equals sign, without the quotes around it."""
        value = self.partition("=")[2]
        return value[1:-1] if _is_quoted(value) else value


# Settings that config=RUN does not take over.
OF_ONE_RUN = ("root", "name", "resume", "resume_envs", "wandb.name", "wandb.run_id")


def plain_overrides(words: Iterable[str]) -> list[Word]:
    """Return what was typed as `key=value` words under their own names.

    `--num-envs 256` and `num_envs=256` become `env.num_envs=256`. `@FILE` stands for the words in a file, one per line,
    as `slipstream advise --apply FILE` writes it. `config=FILE` stands for the settings in a YAML file; they come
    before typed words. Words that this function gave are returned as they are: no file is read twice.
    """
    given = list(words)
    if all(isinstance(word, Word) for word in given):
        return [word for word in given if isinstance(word, Word)]
    typed = list(_as_words(given))
    files = [line for word in typed if word.key == "config" for line in yaml_words(Path(word.value))]
    return [*files, *(word for word in typed if word.key != "config")]


def value_of(key: str, overrides: Iterable[str]) -> str | None:
    """Return the last value that the overrides give `key`; None if they give none, or null."""
    values = [word.value for word in map(_word, overrides) if word.key == key]
    return values[-1] if values and values[-1] != "null" else None


def split_keys(words: Iterable[str], own: Iterable[str]) -> tuple[dict[str, str], list[Word]]:
    """Return the values of a command's own keys, and the other words."""
    overrides, own = plain_overrides(words), set(own)
    return {word.key: word.value for word in overrides if word.key in own}, [w for w in overrides if w.key not in own]


def _word(text: str) -> Word:
    return text if isinstance(text, Word) else Word(text)


def _is_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] and text[0] in "'\""


def _as_words(words: Iterable[str]) -> Iterator[Word]:
    """Yield typed words as `key=value`."""
    rest = [line for word in words for line in (_lines_of(word[1:]) if word.startswith("@") else [_word(word)])]
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, eq, value = word[2:].partition("=")
            key = name.replace("-", "_")
            if not eq:  # the value is the next word; a flag without one is a switch
                takes_next = rest and not rest[0].startswith("--") and ("=" not in rest[0] or key in NEEDS_VALUE)
                value = rest.pop(0) if takes_next else "true"
                if not takes_next and _renamed(key) in NEEDS_VALUE:
                    raise ConfigError(f"--{name} needs a value")
            word = Word(f"{key}={value}", word.source)
        if "=" not in word:
            what = f"{word.source} is" if word.source else f"'{word}' is"
            is_path = not word.source and Path(word).exists()
            form = f"checkpoint={word} (train: resume= or config=)" if is_path else "env.num_envs=1024"
            raise ConfigError(f"{what} not an override: write key=value, as in {form}; see slipstream train --help")
        key, value = _renamed(word.key), word.partition("=")[2]
        if not value or (not word.value and key in NEEDS_VALUE):  # such as resume=$RUN where RUN is not set
            where = f"{word.source}: " if word.source else ""
            raise ConfigError(f"{where}{word.key}= has no value: give one, or leave {word.key}= out")
        if key == "task" and value.count(":") == 2:  # task=torchrl:my_module:make_env
            value, _, factory = value.partition(":")
            yield Word(f"env.factory={factory}", word.source)
        yield Word(f"{key}={value}", word.source)


def _renamed(key: str) -> str:
    for alias, name in KEYS.items():
        if key == alias or key.startswith(alias + "."):
            key = name + key[len(alias) :]
    return key


# -- files -------------------------------------------------------------------------------------------------------------


class Loader(yaml.SafeLoader):
    """YAML of plain values, whose words are those of YAML 1.2: `on` and `no` are text, 1e-3 is a number."""

    yaml_implicit_resolvers: dict[Any, Any] = {}
    yaml_constructors = {
        tag: make
        for tag, make in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "bool", "int", "float", "str", "seq", "map")
    }


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf)|\.(?:nan|NaN)",
        "-+.0123456789",
    ),
):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


# what making a value raises, besides its own errors: `!!bool maybe` is a KeyError
_NOT_PLAIN = (yaml.YAMLError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)


def parse_value(text: str) -> Any:
    """Return the value that a text means, as in a YAML file; `{key:value}` needs no space after the colon.

    Raises:
        ValueError: It is not YAML, such as an open bracket.
    """
    if "{" in text and ": " not in text:
        text = re.sub(r":(?=[^:,{}\[\]]*[,}]|[\[{])", ": ", text.replace("\\:", "\0")).replace("\0", ":")
    try:
        return _construct(_checked(yaml.compose(text, Loader)))
    except (*_NOT_PLAIN, RecursionError) as error:
        raise ValueError("not YAML") from error


def read_yaml(path: Path) -> Any:
    """Return the contents of a YAML file of bounded size, depth and number of values."""
    root = _compose(path)
    try:
        return _construct(root)
    except _NOT_PLAIN as error:
        raise ConfigError(f"{path}{_line_of(error)}: this is not YAML of plain values") from None


def _compose(path: Path) -> yaml.Node | None:
    """Return the node tree of a YAML file, after its bounds were checked."""
    text = _text_of(path, "config=")
    try:
        return _checked(yaml.compose(text, Loader))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}{_line_of(error)}: this is not YAML") from None
    except (RecursionError, OverflowError):
        limits = f"{MAX_YAML_VALUES} values and {MAX_YAML_DEPTH} levels"
        raise ConfigError(f"{path} is too large for a configuration: it has more than {limits}") from None


def _construct(root: yaml.Node | None) -> Any:
    return None if root is None else Loader("").construct_document(root)


def _checked(root: yaml.Node | None) -> yaml.Node | None:
    """Return the node tree. Raises OverflowError if it is past the bounds."""
    _count_values(root, {}, 0)
    return root


def _count_values(node: Any, known: dict[int, int], depth: int) -> int:
    """Return how many values a node stands for, every alias counted. Raises OverflowError past the bounds."""
    long_number = getattr(node, "tag", "")[-4:] in (":int", "loat") and len(node.value) > MAX_YAML_DIGITS
    if depth > MAX_YAML_DEPTH or long_number:
        raise OverflowError
    if id(node) not in known:
        known[id(node)] = MAX_YAML_VALUES + 1  # an alias to a node around it would never end
        children = node.value if isinstance(node, yaml.CollectionNode) else []
        flat = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
        known[id(node)] = 1 + sum(_count_values(child, known, depth + 1) for child in flat)
    if known[id(node)] > MAX_YAML_VALUES:
        raise OverflowError
    return known[id(node)]


def _line_of(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f", line {mark.line + 1}" if mark else ""


def yaml_words(path: Path) -> list[Word]:
    """Return the settings of a YAML file, or of a run folder, as words. Errors name the line, never what the file
    holds."""
    of_run = path.is_dir() or (path.name == "config.yaml" and (path.parent / "git.json").is_file())
    if path.is_dir():
        path = path / "config.yaml"
        if not path.is_file():
            raise ConfigError(f"config={path.parent} is not a run folder: config.yaml is missing")
    root = _compose(path)
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path} has no settings: write key: value on each line")
    construct = Loader("").construct_object

    def walk(node: yaml.Node, key: str) -> Iterator[Word]:
        source = f"{path}, line {node.start_mark.line + 1}"
        if isinstance(node, yaml.MappingNode) and node.value:
            for name, value in node.value:
                if not isinstance(name, yaml.ScalarNode):
                    raise ConfigError(f"{source}: a key must be a name")
                yield from walk(value, f"{key}.{name.value}" if key else name.value)
            return
        try:
            value = construct(node, deep=True)
        except _NOT_PLAIN:
            raise ConfigError(f"{source}: this is not a plain value") from None
        if key == "config":
            raise ConfigError(f"{source}: a file cannot name another: type config= for each, the stronger one last")
        name = "algo" if key == "algo.name" else _renamed(key)
        if isinstance(node, yaml.ScalarNode):  # its text, since the key decides its type: `name: 007` is a name
            text = "null" if value is None else f"'{node.value}'" if _is_quoted(node.value) else node.value
            yield Word(f"{name}={text}", source)
        else:
            yield Word(f"{name}={json.dumps(value)}", source, value)

    words = list(walk(root, "")) if root is not None else []
    first: dict[str, Word] = {}
    for word in words:
        if first.setdefault(word.key, word) is not word:
            raise ConfigError(
                f"{word.source}: this key is set twice, first in {first[word.key].source}: keep one of them"
            )
    return [word for word in words if not (of_run and word.key in OF_ONE_RUN)]


def _lines_of(file: str) -> list[Word]:
    """Return the words in a file, one per line; the text after a # is a remark."""
    lines = _text_of(Path(file), "@").splitlines()
    found = [(number, re.sub(r"(^|\s)#.*", "", line).strip()) for number, line in enumerate(lines, 1)]
    return [Word(text, f"{file}, line {number}") for number, text in found if text]


def _text_of(path: Path, how: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_YAML_BYTES + 1)
        if len(data) > MAX_YAML_BYTES:
            raise ConfigError(f"{how}{path}: {MAX_YAML_BYTES // 1024} kB are the most for a configuration")
        return data.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{how}{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{how}{path}: this is not a text file") from None
