"""Exported policies, once per session."""

from __future__ import annotations

import pytest

pytest.importorskip("onnxruntime", reason="needs the extra fly", exc_type=ImportError)
pytest.importorskip("onnxscript", reason="needs the extra export", exc_type=ImportError)


WITH_CAMERA = ["env.num_envs=4", "env.num_obstacles=60", "env.map_half_m=5", "env.camera.yaws_deg=[-30,30]"]
WITH_CAMERA += ["env.camera.width=16", "env.camera.height=12", "model.keys=[camera,state,direction]", "model.part=8"]
WITH_CAMERA += ["algo.rollout_steps=8", "algo.minibatches=2", "total_frames=64", "eval_interval=0", "quiet=true"]


@pytest.fixture(scope="session", params=["uint8", "float16"])
def camera_policy(request, tmp_path_factory):
    """Return the ONNX file of a policy that sees with two cameras and without a LiDAR, the policy and its env's config."""
    from slipstream.cli import main
    from slipstream.training.evaluate import configure

    folder, stored = tmp_path_factory.mktemp("runs"), f"env.camera.stored={request.param}"
    assert main(["train", *WITH_CAMERA, stored, f"root={folder}", "name=seen", "device=cpu", "threads=1"]) == 0
    assert main(["export", f"checkpoint={folder}/seen", f"out={folder}/seen.onnx"]) == 0
    cfg, trained = configure([f"checkpoint={folder}/seen"])
    return folder / "seen.onnx", trained, cfg.env


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
