"""Capture functions as CUDA graphs; `GraphedFunction` says which ones can be."""

from __future__ import annotations

import gc
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

PIECE = 128  # calls that `SideStream` launches at a time; two pieces at most wait on the device
WARM_UP = 2  # eager calls on the side stream before the capture: libraries initialize themselves in them

# Side streams by device that no GraphedFunction uses any more. cuBLAS keeps a workspace (66 MB on an H200) for every
# stream it has seen, and a graph keeps using the workspace of its capture stream: two live graphs must not share a
# stream, and new streams must be rare.
_free_streams: dict[int, list[Any]] = {}
_captured: weakref.WeakSet[GraphedFunction] = weakref.WeakSet()


class CaptureFailed(RuntimeError):
    """A warm-up call or the capture stopped half way: the caller must repeat the call, which then runs eagerly."""


class GraphedFunction:
    """Call `fn` through a CUDA graph that is captured after the first calls; call it eagerly if it cannot be captured.

    The contract of `fn`, for networks and learners of your own too:

    - It reads and writes only tensors that keep their memory: inputs, weights, optimizer state and buffers are written
      in place. The tensors that it returns are overwritten by the next call.
    - It never waits for the device: no `.item()`, no `if tensor:`, no `x[mask]`, no copy to the host.
    - It takes the same path with the same shapes at every call. Python numbers and branches are those of the capture; a
      value that changes between calls is a tensor that is written before the call.
    - It draws random numbers from `generator`, or from the global generator of the device.

    The first call may do anything: allocate, compile, read back. A function that breaks the second rule is recognized,
    and runs eagerly with a message; the others cannot be checked here (`verify.py` compares compiled code).

    Args:
        fn: the function to capture.
        name: how messages name it.
        log: receives one line if the function cannot be captured.
        generator: the generator that `fn` draws from, if not the global one. Graphs that run side by side need one
            each: a replay writes its state.
        agree: returns whether all ranks of a training could capture, for whether this one could. An all-reduce must be
            in the graph of all ranks or of none.
    """

    def __init__(
        self,
        fn: Callable[[], Any],
        name: str,
        log: Callable[[str], None] = print,
        generator: torch.Generator | None = None,
        agree: Callable[[bool], bool] = bool,
    ) -> None:
        self._fn = fn
        self._agree = agree
        self._name = name
        self._log = log
        self._generator = generator
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Any = None
        self._stream = self._reserve_stream()
        self.eager = False  # capturing failed

    def __call__(self) -> Any:
        """Return what `fn()` returns.

        Raises:
            CaptureFailed: once, if `fn` cannot be captured.
        """
        if self._graph is not None:
            self._graph.replay()
            return self._result
        if self.eager:
            return self._fn()
        # The first call may compile, allocate and read back.
        result = self._fn() if self._calls == 0 else self._warm_up() if self._calls <= WARM_UP else self._capture()
        self._calls += 1  # a call that raised does not count
        return result

    def _reserve_stream(self) -> Any:
        """Take a stream that no other live object uses; it is returned when this object is deleted."""
        free = _free_streams.setdefault(torch.cuda.current_device(), [])
        if free:
            torch.cuda.synchronize()  # the last owner's graph may still run, with the stream's workspace
        stream = free.pop() if free else torch.cuda.Stream()
        weakref.finalize(self, free.append, stream).atexit = False
        return stream

    def _warm_up(self) -> Any:
        """Call eagerly on the side stream, as capturing requires, and fail if the call waits for the device."""
        self._stream.wait_stream(torch.cuda.current_stream())
        try:
            with forbid_sync(), torch.cuda.stream(self._stream):
                return self._fn()
        except RuntimeError as error:
            if "synchroniz" not in str(error):
                raise
            self._give_up(error, "waits for the device")
            raise CaptureFailed(str(error)) from error
        finally:
            torch.cuda.current_stream().wait_stream(self._stream)

    def _capture(self) -> Any:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        if self._generator is not None:
            graph.register_generator_state(self._generator)
        failure: RuntimeError | None = None
        try:  # thread_local: other threads, such as the checkpoint writer, may use CUDA meanwhile
            with (
                _garbage_collection_paused(),
                torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"),
            ):
                self._result = self._fn()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            failure = error
        if not self._agree(failure is None):
            torch.cuda.synchronize()
            failure = failure or RuntimeError("another rank cannot capture it")
            self._give_up(failure, f"({str(failure).splitlines()[0]})")
            raise CaptureFailed(str(failure)) from failure
        self._graph = graph
        _captured.add(self)
        self._graph.replay()  # the capture only recorded
        return self._result

    def _give_up(self, error: BaseException, reason: str) -> None:
        self.eager = True
        self._log(
            f"{self._name} cannot be captured as a CUDA graph: {_source_line(error)} {reason}. It runs eagerly, which is slower."
        )


