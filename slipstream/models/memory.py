"""Memory of a policy: numbers that it carries from step to step. `Stepper` carries them in evaluations and games.

A policy with memory has `memory_size`, the numbers per environment. It reads them as `observation["memory"]` [N, size],
zeros where an episode starts, and returns those after the step as `"memory"`. After a frame with `valid` False, which
only resets the environment, they are zero again: the value of an episode's final observation still has its memory.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from slipstream.models.encoders import mlp

MEMORY = "memory"  # of the observation, the policy's result and the batch
MEMORIES = ("none", "gru", "stack")  # values of `model.memory`


class Memory(nn.Module):
    """Layers between the encoder and the heads that carry numbers from step to step.

    A memory of your own sets `size` and `width`, and implements `forward`.
    """

    size: int  # numbers carried per environment
    width: int  # of the features that it returns

    def forward(self, features: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step.

        Args:
            features: of the present observation, [N, inputs].
            memory: before the step, [N, size].

        Returns:
            Features [N, width], and the memory after the step [N, size].
        """
        raise NotImplementedError(f"{type(self).__name__}: implement forward(features, memory)")

    def unroll(self, features: Tensor, memory: Tensor, valid: Tensor) -> Tensor:
        """Take T steps of N sequences; the gradient passes from step to step, but not over a reset.

        Args:
            features: time-major rows, [T * N, inputs].
            memory: before the first step, [N, size].
            valid: [T * N] bool, False for frames that only reset the environment.

        Returns:
            Features [T * N, width].
        """
        found = []
        n = len(memory)
        for x, kept in zip(features.split(n), valid.unsqueeze(-1).split(n), strict=True):
            out, memory = self(x, memory)
            memory = torch.where(kept, memory, 0.0)
            found.append(out)
        return torch.cat(found)


