"""Who may import whom: the design's layers, read off the source."""

from __future__ import annotations

import ast
import runpy
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "slipstream"

# What each part may import of slipstream, besides itself: DESIGN's directions, low to high. A part that is not named
# may import all.
LOW = {"config", "sim"}  # anybody but storage and monitor may import them
ALLOWED = {
    "config": {"storage", "sim"},  # how text from files is shown, where modules are searched
    "storage": set(),
    "monitor": set(),
    "sim": set(),
    "checkpoint": {"storage"},
    "replay": {"storage", "sim"},
    "rollouts": {"storage"},
    "recordings": {"storage"},
    "ui": {"storage"},
    "deploy": set(),  # runs on a drone's computer, with NumPy and onnxruntime alone
    "envs": LOW,
    "models": {*LOW, "envs"},
    "collectors": {*LOW, "envs", "models", "storage"},
    "algorithms": {*LOW, "storage", "envs", "models", "replay", "rollouts", "checkpoint"},
    "tasks": {*LOW, "storage", "recordings", "envs", "models", "algorithms", "collectors", "ui", "deploy"},
    "training": LOW
    | set(["storage", "monitor", "checkpoint", "rollouts", "recordings", "envs", "algorithms", "tasks", "ui"]),
    "train": {"config", "training"},
    "distributed": {*LOW, "storage", "ui", "tasks", "training"},
    "viewer": {*LOW, "storage", "recordings", "tasks"},
}
COMPOSE = {"__init__", "__main__", "cli"}
# Upward imports, inside a function: composing a config takes the task's classes, those of the network and a saved run.
EXCEPTIONS = {
    ("slipstream.config.registry", "slipstream.tasks.base"),
    ("slipstream.config.schema", "slipstream.models.policy"),
    ("slipstream.config.compose", "slipstream.training.resume"),
}


# The core is everything but tasks/, __init__ and the registry. It names no task, and a class of these only in its own
# part.
TASK_WORDS = ("navigation", "aircombat", "air_combat")  # in any identifier, import or string, in any case
TASK_STRINGS = ("gym",)  # as a complete string
CLASSES = {
    "algorithms": ("PPO", "DQN", "SAC", "TD3", "ReplayLearner", "PPOConfig", "DQNConfig", "SACConfig", "TD3Config"),
    "collectors": ("SyncDataCollector", "PipelinedDataCollector", "CompressedDataCollector", "CompressedBatch"),
}
REGISTRY = "slipstream.config.registry"


def part_of(module: str) -> str:
    """`slipstream.sim.frames` belongs to `sim`; `slipstream` itself to `__init__`."""
    return [*module.split("."), "__init__"][1]


def imports_of(source: str, module: str, is_package: bool) -> Iterator[str]:
    """Every slipstream module that `source`, the code of `module`, imports: at the top, in functions, for types, by
    name."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "slipstream")
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *(node.module or "").split(".")]).strip(".")
            if base.split(".")[0] == "slipstream":
                yield from (
                    f"{base}.{alias.name}" if _is_module(f"{base}.{alias.name}") else base for alias in node.names
                )
        elif isinstance(node, ast.Call) and node.args and _called(node) == "import_module":
            name = node.args[0]
            if isinstance(name, ast.Constant) and str(name.value).split(".")[0] == "slipstream":
                yield str(name.value)


def violations(files: dict[str, tuple[str, bool]]) -> list[str]:
    """What breaks the layers, for {module: (source, is a package)}."""
    found = []
    for module, (source, is_package) in files.items():
        part = part_of(module)
        for imported in imports_of(source, module, is_package):
            target = part_of(imported)
            if part in ALLOWED and target not in {part, *ALLOWED[part]} and (module, imported) not in EXCEPTIONS:
                found.append(f"{module} imports {imported}")
    return found


def names_in_core(files: dict[str, tuple[str, bool]]) -> list[str]:
    """Where the core names a task, or an algorithm or collector outside of its own part."""
    found = []
    for module, (source, _) in files.items():
        part = part_of(module)
        if part in ("tasks", "__init__") or module == REGISTRY:
            continue
        foreign = {name for owner, names in CLASSES.items() if owner != part for name in names}
        for node in ast.walk(ast.parse(source)):
            for word in _words(node):
                low = word.lower()
                concrete = word.startswith("slipstream.tasks.gym") or (
                    isinstance(node, ast.Constant) and word in TASK_STRINGS
                )
                if concrete or any(name in low for name in TASK_WORDS):
                    found.append(f"{module}:{node.lineno} names a task: {word[:60]}")
                elif word in foreign and not isinstance(node, ast.Constant):
                    found.append(f"{module}:{node.lineno} names {word}")
    return found


def _words(node: ast.AST) -> list[str]:
    """The identifiers, module names and strings of one node."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(alias.name for alias in node.names)]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def cycle_of(edges: dict[str, set[str]]) -> list[str]:
    """A cycle of a graph; nothing if there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def folder_cycle(files: dict[str, tuple[str, bool]]) -> list[str]:
    """Parts that import one another, late imports and those for types included."""
    edges: dict[str, set[str]] = defaultdict(set)
    for module, (source, is_package) in files.items():
        names = imports_of(source, module, is_package)
        targets = {part_of(name) for name in names if (module, name) not in EXCEPTIONS}
        edges[part_of(module)] |= targets - {part_of(module), "__init__"}
    return cycle_of(edges)


def module_cycle(files: dict[str, tuple[str, bool]]) -> list[str]:
    """Modules that import one another when they are loaded. Packages stand for their own __init__ only."""
    edges = {}
    for module, (source, is_package) in files.items():
        names = set(imports_of(_loaded_at_once(source), module, is_package))
        edges[module] = names & set(files) - {module}
    return cycle_of(edges)


def _loaded_at_once(source: str) -> str:
    """The source without the bodies of its functions, which run later, and without what only type checkers read."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass()]
    return ast.unparse(tree)