class SideStream:
    """Run captured functions beside the work of the current stream.

    They are launched in pieces, by `poll`: a full launch queue would block the host. Their memory must be neither freed
    nor written from another stream before `poll` has returned True or `stop` was called.
    """

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._calls: deque[Callable[[], Any]] = deque()
        self._pieces: deque[torch.cuda.Event] = deque()  # recorded after each piece that was launched

    def start(self, calls: Iterable[Callable[[], Any]]) -> None:
        """Launch the first of `calls`, which never wait for the device. They run after all that is queued now."""
        self._stream.wait_stream(torch.cuda.current_stream())
        self._calls.extend(calls)
        self.poll()

    def poll(self, wait: bool = False) -> bool:
        """Launch more calls; return whether all have run, with `wait` when they have."""
        while self._calls or self._pieces:
            if self._calls and len(self._pieces) < 2:
                self._launch()
                continue
            if wait:
                self._pieces[0].synchronize()
            elif not self._pieces[0].query():
                return False
            self._pieces.popleft()
        return True

    def stop(self) -> None:
        """Launch no more, and wait for what was launched."""
        self._calls.clear()
        self._pieces.clear()
        self._stream.synchronize()

    def _launch(self) -> None:
        with torch.cuda.stream(self._stream):
            for _ in range(min(PIECE, len(self._calls))):
                self._calls.popleft()()
            event = torch.cuda.Event()
            event.record()
        self._pieces.append(event)


def destroy_graphs() -> None:
    """Free all captured graphs; the functions run eagerly from now on."""
    if _captured:
        torch.cuda.synchronize()
    for function in list(_captured):
        function._graph, function._result, function.eager = None, None, True
        _captured.discard(function)


def forbid_sync() -> AbstractContextManager[None]:
    """Raise a RuntimeError with 'synchroniz' in its text for every wait for a CUDA device inside the block."""
    return _sync_debug_mode("error")


def allow_sync(device: torch.device) -> AbstractContextManager[None]:
    """Allow reading back from `device` inside the block, even within `forbid_sync`."""
    return _sync_debug_mode("default") if device.type == "cuda" else nullcontext()


@contextmanager
def _sync_debug_mode(mode: str) -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    _set_sync_debug_mode(mode)
    try:
        yield
    finally:
        _set_sync_debug_mode(before)


def _set_sync_debug_mode(mode: str | int) -> None:
    with warnings.catch_warnings():  # torch warns that it may miss some waits: a user cannot act on it
        warnings.filterwarnings("ignore", "Synchronization debug mode", UserWarning)
        torch.cuda.set_sync_debug_mode(mode)


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Keep Python from freeing the graphs, events and pinned memory of earlier trainings inside a capture, which CUDA
    may refuse.

    Collectors and trainings hold reference cycles, so only the garbage collector frees them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _source_line(error: BaseException) -> str:
    """Return the last line outside of torch in an error's traceback, as `file:line (code)`."""
    frames = traceback.extract_tb(error.__traceback__) or traceback.extract_stack()[:-1]
    torch_home = str(Path(torch.__file__).parent)
    own = [f for f in frames if not f.filename.startswith(torch_home)]
    frame = (own or list(frames))[-1]
    return f"{frame.filename}:{frame.lineno} ({frame.line})"
