import torch
from helpers.states import same, training_state

from slipstream.checkpoint import AsyncCheckpointSaver, load_checkpoint


def steps(folder):
    return sorted(int(p.name.split("_")[1].split(".")[0]) for p in folder.glob("c_*"))


def test_the_last_k_stay(tmp_path):
    with AsyncCheckpointSaver(keep_last=2) as saver:
        for i in range(5):
            saver.save_async({"i": i}, tmp_path / f"c_{i}.pt")
    assert steps(tmp_path) == [3, 4]


def test_a_complete_file_stays_while_a_difference_needs_it(tmp_path):
    state = training_state()
    with AsyncCheckpointSaver(full_every=4, keep_last=2) as saver:
        for i in range(8):
            state["iteration"] = i
            saver.save_async(state, tmp_path / f"c_{i}.pt")
            saver.wait()
            for step in steps(tmp_path):
                assert load_checkpoint(tmp_path / f"c_{step}.pt")["iteration"] == step
    assert steps(tmp_path) == [4, 6, 7]


def test_other_files_are_never_touched(tmp_path):
    torch.save({}, tmp_path / "weights_3.pt")
    (tmp_path / "c_notes.pt").write_text("mine")
    with AsyncCheckpointSaver(keep_last=1) as saver:
        for i in range(3):
            saver.save_async({}, tmp_path / f"c_{i}.pt")
        saver.save_async({}, tmp_path / "final.pt")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c_2.pt.slip", "c_notes.pt", "final.pt.slip", "weights_3.pt"]


def test_links_follow_the_form(tmp_path):
    with AsyncCheckpointSaver(links=True) as saver:
        saver.save_async({"i": 1}, tmp_path / "c_1.pt", compress=True)
        saver.save_async({"i": 2}, tmp_path / "c_2.pt", compress=False)
    assert load_checkpoint(tmp_path / "latest.pt") == {"i": 2}
    assert not (tmp_path / "latest.pt.slip").is_symlink()


def test_a_link_to_a_difference_finds_the_base(tmp_path):
    state = training_state()
    with AsyncCheckpointSaver(links=True, full_every=3) as saver:
        for i in range(2):
            saver.save_async(state, tmp_path / "run" / f"c_{i}.pt")
    (tmp_path / "elsewhere.pt.slip").symlink_to(tmp_path / "run" / "latest.pt.slip")
    assert same(load_checkpoint(tmp_path / "elsewhere.pt"), state)


def test_without_a_link_a_folder_means_its_highest_number(tmp_path):
    with AsyncCheckpointSaver() as saver:
        for i in (1000, 999, 9):
            saver.save_async({"i": i}, tmp_path / f"c_{i}.pt")
    assert load_checkpoint(tmp_path) == {"i": 1000}


def test_a_kill_before_the_link_changed_loads_the_newest(tmp_path):
    with AsyncCheckpointSaver(links=True) as saver:
        for i in (9, 10):
            saver.save_async({"i": i}, tmp_path / f"c_{i}.pt")
    link = tmp_path / "latest.pt.slip"
    link.unlink()
    link.symlink_to("c_9.pt.slip")  # as it was before the last save
    assert load_checkpoint(tmp_path) == {"i": 10}
    assert load_checkpoint(tmp_path / "latest.pt") == {"i": 9}


def test_higher_numbers_of_an_earlier_run_are_not_the_latest(tmp_path):
    with AsyncCheckpointSaver(links=True) as saver:
        for i in (9, 10, 4):
            saver.save_async({"i": i}, tmp_path / f"c_{i}.pt")
            saver.wait()
    assert load_checkpoint(tmp_path) == {"i": 4}


def test_another_runs_files_leave_before_ours_at_any_step(tmp_path):
    for first, count in ((100, 3), (0, 3)):  # the second run begins again, in the folder of the first
        with AsyncCheckpointSaver(keep_last=2) as saver:
            for i in range(first, first + count):
                saver.save_async({"i": i}, tmp_path / f"c_{i}.pt")
    assert steps(tmp_path) == [1, 2]
