"""Weights on their way from the policy that learns to its copy that acts: whole versions, taken over between rollouts only."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Handover:
    """Versions of the weights of `policy`, number 0 the first, and `acting`, the copy of it that the next rollout acts with.

    `publish` is the learner's, `take_over` the collector's. A version is a copy that nobody writes to, so the learner may go on at once,
    and the acting copy changes at no other time than in `take_over`. Versions are kept until `forget`.

    With `direct` nothing may act between a version's `forget` and the next one's `publish`, as on-policy: then the acting copy itself
    holds the version, and the weights are copied once instead of twice.
    """

    def __init__(self, policy: nn.Module, acting: nn.Module | None = None, direct: bool = False) -> None:
        self.policy = policy
        self.direct = direct
        self.acting = copy.deepcopy(policy).requires_grad_(False) if acting is None else acting
        self._theirs, self._mine = tensors(policy), tensors(self.acting)
        if acting is not None:
            _check_twins(policy, acting, self._theirs, self._mine)
        self._versions: dict[int, list[Tensor]] = {}
        self._spare: list[list[Tensor]] = []  # memory of forgotten versions

    @torch.no_grad()
    def publish(self, version: int) -> None:
        """The learner's present weights are `version`."""
        held = self._room()
        _copy(held, list(self._theirs.values()))
        self._versions[version] = held  # one store: the other thread sees the version whole or not at all

    @torch.no_grad()
    def take_over(self, version: int) -> None:
        """The acting copy acts as `version` from now on."""
        held = self._versions[version]
        if not self.direct:
            _copy(list(self._mine.values()), held)

    def _room(self) -> list[Tensor]:
        """Memory for one more version."""
        if self.direct:
            if self._versions:
                raise RuntimeError(
                    f"version {min(self._versions)} acts still: forget it before the next one is published"
                )
            return list(self._mine.values())
        return self._spare.pop() if self._spare else [torch.empty_like(x) for x in self._theirs.values()]

    def forget(self, before: int) -> None:
        """Versions below `before` are needed no more."""
        for version in [v for v in self._versions if v < before]:
            held = self._versions.pop(version)
            if not self.direct:
                self._spare.append(held)

    def state_dict(self) -> dict[str, Any]:
        """The versions held, as copies."""
        names = list(self._theirs)
        return {str(v): {n: x.clone() for n, x in zip(names, held, strict=True)} for v, held in self._versions.items()}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Holds these versions and no others."""
        for version, saved in state.items():
            if saved.keys() != self._theirs.keys():
                raise ValueError(
                    f"version {version} of the saved weights is of another policy: build it as it was saved"
                )
        self._versions = {}
        for version, saved in state.items():
            held = self._room()
            _copy(held, [saved[name].to(x.device) for name, x in self._theirs.items()])
            self._versions[int(version)] = held


def tensors(module: nn.Module) -> dict[str, Tensor]:
    """All that a module computes with, by name: parameters and buffers, also those that are not saved."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    if targets:  # grouped by kind inside: on a GPU a few kernels for all
        torch._foreach_copy_(targets, sources)


def _check_twins(policy: nn.Module, acting: nn.Module, theirs: dict[str, Tensor], mine: dict[str, Tensor]) -> None:
    shared = {x.data_ptr() for x in theirs.values() if x.numel()} & {x.data_ptr() for x in mine.values() if x.numel()}
    if acting is policy or shared:
        raise ValueError(
            "the base collector acts with the very weights that are trained: it would read them while they are written. "
            "Build it with copy.deepcopy(policy) and give the trained one here, policy=policy"
        )
    if {name: x.shape for name, x in theirs.items()} != {name: x.shape for name, x in mine.items()}:
        raise ValueError(
            "policy= must be of the same architecture as the policy of the base collector: give it copy.deepcopy(policy)"
        )
