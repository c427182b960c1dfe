"""CUDA graph capture, in one place: a function of fixed tensors is run plainly a few times, then captured once and replayed.

The code that is captured stays plain PyTorch and knows nothing of it. A function can be captured if it reads and writes only
tensors that live on (in place), never waits for the device, and takes the same path every time. What it returns is overwritten
by the next call.
"""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from slipstream.algorithms.execution.sync import waiting_refused

WARM_UP = 2  # plain calls before the capture: libraries set themselves up in them

# Side streams, by device, whose last owner is gone. cuBLAS keeps a workspace (66 MB on an H200) for every stream it has ever seen, and a
# graph goes on using that of the stream it was captured on: two living graphs must not share a stream, and new streams must be rare.
_free_streams: dict[int, list[Any]] = {}


class Captured:
    """`fn`, captured as a CUDA graph after its first calls; called plainly for good where that cannot be."""

    def __init__(
        self,
        fn: Callable[[], Any],
        name: str,
        tell: Callable[[str], None] = print,
        generator: torch.Generator | None = None,
    ) -> None:
        """`generator`: one of its own that `fn` draws from. Graphs that run side by side must not share one: replays write its state."""
        self._fn = fn
        self._name = name
        self._tell = tell
        self._generator = generator
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Any = None
        self._stream = self._own_stream()
        self.plain = False  # given up

    def __call__(self) -> Any:
        """What `fn()` gives."""
        if self._graph is not None:
            self._graph.replay()
            return self._result
        if self.plain:
            return self._fn()
        result = self._first_call()
        self._calls += 1  # one that raises is made again
        return result

    def _first_call(self) -> Any:
        """One of the calls before the graph is there. The very first may compile, allocate and read back: it is not watched."""
        if self._calls == 0:
            return self._fn()
        return self._rehearse() if self._calls <= WARM_UP else self._capture()

    def _own_stream(self) -> Any:
        """A stream that no other living object has; given back when this one goes."""
        free = _free_streams.setdefault(torch.cuda.current_device(), [])
        if free:
            torch.cuda.synchronize()  # its last owner's graph may still be running, with the stream's workspace
        stream = free.pop() if free else torch.cuda.Stream()
        weakref.finalize(self, free.append, stream).atexit = False
        return stream

    def _rehearse(self) -> Any:
        """A plain call on a side stream, as capture needs it, that refuses to wait for the device."""
        self._stream.wait_stream(torch.cuda.current_stream())
        try:
            with waiting_refused(), torch.cuda.stream(self._stream):
                result = self._fn()
        except RuntimeError as error:
            if "synchroniz" not in str(error):
                raise
            self._give_up(error)
            raise HostSynchronisation(str(error)) from error
        finally:
            torch.cuda.current_stream().wait_stream(self._stream)
        return result

    def _capture(self) -> Any:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        if self._generator is not None:
            graph.register_generator_state(self._generator)
        try:  # other threads (that write checkpoints) may go on meanwhile
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._result = self._fn()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            torch.cuda.synchronize()
            self._give_up(error, f"({str(error).splitlines()[0]})")
            raise HostSynchronisation(str(error)) from error
        self._graph = graph
        self._graph.replay()  # capture records, it does not run
        return self._result

    def _give_up(self, error: BaseException, why: str = "waits for the device") -> None:
        self.plain = True
        self._tell(
            f"{self._name} cannot be captured as a CUDA graph: {culprit(error)} {why}. It runs step by step, which is slower."
        )


class HostSynchronisation(RuntimeError):
    """The rehearsal, or the capture, was broken off half way: the caller must begin that call anew."""


def culprit(error: BaseException) -> str:
    """The line outside of torch that an error came from, as `file:line (code)`."""
    frames = traceback.extract_tb(error.__traceback__)
    torch_home = str(Path(torch.__file__).parent)
    own = [f for f in frames if not f.filename.startswith(torch_home)]
    frame = (own or list(frames))[-1]
    return f"{frame.filename}:{frame.lineno} ({frame.line})"
