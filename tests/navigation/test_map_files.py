"""Maps from files: every format as another library writes it, places in them, and files that are broken or hostile."""

from __future__ import annotations

import importlib.util
import json
import struct
import zipfile
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image

from slipstream.cli import main
from slipstream.config.help import ConfigError
from slipstream.recordings import load_recording
from slipstream.tasks.navigation.env import NavigationConfig, NavigationEnv
from slipstream.tasks.navigation.physics import map_files
from slipstream.tasks.navigation.physics.generators import GENERATORS, generate
from slipstream.tasks.navigation.physics.lidar import LidarConfig
from slipstream.tasks.navigation.physics.map_files import list_maps, read_map
from slipstream.tasks.navigation.physics.obstacles import MovingObstaclesConfig
from slipstream.tasks.navigation.physics.places import reachable
from slipstream.tasks.navigation.physics.voxels import Solid

NONE = MovingObstaclesConfig(num_obstacles=0)
WINDOW = 0.0, 5.0, 0.1


def room_points(step: float = 0.05) -> np.ndarray:
    """The walls of a room of 6 × 4 × 2 m from (10, 20), and a bar at 1 m height through its middle."""
    x, y, z = np.arange(10, 16, step), np.arange(20, 24, step), np.arange(0.0, 2, step)
    sides = [np.stack(np.meshgrid(x, [side], z), -1).reshape(-1, 3) for side in (20.0, 23.99)]
    sides += [np.stack(np.meshgrid([side], y, z), -1).reshape(-1, 3) for side in (10.0, 15.99)]
    bar = np.stack(np.meshgrid(x, [22.0], [1.0]), -1).reshape(-1, 3)
    return np.concatenate((*sides, bar)).astype(np.float32)


def write_floor_plan(folder, name="plan", image="plan.pgm", **more):
    """A plan of 8 × 6 m at 0.05 m per pixel as map_server saves it: 254 free, 0 occupied, 205 unknown outside."""
    pixels = np.full((120, 160), 205, np.uint8)
    pixels[20:100, 20:140] = 254
    pixels[20:100, [20, 139]] = 0
    pixels[[20, 99], 20:140] = 0
    pixels[20:75, 80:82] = 0  # a wall from the top (large y) with a way below it
    Image.fromarray(pixels).save(folder / image)
    text = [f"image: {image}", "resolution: 0.050000", "origin: [-3.0, 1.0, 0.0]", "negate: 0"]
    text += ["occupied_thresh: 0.65", "free_thresh: 0.196", *(f"{key}: {value}" for key, value in more.items())]
    (folder / f"{name}.yaml").write_text("\n".join(text))
    return folder / f"{name}.yaml"


def write_pcd(path, points, form="binary"):
    head = ["# .PCD v0.7 - Point Cloud Data file format", "VERSION 0.7", "FIELDS intensity x y z", "SIZE 4 4 4 4"]
    head += ["TYPE F F F F", "COUNT 1 1 1 1", f"WIDTH {len(points)}", "HEIGHT 1", "VIEWPOINT 0 0 0 1 0 0 0"]
    head += [f"POINTS {len(points)}", f"DATA {form}", ""]
    table = np.concatenate((np.ones((len(points), 1)), points), 1).astype("<f4")
    body = table.tobytes() if form == "binary" else "\n".join(" ".join(map(str, row)) for row in table).encode()
    path.write_bytes("\n".join(head).encode() + body)
    return path


def write_cloud(folder, kind):
    points = room_points()
    path = folder / f"room.{kind.split()[0]}"
    if kind.startswith("ply"):
        plyfile = pytest.importorskip("plyfile")
        table = np.array([tuple(p) for p in points], [("x", "f4"), ("y", "f4"), ("z", "f4")])
        element = plyfile.PlyElement.describe(table, "vertex")
        plyfile.PlyData([element], text="ascii" in kind, byte_order=">" if "big" in kind else "<").write(path)
    elif kind.startswith("pcd"):
        write_pcd(path, points, kind.split()[1])
    elif kind == "xyz":
        np.savetxt(path, np.concatenate((points, np.ones((len(points), 3))), 1), "%.4f")  # with colors
    else:
        np.save(path, points)
    return path


