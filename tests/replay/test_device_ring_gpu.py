"""The raw ring on a GPU, which is waited for once per turn of the ring."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from device_rings import bits, counting, on_gpu, torn
from replay_worlds import Worlds

from slipstream.replay import ReplayBuffer

pytestmark = [pytest.mark.gpu, on_gpu]


@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_on_a_gpu_nothing_waits_and_the_batches_are_right(sampler):
    worlds = Worlds(4, end=0.1)
    batches = []
    for _ in range(12):
        batch = worlds.batch(6)
        rows = (
            torch.cat([batch["observation", "x"], batch["next", "observation", "x"][:, -1:]], 1)
            .transpose(0, 1)
            .contiguous()
            .cuda()
        )
        moved = batch.to("cuda")
        moved["observation"] = {"x": rows[:-1].transpose(0, 1)}
        moved["next"] = {"observation": {"x": rows[1:].transpose(0, 1)}}
        batches.append(moved)
    buffer = ReplayBuffer(
        400, storage="cuda", device="cuda", sampler=sampler
    )  # no turn of the ring: a draw would wait once
    buffer.extend(batches[0])
    buffer.sample(64, n_step=3)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in batches[1:]:
            buffer.extend(batch)
            drawn = buffer.sample(64, n_step=3)
            buffer.sample_slices(16, 4, 2)
            if sampler == "prioritized":
                buffer.update_priority(drawn["index"], torch.rand(64, device="cuda"))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    known = {step.observation: step for batch in worlds.steps for step in batch}
    drawn = buffer.sample(256).cpu()
    for a, b in zip(drawn["observation", "x"], drawn["next", "observation", "x"], strict=True):
        assert bits(b) == known[bits(a)].successor


def test_compressed_storage_puts_its_batches_on_the_gpu():
    x = np.random.default_rng(0).normal(size=(501, 40)).astype(np.float32)
    buffer = ReplayBuffer(1000, device="cuda")
    buffer.add({"observation": x, "reward": np.arange(500, dtype=np.float32)})
    held = [buffer.sample(64) for _ in range(30)]
    for batch in held:
        assert batch["observation"].is_cuda
        index = batch["index"].cpu().numpy()
        assert np.array_equal(batch["observation"].cpu().numpy(), x[index])
        assert np.array_equal(batch["next", "observation"].cpu().numpy(), x[index + 1])


def test_on_a_gpu_streams_wait_for_each_other():
    buffer = ReplayBuffer(
        4 * 512, storage="cuda", device="cuda"
    )  # large enough that the host need not ask whether it is empty
    side = torch.cuda.Stream()
    batches = [counting(32 * k, 4, 32, "cuda", width=64) for k in range(28)]
    for batch in batches[:17]:
        buffer.extend(batch)
    buffer.sample(256)
    torch.cuda.synchronize()
    drawn = []
    for k in range(17, 28):
        torch.cuda._sleep(20_000_000)  # the write comes late: a draw that does not wait finds the frames of before
        buffer.extend(batches[k])
        with torch.cuda.stream(side):
            drawn.append((k, buffer.sample(256)))
            torch.cuda._sleep(20_000_000)  # and this one late: a write that does not wait takes its frames away
            drawn.append((k, buffer.sample(256)))
    torch.cuda.synchronize()
    for k, batch in drawn:
        time = batch["reward"].remainder(1e6)
        assert torn(batch) == 0
        assert 32 * (k + 1) - 513 <= time.min() and 32 * k <= time.max() < 32 * (k + 1) - 1
