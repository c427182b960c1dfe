"""The one background worker: order, full queues, errors that reach the caller, forks, and the end of the
interpreter."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from helpers.workers import wait_for_error

from slipstream.storage.background import THREADS, BackgroundWorker, map_in_threads
from slipstream.storage.errors import SaveError


def held(count):
    """A worker whose first task waits for an event, with `count` more in the queue."""
    gate, started, done = threading.Event(), threading.Event(), []
    worker = BackgroundWorker("test worker")
    worker.submit(lambda: (started.set(), gate.wait(30)), label="0")
    assert started.wait(30)
    for i in range(1, count + 1):
        worker.submit(done.append, i, label=str(i)).add_done_callback(lambda _, i=i: done.append(-i))
    return worker, gate, done


def test_tasks_run_in_order_and_done_follows_each():
    worker, gate, done = held(3)
    assert worker.pending() == ["0", "1", "2", "3"] and len(worker) == 4
    gate.set()
    worker.wait(30)
    assert done == [1, -1, 2, -2, 3, -3] and len(worker.durations_ms) == 4
    assert worker.close() and worker.close()


def test_an_error_is_raised_once_and_work_continues():
    worker = BackgroundWorker("saver")
    future = worker.submit(lambda: 1 / 0, label="c_1.pt")
    wait_for_error(worker)
    assert isinstance(future.exception(), ZeroDivisionError)
    with pytest.raises(SaveError, match=r"the saver failed at c_1.pt: ZeroDivisionError: .*") as info:
        worker.check()
    assert isinstance(info.value.__cause__, ZeroDivisionError) and worker.failed == 1
    worker.check()
    assert worker.submit(lambda: 7).result(30) == 7
    worker.close()
    with pytest.raises(SaveError, match="shut down"):
        worker.check()
    with pytest.raises(SaveError, match="shut down"):
        worker.submit(print)


def test_close_says_when_time_ran_out():
    worker, gate, _ = held(1)
    with pytest.raises(SaveError, match="2 tasks of the test worker are unfinished after 0.01 s"):
        worker.close(0.01)
    gate.set()
    assert worker.close(30)


def test_map_keeps_the_order_and_bounds_what_is_in_flight():
    begun = []

    def square(x):
        begun.append(x)
        return x * x

    for i, result in enumerate(map_in_threads(square, range(100))):
        assert result == i * i and len(begun) - i <= 2 * THREADS + 2
    with pytest.raises(ZeroDivisionError):
        list(map_in_threads(lambda x: 1 // x, [1, 2, 0, 3]))
    assert list(map_in_threads(str, [1])) == ["1"]


def test_a_forked_child_may_start_again():
    worker = BackgroundWorker("forked", restart_after_fork=True)
    assert worker.submit(lambda: 1).result(30) == 1
    pid = os.fork()
    if pid == 0:
        os._exit(0 if worker.submit(lambda: 2).result(30) == 2 else 2)
    assert os.waitpid(pid, 0)[1] == 0
    worker.close()


EXITING = """
import atexit, sys
from pathlib import Path
from slipstream.storage.background import BackgroundWorker, map_in_threads
out = Path(sys.argv[1])
worker = BackgroundWorker("saver", on_exit=lambda: worker.close(30))
for i in range(5):
    worker.submit(lambda i=i: (out / str(i)).write_text("".join(map_in_threads(str, range(i)))))
"""


def test_queued_work_is_finished_when_the_interpreter_exits(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", EXITING, str(tmp_path)], check=True, env=env, timeout=60)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0", "1", "2", "3", "4"]
    assert (tmp_path / "4").read_text() == "0123"


def test_stop_drops_the_queue_and_ends_the_thread_without_waiting():
    begun, go_on = threading.Event(), threading.Event()
    worker = BackgroundWorker("stopped worker")
    running = worker.submit(lambda: begun.set() or go_on.wait(30))
    assert begun.wait(30)
    queued = worker.submit(lambda: None)
    worker.stop()
    worker.stop()
    assert queued.cancelled() and not running.done()
    with pytest.raises(SaveError, match="shut down"):
        worker.submit(lambda: None)
    go_on.set()
    assert running.result(30) and worker.close(30)
