"""Recordings: what is written is read back, damaged files are refused, and other programs read the exports."""

from __future__ import annotations

import json
import re
import zlib

import numpy as np
import pytest
from helpers.forged import forge
from safetensors.torch import load

from slipstream.recordings import Recording, export_recording, load_recording, parse_recording, read_title
from slipstream.storage.errors import DamagedFileError, TooLargeError
from slipstream.storage.tensor_file import Reader


def small_recording() -> Recording:
    """Two bodies for three rows; the second is gone in the last one."""
    place = [[[0.1 * t, 1.0, 2.0], [np.nan if t == 2 else 5.0 + t, -1.0, 2.0]] for t in range(3)]
    columns = {
        "drone.position": np.array(place, np.float32),
        "drone.value": np.array([[1.5, -t] for t in range(3)], "f4"),
    }
    recording = Recording("flight", "two, <b>small</b>", {"": np.array([0.0, 0.5, 1.0])}, columns)
    recording.arrays["drone.outcome"] = np.array([1, 2], np.uint8)
    recording.precision["drone.position"] = 0.001
    recording.events = [{"time": 0.5, "kind": "collision", "text": "drone 2 collided, hard|fast", "body": "drone 2"}]
    labels = ["drone 1", "drone 2"]
    group = {"name": "drone", "position": "drone.position", "shown": None, "labels": labels}
    recording.groups = [group | {"type": "Air+Rotorcraft", "color": "Cyan"}]
    recording.meta = {"summary": "1 of 2", "policy_sha256": "ab", "lidar": {"range_m": 4.0}}
    return recording