CLOUDS = ("ply binary", "ply ascii", "ply big", "pcd binary", "pcd ascii", "xyz", "npy")


@pytest.mark.parametrize("kind", CLOUDS)
def test_point_clouds_of_all_forms_are_the_same_map(kind, tmp_path):
    solid, offset = read_map(write_cloud(tmp_path, kind), *WINDOW)
    assert solid.voxels.shape == (60, 40, 50) and np.allclose(offset, (-13, -22, 0), atol=0.03)
    assert solid.voxels[0, :, :20].all() and not solid.voxels[:, :, 21:].any()  # a wall of 2 m
    middle = solid.voxels[10:50, 20]
    assert middle[:, 10].all() and not middle[:, :9].any() and not middle[:, 12:].any()  # free below the bar


@pytest.mark.parametrize("image", ["plan.pgm", "plan.png"])
def test_floor_plan_of_ros_is_extruded(image, tmp_path):
    solid, offset = read_map(write_floor_plan(tmp_path, image=image), *WINDOW)
    assert solid.voxels.shape == (80, 60, 50) and np.allclose(offset, (-1, -4, 0))
    plan = solid.voxels[..., 0]
    assert (solid.voxels == plan[..., None]).all()
    assert plan[:10].all() and plan[:, :10].all()  # unknown space
    assert not plan[12:38, 12:20].any()  # a room
    assert plan[40, 30:].all() and not plan[40, 12:22].any()  # the wall comes from the image's top, which is large y


def test_boxes_in_yaml_and_json_are_the_same_map(tmp_path):
    box = {"x": 1, "y": 2, "z": 0.5, "length": 2, "width": 1, "height": 1, "yaw_deg": 30}
    (tmp_path / "a.json").write_text(json.dumps({"boxes": [box]}))
    (tmp_path / "b.yaml").write_text("boxes:\n- " + "\n  ".join(f"{key}: {value}" for key, value in box.items()))
    (tmp_path / "c.csv").write_text(",".join(box) + "\n" + ",".join(map(str, box.values())))
    first, *others = (read_map(tmp_path / name, *WINDOW)[0] for name in ("a.json", "b.yaml", "c.csv"))
    assert first.voxels.any() and all((first.voxels == other.voxels).all() for other in others)


@pytest.mark.parametrize("kind", ["stl", "obj", "glb", "ply"])
def test_meshes_of_trimesh_have_no_holes(kind, tmp_path):
    trimesh = pytest.importorskip("trimesh")
    box = trimesh.creation.box((4.0, 3.0, 2.0))
    box.apply_translation((0, 0, 1.0))
    ball = trimesh.creation.icosphere(subdivisions=2, radius=0.5)
    ball.apply_translation((0, 0, 1.0))
    mesh = trimesh.util.concatenate([box, ball])
    if kind == "glb":  # y up
        mesh.apply_transform(trimesh.transformations.rotation_matrix(-np.pi / 2, (1, 0, 0)))
    mesh.export(tmp_path / f"hall.{kind}")
    solid, _ = read_map(tmp_path / f"hall.{kind}", *WINDOW)
    assert solid.voxels.shape == (41, 31, 50)
    from slipstream.tasks.navigation.physics.voxels_native import regions

    inside = regions(~solid.voxels & (np.arange(50) < 20))
    assert not inside[[0, -1]].any() and not inside[:, [0, -1]].any()  # walls are closed
    assert not inside[20, 15, 10] and not solid.voxels[20, 15, 10]  # within the ball: free, and closed off


