"""slipstream doctor: what is there, what is missing and how to get it, what is broken."""

from importlib import metadata

from slipstream.cli import main
from slipstream.config import registry


def test_it_names_versions_devices_and_missing_extras(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    requires = metadata.requires
    extra = "not-a-package>=1; extra == 'mujoco'"
    monkeypatch.setattr(metadata, "requires", lambda name: [*requires(name), extra])
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert f"torch {metadata.version('torch')}" in shown and "CPU cores" in shown
    assert "ok     task navigation, and the policy that ships with it" in shown
    (line,) = [line for line in shown.splitlines() if "mujoco (" in line]
    assert line.split()[0] == "no" and line.endswith("mujoco (not-a-package): pip install -e '.[mujoco]'")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_policy_is_broken(capsys, monkeypatch, tmp_path):
    task = registry.find_task("navigation")
    damaged = tmp_path / "navigation.pt"
    damaged.write_bytes(task.weights.read_bytes()[:-100])
    monkeypatch.setattr(type(task), "weights", property(lambda self: damaged))
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "broken" in shown and "navigation.pt" in shown and "sweep (" in shown  # the other checks still run


def test_a_task_without_its_extra_is_not_broken(capsys, monkeypatch):
    find = registry.find_task

    def find_task(name):
        if name == "gym":
            raise ImportError("task=gym needs Gymnasium: pip install -e '.[gym]'")
        return find(name)

    monkeypatch.setattr(registry, "find_task", find_task)
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "no     task=gym needs Gymnasium: pip install" in shown and "ok     task navigation" in shown
