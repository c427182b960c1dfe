"""The page in which a policy flies without a server: its world and network compute what the env and PyTorch compute."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch
from helpers.browser import until

from slipstream.cli import main
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.physics.obstacles import MovingObstaclesConfig

DECISIONS, DRONES = 40, 5
# runs the page's field from given places with given actions: the observations and positions before each decision
FLY = """({settings, boxes, movers, start, goal, actions}) => {
  const field = new slipstream.view.field.constructor({...settings, num_obstacles: 0}, 1, start.length);
  Object.assign(field, {boxes, movers, steps: 1, settings});
  field.drones.forEach((drone, i) => drone.begin(start[i], goal[i]));
  return actions.map((action) => {
    const seen = field.observe(), at = field.drones.map((drone) => [...drone.position]);
    field.drones.forEach((drone) => { drone.status = 0 });
    field.step(action);
    return {at, ...Object.fromEntries(Object.entries(seen).map(([name, x]) => [name, Array.from(x.data)]))};
  });
}"""
RUN = """(inputs) => {
  const batch = Object.fromEntries(Object.entries(inputs).map(([name, {dims, data}]) =>
    [name, {dims, data: new Float32Array(data)}]));
  return Object.fromEntries(Object.entries(slipstream.view.policy.run(batch)).map(([k, v]) => [k, Array.from(v.data)]));
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of both shipped policies, and their ONNX files."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    folder = tmp_path_factory.mktemp("pages")
    for name in ("navigation", "navigation_lidar"):
        for to in ("html", "onnx"):
            assert main(["export", f"checkpoint={name}", "--to", to, f"out={folder / name}.{to}"]) == 0
    return folder


@pytest.mark.parametrize("dynamics", ["quadrotor", "velocity_lag"])
def test_the_page_flies_as_the_env_does(pages, open_page, dynamics):
    moving = MovingObstaclesConfig(num_obstacles=80, redraw_s=1000.0)
    config = NavigationConfig(decision_interval=4, dynamics=dynamics, lidar_sees_moving=True, dyn=moving)
    env, rng = NavigationEnv(DRONES, seed=3, config=config), torch.Generator().manual_seed(0)
    env.movers.vel.copy_(torch.randn(env.movers.vel.shape, generator=rng))
    env.movers.goal.fill_(1e3)
    env.movers.clock.fill_(1)  # straight on: the page draws its own numbers
    start, goal = (20 * torch.rand(2, DRONES, 3, generator=rng) - 10).unbind()
    start[:, 2] = goal[:, 2] = 2.0
    actions = 4 * torch.rand(DECISIONS, DRONES, 3, generator=rng) - 2
    m = env.movers
    parts = {"pillar": m.pillar, "kind": m.width_class, "width": m.width, "height": m.height}
    parts |= {"origin": m.origin[0], "position": m.pos[0], "goal": m.goal[0], "velocity": m.vel[0]}
    movers = [{name: values[i].tolist() for name, values in parts.items()} for i in range(m.count)]
    given = {"settings": asdict(config), "boxes": env.grid.boxes_of_world(0).tolist(), "movers": movers}
    given |= {"start": start.tolist(), "goal": goal.tolist(), "actions": actions.tolist()}
    observation = env.place(start, goal)
    rows = open_page(f"file://{pages / 'navigation.html'}").evaluate(FLY, given)
    for row, action in zip(rows, actions, strict=True):
        np.testing.assert_allclose(row["at"], env.drone.pos, atol=1e-4)
        for name, seen in observation.items():
            far = np.abs(np.array(row[name]) - seen.numpy().ravel()) > 0.003
            assert far.mean() < 0.003, name  # a beam at an edge may miss a box in one and hit it in the other
        env._advance(action)
        observation = env._observe()


@pytest.mark.parametrize("name", ["navigation", "navigation_lidar"])
def test_the_page_computes_the_policy_and_flies_a_new_map(pages, open_page, name):
    import onnxruntime

    session, rng = onnxruntime.InferenceSession(pages / f"{name}.onnx"), np.random.default_rng(0)
    inputs = {x.name: rng.normal(size=[3, *x.shape[1:]]).astype(np.float32) for x in session.get_inputs()}
    expected = dict(zip([x.name for x in session.get_outputs()], session.run(None, inputs), strict=True))
    page = open_page(f"file://{pages / name}.html")
    sent = {key: {"dims": list(x.shape), "data": x.ravel().tolist()} for key, x in inputs.items()}
    for key, values in page.evaluate(RUN, sent).items():
        np.testing.assert_allclose(values, expected[key].ravel(), atol=2e-5)
    boxes = page.evaluate("slipstream.view.field.boxes")
    page.keyboard.press("n")
    assert page.evaluate("slipstream.view.field.boxes") != boxes and len(boxes) == 350
    page.evaluate("for (let i = 0; i < 600 && slipstream.view.ended.flights < 1; i++) slipstream.view.step()")
    until(page, "document.querySelector('.facts').textContent.includes('goal reached')")
    ended = page.evaluate("slipstream.view.ended")
    assert ended["flights"] == 1 and ended["reached"] + ended["collided"] == 1
    size = (pages / f"{name}.html").stat().st_size
    assert size < 5_000_000


def test_other_tasks_have_no_page(capsys):
    assert main(["export", "checkpoint=aircombat", "task=aircombat", "--to", "html"]) == 2
    assert "no page flies policies of task aircombat" in capsys.readouterr().err