def test_voxels_of_numpy_keep_their_size(tmp_path):
    voxels = np.zeros((20, 10, 8), np.uint8)
    voxels[3, 4, :] = 1
    np.savez_compressed(tmp_path / "v.npz", voxels=voxels, voxel_m=0.25, origin=(0.0, 0.0, -0.5))
    solid, offset = read_map(tmp_path / "v.npz", *WINDOW)
    assert solid.voxel_m == 0.25 and solid.voxels.shape == (20, 10, 6) and solid.origin[2] == 0
    assert np.allclose(offset, (-2.5, -1.25, 0)) and solid.voxels[3, 4].all() and solid.voxels.sum() == 6


def test_ground_and_height_cut_a_cloud(tmp_path):
    points = np.concatenate([room_points() + (0, 0, 30.0), room_points()]).astype(np.float32)
    np.save(tmp_path / "two.npy", points)
    solid, offset = read_map(tmp_path / "two.npy", 30.0, 1.5, 0.1)
    assert solid.voxels.shape[2] == 15 and solid.voxels[0, :, :].all() and offset[2] == -30


def test_a_file_is_read_again_only_if_it_changes(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, room_points())
    first = read_map(path, *WINDOW)[0]
    assert read_map(path, *WINDOW)[0] is first
    np.save(path, room_points()[:2000])
    assert read_map(path, *WINDOW)[0] is not first


# -- broken and hostile files ----------------------------------------------------------------------------------------


def refuse(path, *words):
    with pytest.raises(ConfigError) as found:
        read_map(path, *WINDOW)
    text = str(found.value)
    assert path.stem in text and "\n" not in text and len(text) < 400
    assert all(word in text for word in words), text


@pytest.mark.parametrize("suffix", sorted(map_files.READERS))
@pytest.mark.parametrize("content", [b"", b"\0" * 90, b"\xff" * 3000, b"hello\n", b"{", b"ply\nformat binary 1.0\n"])
def test_rubbish_in_every_format_is_one_sentence(suffix, content, tmp_path):
    if suffix in map_files.MESHES:
        pytest.importorskip("trimesh")
    (tmp_path / f"bad{suffix}").write_bytes(content)
    refuse(tmp_path / f"bad{suffix}")


def test_claims_beyond_the_file_are_refused(tmp_path):
    head = "ply\nformat binary_little_endian 1.0\nelement vertex 1000000000\n"
    head += "property float x\nproperty float y\nproperty float z\nend_header\n"
    (tmp_path / "a.ply").write_text(head)
    refuse(tmp_path / "a.ply", "1,000,000,000")
    path = write_pcd(tmp_path / "b.pcd", room_points())
    path.write_bytes(path.read_bytes().replace(b"POINTS ", b"POINTS 9999"))
    refuse(path, "claims")
    np.save(tmp_path / "c.npy", np.zeros((4, 3)))
    (tmp_path / "c.npy").write_bytes((tmp_path / "c.npy").read_bytes().replace(b"(4, 3)", b"(10000000000, 3)")[:128])
    refuse(tmp_path / "c.npy")
    pytest.importorskip("trimesh")
    (tmp_path / "d.stl").write_bytes(b"\0" * 80 + struct.pack("<I", 10**9) + b"\0" * 50)
    refuse(tmp_path / "d.stl", "1,000,000,000 faces")
    found = json.dumps(
        {"asset": {"version": "2.0"}, "accessors": [{"count": 10**9, "componentType": 5126, "type": "VEC3"}]}
    )
    body = found.encode() + b" " * (-len(found) % 4)
    (tmp_path / "e.glb").write_bytes(struct.pack("<4sIIII", b"glTF", 2, 20 + len(body), len(body), 0x4E4F534A) + body)
    refuse(tmp_path / "e.glb", "1,000,000,000")


