"""Batches copied to another device or to memory of their own, each piece of memory once, however many views share it."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

_WASTE = 2  # a storage more than this times larger than what is seen of it is not worth copying whole


class Courier:
    """Copies batches to `device`.

    The `next` observations of a collector's batch are the memory of `observation`, one row on: copied key by key they would travel
    twice and take twice the room. With `fixed` every batch goes to the same memory, that of the first, so that a captured update may
    read it; otherwise each gets memory of its own. From a CPU to a GPU it goes by way of pinned memory, and nobody waits.
    """

    def __init__(self, device: torch.device, fixed: bool = False) -> None:
        self.device = device
        self._fixed: dict[int, Tensor] | None = {} if fixed else None  # by the order of storages in the batch

    def __call__(self, batch: TensorDictBase) -> TensorDictBase:
        """The batch on `device`; on a GPU the copies are queued on the current stream."""
        leaves = list(batch.values(include_nested=True, leaves_only=True))
        seen: dict[int, int] = {}  # bytes looked at, by storage
        for leaf in leaves:
            at = leaf.untyped_storage().data_ptr()
            seen[at] = seen.get(at, 0) + leaf.nbytes
        twins: dict[int, Tensor] = {}
        copies: dict[int, Tensor] = {}
        for leaf in leaves:
            storage = leaf.untyped_storage()
            at = storage.data_ptr()
            if storage.nbytes() > _WASTE * seen[at] or leaf.device.type == "meta":
                copies[id(leaf)] = self._copied(leaf.contiguous(), len(copies) + 1_000_000)
                continue
            if at not in twins:
                whole = torch.empty(0, dtype=torch.uint8, device=leaf.device).set_(
                    storage, 0, (storage.nbytes(),), (1,)
                )
                twins[at] = self._copied(whole, len(twins))
            view = torch.empty(0, dtype=leaf.dtype, device=self.device)
            copies[id(leaf)] = view.set_(twins[at].untyped_storage(), leaf.storage_offset(), leaf.size(), leaf.stride())
        moved = batch.apply(lambda x: copies[id(x)], device=self.device)
        assert moved is not None
        return moved

    def _copied(self, source: Tensor, place: int) -> Tensor:
        if self._fixed is not None:
            held = self._fixed.get(place)
            if held is None or held.shape != source.shape or held.dtype != source.dtype:
                held = self._fixed[place] = torch.empty_like(source, device=self.device)
            return held.copy_(source, non_blocking=True)
        if source.device.type == "cpu" and self.device.type == "cuda":
            return source.pin_memory().to(self.device, non_blocking=True)
        return source.to(self.device, copy=True)