def test_a_file_gives_back_what_was_recorded(tmp_path):
    was = small_recording()
    now = load_recording(was.save(tmp_path / "two.rec"))
    for name in ("scene", "title", "meta", "groups", "events"):
        assert getattr(now, name) == getattr(was, name)
    np.testing.assert_array_equal(now.clocks[""], [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(now.columns["drone.value"], was.columns["drone.value"])
    np.testing.assert_allclose(now.columns["drone.position"], was.columns["drone.position"], atol=0.0005)
    assert now.arrays["drone.outcome"].dtype == np.uint8
    assert read_title(tmp_path / "two.rec") == {"scene": "flight", "title": was.title, "frames": 3, "summary": "1 of 2"}


@pytest.mark.parametrize("spread", [10.0, 1e5])
def test_a_precision_holds_in_16_and_32_bits(tmp_path, spread):
    values = np.linspace(-spread, spread, 1001, dtype=np.float32).reshape(-1, 1)
    recording = Recording("x", "t", {"": np.arange(1001.0)}, {"a": values}, precision={"a": 0.01})
    now = load_recording(recording.save(tmp_path / "a.rec"))
    assert np.abs(now.columns["a"] - values).max() <= 0.005 + spread * 1e-7


def test_a_changed_byte_is_found(tmp_path):
    path = small_recording().save(tmp_path / "two.rec")
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
        with pytest.raises(DamagedFileError):
            load_recording(path)


@pytest.mark.parametrize("change", [
    lambda r: r.columns.update({"other/x": np.zeros(3)}),
    lambda r: r.columns.update({"x": np.zeros(4)}),
    lambda r: r.clocks.update({"": np.array([0.0, 2.0, 1.0])}),
    lambda r: r.groups[0].update(labels=["one"]),
    lambda r: r.groups[0].update(shown="drone.position"),
    lambda r: r.groups[0].update(labels={"a": 1, "b": 2}),
    lambda r: r.groups[0].update(labels="ab"),
    lambda r: r.groups.append(["drone"]),
])  # fmt: skip
def test_parts_that_do_not_fit_are_refused(tmp_path, change):
    recording = small_recording()
    change(recording)
    with pytest.raises(ValueError):
        recording.save(tmp_path / "two.rec")
    assert not (tmp_path / "two.rec").exists()


def test_a_large_array_is_refused_before_it_is_inflated():
    zeros = np.zeros((4, 1_000_000), np.float32)
    data = Recording("x", "t", {"": np.arange(4.0)}, {"a": zeros}).to_bytes()
    assert len(data) < 20_000
    with pytest.raises(TooLargeError):
        parse_recording(data, Reader("a.rec", max_bytes=1_000_000))


def test_a_piece_is_deflated_planes_as_the_page_reads_them():
    data = small_recording().to_bytes()
    planes = np.frombuffer(zlib.decompress(load(data)["drone.value"].numpy()), np.uint8).reshape(4, 6)
    values = np.ascontiguousarray(planes.T).view("<f4").reshape(3, 2)
    np.testing.assert_array_equal(values, [[1.5, 0.0], [1.5, -1.0], [1.5, -2.0]])


@pytest.mark.parametrize(("version", "word"), [(1, "an older"), (99, "a newer")])
def test_a_recording_of_another_version_says_so(tmp_path, version, word):
    path = small_recording().save(tmp_path / "two.rec")
    forge(path, lambda x: x.head.__setitem__("version", version))
    for read in (load_recording, read_title):
        with pytest.raises(DamagedFileError, match=f"written by {word} version of Slipstream, with version {version}"):
            read(path)


def test_html_is_one_small_file_that_fetches_nothing(tmp_path):
    page = export_recording(small_recording(), tmp_path / "two.html", "html").read_text(encoding="utf-8")
    assert len(page) < 1_500_000
    assert "<title>two, &lt;b&gt;small&lt;/b&gt;</title>" in page
    assert not re.search(r"(src|href)=[\"']?(?!data:)", page.split("<body")[0])
    assert "default-src 'none'" in page


def test_another_programs_parser_reads_the_acmi_file(tmp_path, capsys):
    pyacmi = pytest.importorskip("pyacmi")
    recording = small_recording()
    recording.events.append({"time": 1.0, "kind": "lost", "text": "drone 2 is lost", "body": "drone 2"})
    path = export_recording(recording, tmp_path / "two.acmi", "acmi")
    acmi = pyacmi.Acmi()
    acmi.load_acmi(filepath=str(path))
    bodies = list(acmi.objects.values())
    assert [body.name for body in bodies] == ["drone 1", "drone 2"]
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    assert lines[:2] == ["FileType=text/acmi/tacview", "FileVersion=2.2"]
    assert "-2" in lines[lines.index("#1.000") :]  # removed when it is gone
    assert capsys.readouterr().out == ""  # it would name what it does not know
    assert any(line.startswith("2,") and line.endswith(r",Label=drone 2 collided\, hard/fast") for line in lines)
    assert "0,Comments=drone 2 is lost" in lines  # of a body that is gone


def test_unknown_formats_are_named(tmp_path):
    with pytest.raises(ValueError, match="html, acmi"):
        export_recording(small_recording(), tmp_path / "x", "gif")


def test_texts_of_a_recording_make_no_lines_of_acmi(tmp_path):
    recording = small_recording()
    recording.meta["created"] = "x\n0,Title=\ud800"
    text = export_recording(recording, tmp_path / "a.acmi", "acmi").read_text(encoding="utf-8")
    assert "0,ReferenceTime=x 0\\,Title=\\\\ud800\n" in text


@pytest.mark.parametrize(
    "edit", [{"title": "\ud800"}, {"meta": {"a": float("nan")}}, {"meta": {"summary": "x" * 5000}}]
)
def test_texts_and_numbers_that_a_page_cannot_hold_are_refused(tmp_path, monkeypatch, edit):
    write = json.dumps
    monkeypatch.setattr(json, "dumps", lambda value, **options: write(value, **options | {"allow_nan": True}))
    recording = small_recording()
    recording.__dict__.update(edit)
    path = recording.save(tmp_path / "a.rec")
    monkeypatch.undo()
    with pytest.raises(DamagedFileError):
        load_recording(path)
        read_title(path)


def test_a_default_export_follows_no_link(tmp_path):
    from slipstream.cli import main

    (tmp_path / "x").mkdir()
    path = small_recording().save(tmp_path / "x" / "a.rec")
    (tmp_path / "x" / "a.html").symlink_to(tmp_path / "new")
    assert main(["recording", "export", str(path), "--to", "html"]) == 2
    assert not (tmp_path / "new").exists()