def test_huge_images_and_zip_bombs_are_refused(tmp_path):
    path = write_floor_plan(tmp_path)
    (tmp_path / "plan.pgm").write_bytes(b"P5\n20000 20000\n255\n" + b"\0" * 100)
    refuse(path.parent / "plan.yaml", "pixels")
    (tmp_path / "plan.pgm").write_bytes(b"P5\n9000 9000\n255\n" + b"\0" * 100)
    refuse(path, "pixels")
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for k in range(20):
            archive.writestr(f"voxels{k}.npy", b"\0" * 50_000_000)
    refuse(tmp_path / "bomb.npz", "unpacks")
    with pytest.raises(ConfigError, match="env.voxel_m"):
        write_floor_plan(tmp_path, "wide", "wide.pgm")
        (tmp_path / "wide.yaml").write_text((tmp_path / "wide.yaml").read_text().replace("0.050000", "9.0"))
        read_map(tmp_path / "wide.yaml", *WINDOW)


def test_bombs_of_other_kinds_are_refused(tmp_path):
    laughs = [
        "a: &a [x, x, x, x, x, x, x, x, x]",
        *(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghi")),
    ]
    (tmp_path / "laughs.yaml").write_text("\n".join(laughs))
    refuse(tmp_path / "laughs.yaml", "not YAML of plain values")
    entities = "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in pairwise("abcdefghi"))
    for suffix in (".dae", ".3mf", ".svg", ".xml"):  # formats of XML are not read
        (tmp_path / f"bomb{suffix}").write_text(f'<!DOCTYPE x [<!ENTITY a "a">{entities}]><x>&i;</x>')
        refuse(tmp_path / f"bomb{suffix}", "maps are")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    refuse(tmp_path / "deep.json")
    pytest.importorskip("trimesh")
    (tmp_path / "far.obj").write_text("v 0 0 0\nv 1 0 0\nf 1 2 999999999\n")
    refuse(tmp_path / "far.obj")


def test_plan_with_yaw_or_odd_numbers_is_refused(tmp_path):
    path = write_floor_plan(tmp_path)
    path.write_text(path.read_text().replace("0.0]", "0.5]"))
    refuse(path, "yaw")
    (tmp_path / "b.csv").write_text("x,y,length,width,height\n1,2,-3,1,1\n")
    refuse(tmp_path / "b.csv", "positive")
    (tmp_path / "c.csv").write_text("x,y,length,width\n1,2,3,1\n")
    refuse(tmp_path / "c.csv", "box 1", "height")


def test_no_map_in_a_folder_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="no map"):
        list_maps(tmp_path)
    write_floor_plan(tmp_path)
    assert [f.name for f in list_maps(tmp_path)] == ["plan.yaml"]
    with pytest.raises(ConfigError, match="forest"):
        NavigationEnv(1, config=NavigationConfig(map="forrest"))


# -- flying in them --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(GENERATORS))
def test_generated_maps_are_seeded_and_have_free_space(kind):
    solid = generate(kind, 5, (0.3, 0.7), 8.0, 5.0, 0.2)
    assert (solid.voxels == generate(kind, 5, (0.3, 0.7), 8.0, 5.0, 0.2).voxels).all()
    assert (solid.voxels != generate(kind, 6, (0.3, 0.7), 8.0, 5.0, 0.2).voxels).any()
    free = reachable(solid, NavigationConfig(map=kind))
    assert 0.02 < solid.voxels.mean() < 0.5 and free.mean() > 0.1 and not (free & solid.voxels).any()


@pytest.mark.parametrize("kind", [*sorted(GENERATORS), "plan"])
def test_starts_and_goals_are_free(kind, tmp_path):
    name = str(write_floor_plan(tmp_path)) if kind == "plan" else kind
    config = NavigationConfig(num_envs=64, dyn=NONE, num_worlds=2, map=name, map_half_m=8.0, random_clock=False)
    env = NavigationEnv(64, config=config)
    for place in (env.drone.pos, env.goal):
        assert (env.voxels.clearance(place, env.world_of, 0.4) >= 0.3).all()
    record = env.step(torch.zeros(64, 3))
    assert not record.terminated.any() and record.observation["lidar"].shape == (64, 1, 36, 4)
    start, goals = env.protocol_flights(16)
    assert start.shape == (32, 3) and torch.isfinite(start).all()
    assert goals.shape == (32, 1, 3)


