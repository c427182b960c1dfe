"""Exported policies, once per session."""

from __future__ import annotations

import pytest

pytest.importorskip("onnxruntime", reason="needs the extra fly", exc_type=ImportError)
pytest.importorskip("onnxscript", reason="needs the extra export", exc_type=ImportError)


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """Return a function from a shipped policy's name to its ONNX file and its trained policy."""
    from slipstream.cli.export import export_policy
    from slipstream.training.evaluate import configure

    done = {}

    def export(name: str):
        if name not in done:
            cfg, trained = configure([f"checkpoint={name}"])
            path = tmp_path_factory.mktemp("onnx") / f"{name}.onnx"
            export_policy(trained, cfg.task, cfg.env, "onnx", path)
            done[name] = path, trained, cfg.env
        return done[name]

    return export