def _is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


@cache
def slipstream_files() -> dict[str, tuple[str, bool]]:
    files = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        names = ["slipstream", *path.relative_to(PACKAGE).with_suffix("").parts]
        is_package = names[-1] == "__init__"
        files[".".join(names[:-1] if is_package else names)] = (path.read_text(encoding="utf-8"), is_package)
    return files


def test_every_part_imports_only_what_the_design_lets_it():
    assert violations(slipstream_files()) == []


def test_every_exception_is_used_and_late():
    files = slipstream_files()
    for module, imported in EXCEPTIONS:
        source, is_package = files[module]
        assert imported in imports_of(source, module, is_package)
        assert imported not in imports_of(_loaded_at_once(source), module, is_package)


def test_every_part_has_its_place_in_the_design():
    parts = {part_of(module) for module in slipstream_files()}
    assert parts - set(ALLOWED) - COMPOSE == set()


@pytest.mark.parametrize("cycle", [module_cycle, folder_cycle])
def test_nothing_imports_itself_by_way_of_others(cycle):
    assert cycle(slipstream_files()) == []


def test_the_core_names_no_task_and_no_class_of_another_part():
    assert names_in_core(slipstream_files()) == []


def test_training_imports_no_concrete_task():
    files = {name: file for name, file in slipstream_files().items() if part_of(name) == "training"}
    imported = {name for module, (source, package) in files.items() for name in imports_of(source, module, package)}
    concrete = {path.name for path in (PACKAGE / "tasks").iterdir() if path.is_dir()}
    assert {"navigation", "aircombat", "gym"} <= concrete
    assert not {name for name in imported if name.split(".")[1:2] == ["tasks"] and name.split(".")[2] in concrete}


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("slipstream.train", "from slipstream.tasks.navigation.env import x"),
        ("slipstream.cli.demo", "task = 'navigation'"),
        ("slipstream.cli.export", "if task == 'gym': pass"),
        ("slipstream.training.trainer", "isinstance(env, AirCombatEnv)"),
        ("slipstream.training.trainer", "from slipstream.algorithms.ppo import PPO"),
        ("slipstream.config.schema", "isinstance(collector, collectors.PipelinedDataCollector)"),
        ("slipstream.algorithms.ppo", "isinstance(batch, CompressedBatch)"),
    ],
)
def test_a_planted_name_is_found(module, line):
    assert names_in_core({module: (line, False)})
    assert not names_in_core({"slipstream.tasks.navigation.task": (line, False), REGISTRY: (line, False)})


def test_a_planted_cycle_of_folders_is_found():
    a, b = "def f():\n    import slipstream.sim.b", "from slipstream.config.a import x"
    assert folder_cycle({"slipstream.config.a": (a, False), "slipstream.sim.b": (b, False)})


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("slipstream.replay.buffer", "import slipstream.algorithms.ppo"),
        ("slipstream.checkpoint.saver", "from slipstream import PPO"),
        ("slipstream.monitor.timers", "from ..models import policy"),
        ("slipstream.monitor.advisor", "def probe():\n    from slipstream import train"),
        ("slipstream.algorithms.ppo", "from slipstream.collectors import SyncDataCollector"),
        ("slipstream.train", "from slipstream.tasks.base import Task"),
        ("slipstream.rollouts.storage", "import importlib\nimportlib.import_module('slipstream.train')"),
    ],
)
def test_a_planted_violation_is_found(module, line):
    assert len(violations({module: (line, False)})) == 1


def test_a_planted_cycle_is_found_and_a_late_import_is_none():
    a, b = "from slipstream.sim.b import x", "import slipstream.sim.a"
    late = "def f():\n    import slipstream.sim.a"
    assert module_cycle({"slipstream.sim.a": (a, False), "slipstream.sim.b": (b, False)})
    assert not module_cycle({"slipstream.sim.a": (a, False), "slipstream.sim.b": (late, False)})


def test_a_folder_over_its_limit_is_found():
    house = runpy.run_path(str(PACKAGE.parent / "tools" / "house.py"))
    files = {"slipstream/sim/frames.py": house["LIMITS"]["sim and root"]}
    assert not [text for text in house["problems"]({"sim and root": files}) if text.startswith("sim")]
    assert house["problems"]({"sim and root": {**files, "slipstream/sim/more.py": 1}})[0].startswith("sim and root: ")
    assert "has no limit" in house["problems"]({"attic": {"slipstream/attic/x.py": 1}})[0]


def test_blank_lines_comments_and_docstrings_are_not_code():
    house = runpy.run_path(str(PACKAGE.parent / "tools" / "house.py"))
    assert house["code_lines"]('"""Docstring\nof two lines."""\n\n# comment\nx = 1  # code\ny = [\n    2,\n]\n') == 4