def test_an_overhang_that_no_beam_sees_is_a_collision(tmp_path):
    voxels = np.zeros((40, 40, 20), bool)
    voxels[20, 20, 16:] = True  # a bar from 1.6 m up
    np.savez(tmp_path / "bar.npz", voxels=voxels, voxel_m=0.1, origin=np.zeros(3))
    env = NavigationEnv(
        2,
        config=NavigationConfig(
            num_envs=2, dyn=NONE, map=str(tmp_path / "bar.npz"), lidar=LidarConfig(elevations_deg=(0.0,))
        ),
    )
    low = torch.tensor([[0.05, 0.05, 1.25], [0.05, 0.05, 1.35]])
    env.place(low, low + 1)
    hit = env.step(torch.zeros(2, 3)).terminated
    assert hit.tolist() == [False, True]  # 0.35 and 0.25 m below it


def test_state_of_a_file_map_is_restored(tmp_path):
    config = NavigationConfig(num_envs=6, map=str(write_floor_plan(tmp_path)), goals=str(ways(tmp_path)))
    env, other = NavigationEnv(6, config=config), NavigationEnv(6, config=config)
    for _ in range(5):
        env.step(torch.ones(6, 3))
    other.load_state_dict(env.state_dict())
    one, two = env.step(torch.ones(6, 3)), other.step(torch.ones(6, 3))
    assert all((one.observation[k] == two.observation[k]).all() for k in one.observation)


# -- given goals -----------------------------------------------------------------------------------------------------


def ways(folder, text="x,y,z\n-1,3,1, 0,3,1, 0.5,3.5,1.5\n-1.5,3,1, -1.5,4.5,1\n"):
    path = folder / "ways.csv"
    path.write_text(text)
    return path


def test_waypoints_are_flown_in_order(tmp_path):
    plan, goals = str(write_floor_plan(tmp_path)), str(ways(tmp_path))
    env = NavigationEnv(2, config=NavigationConfig(num_envs=2, dyn=NONE, map=plan, goals=goals, random_clock=False))
    start, route = env.protocol_flights(2)
    env.place(start, route)
    assert env.legs.tolist() == [2, 1]
    assert torch.allclose(env.goal[0], torch.tensor([-1.0, -1.0, 1.0]))  # (0, 3) of the file, moved by (-1, -4)
    seen, success = [], torch.zeros(2)
    for _ in range(260):
        action = torch.zeros(2, 3)
        action[:, 0] = 1.0
        action[:, 2] = (env.goal - env.drone.pos)[:, 2].clamp(-1, 1)
        record = env.step(action)
        seen.append(env.leg[0].item())
        success = torch.maximum(success, record.info["success"] * record.valid)
        if record.info["at_goal"].any():
            assert env.leg[0] + 1 == env.legs[0] or record.info["at_goal"][0] == 0
    assert seen[0] == 0 and 1 in seen and success.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("-1,3,1,3.97,3,1\n", "(3.97, 3, 1)"),  # in the wall
        ("-1,3,1,0,3,9\n", "max_height"),
        ("-1,3,1,0,3\n", "5 numbers"),
        ("a\n1,b,3\n", "line 2"),
        ("\n", "no ways"),
    ],
)
def test_impossible_places_are_named(text, words, tmp_path):
    config = NavigationConfig(num_envs=1, map=str(write_floor_plan(tmp_path)), goals=str(ways(tmp_path, text)))
    with pytest.raises(ConfigError) as found:
        NavigationEnv(1, config=config)
    assert words in str(found.value)