class GRUMemory(Memory):
    """A gated recurrent unit. The layer, or without one the heads, read the features of the present observation beside
    its state.

    Args:
        inputs: width of the encoder's features.
        size: width of the state.
        layer: from features and state [N, inputs + size] to [N, inputs]. Without it the heads read them directly.
    """

    def __init__(self, inputs: int, size: int, layer: nn.Module | None = None) -> None:
        super().__init__()
        self.cell = nn.GRUCell(inputs, size)
        self.layer = layer or nn.Identity()
        self.size, self.width = size, inputs + size if layer is None else inputs

    def forward(self, features: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step."""
        inputs = F.linear(features, self.cell.weight_ih, self.cell.bias_ih)
        memory = _gru_step(inputs, memory, self.cell.weight_hh, self.cell.bias_hh)[0]
        return self.layer(torch.cat((features, memory), -1)), memory

    def unroll(self, features: Tensor, memory: Tensor, valid: Tensor) -> Tensor:
        """Take T steps: the inputs of all gates as one matrix product, then a loop over the state."""
        n = len(memory)
        inputs = F.linear(features, self.cell.weight_ih, self.cell.bias_ih).view(-1, n, 3 * self.size)
        keep = valid.to(features.dtype).view(-1, n, 1)
        states = _GRUSequence.apply(inputs, memory, keep, self.cell.weight_hh, self.cell.bias_hh)
        return self.layer(torch.cat((features, states.flatten(0, 1)), -1))


def _gru_step(inputs: Tensor, memory: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the next state [N, size] from the inputs of the gates [N, 3 * size], ordered as in GRUCell; then what its
    gradient needs: the gates reset and update [N, 2 * size], the candidate and its part of the old state [N, size]."""
    split = 2 * memory.shape[-1]
    old = F.linear(memory, weight, bias)
    gates = (inputs[:, :split] + old[:, :split]).sigmoid()
    reset, update = gates.chunk(2, -1)
    candidate = torch.addcmul(inputs[:, split:], reset, old[:, split:]).tanh()
    return torch.lerp(candidate, memory, update), gates, candidate, old[:, split:]


class _GRUSequence(torch.autograd.Function):
    """T steps of a GRU. The gradient of the weights is one product over all steps; autograd would take T small ones."""

    @staticmethod
    def forward(ctx, inputs: Tensor, memory: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # type: ignore[override]
        before, found = [], []
        for x, kept in zip(inputs.unbind(0), keep.unbind(0), strict=True):
            before.append(memory)
            found.append(_gru_step(x, memory, weight, bias))
            memory = found[-1][0] * kept
        states, gates, candidates, old = (torch.stack(part) for part in zip(*found, strict=True))
        ctx.save_for_backward(torch.stack(before), gates, candidates, old, keep, weight)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None, Tensor, Tensor]:  # type: ignore[override]
        before, gates, candidates, old, keep, weight = ctx.saved_tensors
        # The derivatives of a step do not depend on later steps: all T at once, [T, N, size] each.
        reset, update = gates.chunk(2, -1)
        to_candidate = (1 - update) * (1 - candidates.square())
        to_update = (before - candidates) * update * (1 - update)
        to_reset = to_candidate * old * reset * (1 - reset)
        to_old = torch.stack((to_reset, to_update, to_candidate * reset), 2)  # [T, N, 3, size]
        of_state, of_states = torch.zeros_like(grad[0]), []
        for t in range(len(grad) - 1, -1, -1):
            of_state = torch.addcmul(grad[t], of_state, keep[t])
            of_states.append(of_state)
            of_old = (of_state.unsqueeze(1) * to_old[t]).flatten(1)
            of_state = torch.addmm(of_state * update[t], of_old, weight)
        all_states = torch.stack(of_states[::-1]).unsqueeze(2)
        of_old = (all_states * to_old).flatten(2)
        to_inputs = torch.stack((to_reset, to_update, to_candidate), 2)
        flat = of_old.flatten(0, 1)
        of_weight = flat.T @ before.flatten(0, 1)
        return (all_states * to_inputs).flatten(2), of_state, None, of_weight, flat.sum(0)


class StackMemory(Memory):
    """The features of the last observations, side by side, and a layer that reads them.

    Args:
        inputs: width of the encoder's features.
        frames: observations that are read, the present one included.
        layer_norm: normalize after the layer.
        activation: of the layer.
    """

    def __init__(self, inputs: int, frames: int, layer_norm: bool = True, activation: str = "leaky_relu") -> None:
        super().__init__()
        self.inputs, self.frames = inputs, frames
        self.size, self.width = (frames - 1) * inputs, inputs
        self.layer = mlp(frames * inputs, (inputs,), layer_norm, activation)

    def forward(self, features: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step; the oldest features come first."""
        stacked = torch.cat((memory, features), -1)
        return self.layer(stacked), stacked[:, self.inputs :]

    def unroll(self, features: Tensor, memory: Tensor, valid: Tensor) -> Tensor:
        """Take T steps at once: row t reads rows t, t - 1 and so on, as far as no reset is between."""
        n, older = len(memory), self.frames - 1
        before = memory.view(n, older, self.inputs).transpose(0, 1)
        rows = torch.cat((before, features.view(-1, n, self.inputs)))
        keep = valid.to(features.dtype).view(-1, n, 1)
        keep = torch.cat((keep.new_ones(older, n, 1), keep))
        steps, mask, parts = len(rows) - older, keep.new_ones(()), [features]
        for lag in range(1, older + 1):
            at = slice(older - lag, older - lag + steps)
            mask = mask * keep[at]
            parts.append((rows[at] * mask).flatten(0, 1))
        return self.layer(torch.cat(parts[::-1], -1))


def build_memory(inputs: int, config: Any) -> Memory | None:
    """Return the memory of `model.memory` for features [N, inputs]; None for `none`."""
    if config.memory == "gru":
        size = config.hidden_size
        layer = mlp(inputs + size, (inputs,), config.layer_norm, config.activation) if config.memory_layer else None
        return GRUMemory(inputs, size, layer)
    if config.memory == "stack":
        return StackMemory(inputs, config.stack, config.layer_norm, config.activation)
    return None


@torch.no_grad()
def check_memory(memory: Any, encoder: Any) -> None:
    """Raise ValueError if the user's memory does not keep the contract of `Memory` behind an encoder."""
    name = type(memory).__name__
    if not isinstance(memory, Memory):
        raise ValueError(f"{name}: a memory subclasses slipstream.models.Memory")
    if MEMORY in getattr(encoder, "keys", ()):
        raise ValueError(f"the env has an observation named '{MEMORY}', which the policy's memory is: rename it")
    if not all(isinstance(getattr(memory, number, None), int) for number in ("size", "width")):
        raise ValueError(f"{name}: set self.size and self.width, whole numbers (docs/memory.md)")
    like = next(memory.parameters(), torch.zeros(()))
    returned = memory(like.new_zeros(2, encoder.width), like.new_zeros(2, memory.size))
    features, after = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
    check_output(name, "features", features, [2, memory.width])
    check_output(name, "and the memory", after, [2, memory.size])


def check_output(asked: str, what: str, output: Any, shape: list[int]) -> None:
    """Raise ValueError unless `output`, of the user's module for two environments, is a tensor of `shape`."""
    given = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if given != shape:
        raise ValueError(f"{asked}: for 2 environments it must return {what} {shape}, not {given}")


def memory_size(policy: Any) -> int:
    """Return the numbers per environment that a policy carries from step to step; 0 for one without memory."""
    return int(getattr(policy, "memory_size", 0))


class Stepper:
    """Call a policy step by step, and carry its memory. A policy without memory is called as it is.

    The memory keeps its place: a CUDA graph can capture the calls.

        step = Stepper(policy, env.num_envs, env.device)
        record = env.step(step(observation)["action"])
        step.keep(record.valid)

    Args:
        policy: `policy(observation)` returns the action, or a mapping that holds it.
        num_envs: the number of environments N.
        device: of the observations.
    """

    def __init__(self, policy: Any, num_envs: int, device: torch.device | str) -> None:
        self.policy = policy
        size = memory_size(policy)
        self.memory = torch.zeros(num_envs, size, device=device) if size else None

    def __call__(self, observation: Mapping[str, Tensor]) -> Any:
        """Return what the policy returns."""
        if self.memory is None:
            return self.policy(observation)
        seen: Any = copy.copy(observation)
        seen[MEMORY] = self.memory
        output = self.policy(seen)
        self.memory.copy_(output[MEMORY])
        return output

    def keep(self, valid: Tensor) -> None:
        """Keep the memory where `valid` [N] is True; elsewhere the step has reset the environment."""
        if self.memory is not None:
            self.memory.copy_(torch.where(valid.unsqueeze(-1), self.memory, 0.0))
