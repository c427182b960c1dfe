"""Programs started by helpers/warm_python.py end, print and are stopped like those that subprocess starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from helpers import warm_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere subprocess starts them")


def answer(code, *words, **options):
    done = warm_python.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60, **options)
    return done.returncode, done.stdout, done.stderr


def test_it_has_its_own_arguments_folder_environment_and_parent(tmp_path):
    code = "import os, sys; print(sys.argv, os.getcwd(), os.environ['A'], os.environ.get('HOME'), os.getppid(), 'torch' in sys.modules, __name__)"
    env = {name: value for name, value in os.environ.items() if name != "HOME"} | {"A": "b"}
    shown = f"['-c', 'x y'] {tmp_path} b None {os.getpid()} True __main__\n"
    assert answer(code, "x y", cwd=tmp_path, env=env) == (0, shown, "")


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        ("import atexit; atexit.register(print, 'bye'); raise SystemExit(3)", (3, "bye\n", "")),
        ("import sys; sys.stdout.write('é'); sys.exit('no')", (1, "é", "no\n")),
        ("import os; print('lost'); os._exit(4)", (4, "", "")),
        ("import os; os.kill(os.getpid(), 9)", (-signal.SIGKILL, "", "")),
        ("import threading; threading.Timer(0.1, print, ['late']).start()", (0, "late\n", "")),
    ],
)
def test_it_ends_as_any_program(monkeypatch, code, ends):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    assert answer(code) == ends


@pytest.mark.parametrize("asked", [{}, {"WARM_TEARDOWN": "1"}])
def test_modules_are_destroyed_if_asked(asked):
    code = "import os, sys\nclass Last:\n  def __del__(self): os.write(1, b'gone')\nkept = Last()\nsys.modules['kept'] = kept"
    assert answer(code, env=os.environ | asked) == (0, "gone" if asked else "", "")


def test_its_own_programs_are_forks_if_asked():
    code = """
import sys
from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import Popen
child = Popen([sys.executable, "-c", "import os, sys; print('torch' in sys.modules, os.getppid(), os.getsid(0) == os.getpid())"], start_new_session=True)
code = child.wait()
print(code, os.getpid())
"""
    ends, out, error = answer("import os\n" + code, env=os.environ | {"WARM_CHILDREN": "1", "PYTHONUNBUFFERED": "1"})
    first, second = out.splitlines()
    assert (ends, error) == (0, "") and first.split() == ["True", second.split()[1], "True"] and second[0] == "0"


def test_an_error_is_a_traceback_with_code_1():
    code, out, error = answer("print('before')\n1 / 0")
    assert (code, out) == (1, "before\n") and error.splitlines()[-1] == "ZeroDivisionError: division by zero"
    with pytest.raises(subprocess.CalledProcessError):
        warm_python.run([sys.executable, "-c", "raise SystemExit(1)"], check=True)


def test_a_script_finds_its_neighbors_and_a_module_the_folder(tmp_path):
    (tmp_path / "neighbor.py").write_text("import sys\nname = 'found'\nif __name__ == '__main__': print(sys.argv[1:])")
    (tmp_path / "script.py").write_text("import neighbor, sys; print(neighbor.name, sys.argv[1:], __file__)")
    script = str(tmp_path / "script.py")
    assert warm_python.run([sys.executable, script, "a"], stdout=-1, text=True).stdout == f"found ['a'] {script}\n"
    command = [sys.executable, "-m", "neighbor", "b"]
    assert warm_python.run(command, cwd=tmp_path, stdout=-1, text=True).stdout == "['b']\n"


def test_a_running_one_is_read_signalled_and_timed_out():
    code = "import time; print('up', flush=True); time.sleep(600)"
    with warm_python.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "up\n" and process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT
    with pytest.raises(subprocess.TimeoutExpired):
        warm_python.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=0.01)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_numbers_of_threads_are_those_of_its_environment(threads):
    code = "import torch, numba; print(torch.get_num_threads(), numba.get_num_threads())"
    env = os.environ | {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    assert answer(code, env=env) == (0, f"{threads} {threads}\n", "")


@pytest.mark.parametrize(
    ("options", "env"), [(["-W", "ignore"], {}), ([], {"OMP_WAIT_POLICY": "passive"}), ([], {"TRITON_INTERPRET": "1"})]
)
def test_a_real_start_is_left_to_subprocess(options, env):
    command = [sys.executable, *options, "-c", "import sys; print('torch' in sys.modules)"]
    assert warm_python.run(command, env=os.environ | env, stdout=-1, text=True).stdout == "False\n"