def test_goals_of_a_file_work_among_boxes(tmp_path):
    goals = str(ways(tmp_path, "-24,0,1.5,24,0,1.5\n"))
    config = NavigationConfig(num_envs=3, num_obstacles=20, goals=goals, random_clock=False)
    env = NavigationEnv(3, config=config)
    assert torch.allclose(env.goal, torch.tensor([24.0, 0.0, 1.5]).expand(3, 3))
    assert isinstance(env.voxels.solids[0], Solid) and env.grid is not env.voxels


# -- the commands ----------------------------------------------------------------------------------------------------


KINDS = ["plan.pgm", "plan.png", "folder", "hall.stl", "hall.obj", "hall.glb", "boxes.csv", "boxes.json", "voxels.npz"]


@pytest.mark.parametrize("kind", [*KINDS, *(kind for kind in CLOUDS if " ascii" not in kind)])
def test_a_map_is_shown_trained_on_and_evaluated(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = "plan.yaml"
    if kind.startswith("hall"):
        trimesh = pytest.importorskip("trimesh")
        hall = trimesh.creation.box((8.0, 6.0, 4.0))
        hall.apply_translation((0, 0, 2.0))
        if kind == "hall.glb":  # y up
            hall.apply_transform(trimesh.transformations.rotation_matrix(-np.pi / 2, (1, 0, 0)))
        hall.export(path := kind)
    elif kind in CLOUDS:
        path = write_cloud(tmp_path, kind).name
    elif kind.startswith("boxes"):
        boxes = [(0, 0, 0, 4, 1, 3, 30), (3, 5, 1.5, 1, 1, 0.4, 0), (-6, -6, 0, 1, 1, 2, 0), (5, -5, 0, 1, 1, 2, 45)]
        rows = [dict(zip(map_files.BOX_COLUMNS, box, strict=True)) for box in boxes]
        table = [map_files.BOX_COLUMNS, *boxes]
        text = (
            "\n".join(",".join(map(str, row)) for row in table) if kind.endswith("csv") else json.dumps({"boxes": rows})
        )
        (tmp_path / (path := kind)).write_text(text)
    elif kind == "voxels.npz":
        voxels = np.zeros((40, 30, 12), bool)
        voxels[[0, -1]] = voxels[:, [0, -1]] = voxels[20, :20] = True
        np.savez(path := kind, voxels=voxels, voxel_m=0.25)
    else:
        write_floor_plan(tmp_path, image="plan.png" if kind == "plan.png" else "plan.pgm")
        write_floor_plan(tmp_path, "second", "second.png")
        path = "." if kind == "folder" else path
    small = ["env.dyn.num_obstacles=0", "device=cpu", "threads=1", "eval.num_drones=2"]
    assert main(["map", "show", path, "out=map.png"]) == 0
    shown = capsys.readouterr().out
    assert "free to fly" in shown and (tmp_path / "map.png").stat().st_size > 10_000
    more = ["env.num_envs=8", "env.num_worlds=2", "total_frames=256", "algo.rollout_steps=16", "model.trunk=[16]"]
    settings = [*more, *small, f"env.map={path}", "algo.minibatches=2", "eval_interval=0", "name=own", "quiet=true"]
    assert main(["train", *settings]) == 0
    words = ["checkpoint=runs/own", *small, "eval.map_seeds=[1,2]", "eval.max_steps=20"]
    assert main(["eval", *words]) == 0
    recording = load_recording(tmp_path / "runs/own/flight.rec")
    box = recording.arrays["box"]
    assert (tmp_path / "runs/own/flight.html").stat().st_size > 100_000  # the viewer's page
    assert box.shape[1] == 6 and len(box) > 3 and recording.columns["drone.position"].shape[1:] == (2, 3)
    if kind == "plan.pgm" and importlib.util.find_spec("mujoco"):
        assert main(["validate", *words]) == 0
        assert "0 beams beyond 1 mm" in capsys.readouterr().out


def test_map_show_names_what_is_missing(capsys):
    assert main(["map", "show"]) == 2 and main(["map", "show", "none.ply"]) == 2
    assert "env.map=none.ply" in capsys.readouterr().err
