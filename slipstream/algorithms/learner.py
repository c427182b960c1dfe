"""What learns in a training, by the algorithm's name: PPO from each batch as it comes, the others from a replay buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from slipstream.algorithms.dqn import DQN
from slipstream.algorithms.offpolicy import OffPolicy, OffPolicyConfig
from slipstream.algorithms.ppo import PPO
from slipstream.algorithms.sac import SAC
from slipstream.algorithms.td3 import TD3
from slipstream.envs.specs import Spec
from slipstream.models.off_policy import Critics, DeterministicPolicy, ExploringPolicy, QPolicy, SquashedGaussianPolicy
from slipstream.models.policy import ActorCritic, ModelConfig, build_policy

if TYPE_CHECKING:
    from slipstream.replay import ReplayBuffer

Policy = ActorCritic | ExploringPolicy

SMALL_BYTES = 256 * 2**20  # of a buffer that checkpoints hold by default
DRAWN_AT_ONCE = 32  # minibatches in one call of the buffer; priorities are as old as this


class ReplayLearner:
    """Puts what was collected into the buffer and learns from draws of it: `update` takes a collector's batch, as PPO's does."""

    def __init__(self, algo: OffPolicy, buffer: ReplayBuffer) -> None:
        self.algo = algo
        self.buffer = buffer
        self.config = algo.config
        self.device = algo.device
        self._collected = 0  # frames
        self._warm = False  # asked until it is so, since a buffer on a GPU must be waited for
        algo.set_progress(0.0)

    def update(self, batch: TensorDictBase, progress: float = 0.0) -> dict[str, Tensor]:
        """Keeps a batch [N, T] and makes the iteration's gradient steps, none before the warm-up is over."""
        config, algo = self.config, self.algo
        self.buffer.extend(batch)
        if config.prioritised:  # what the priorities distort is undone in full by the end
            exponent = config.importance_exponent + (1 - config.importance_exponent) * progress
            self.buffer.sampler.beta = exponent  # type: ignore[attr-defined]  # a PrioritizedSampler
        self._collected += batch.numel()
        self._warm = self._warm or (self._collected >= config.warmup and len(self.buffer) > 0)
        told: list[dict[str, Tensor]] = []
        left = config.updates if self._warm else 0
        while left:
            steps = min(left, DRAWN_AT_ONCE)
            drawn = self.buffer.sample(steps * config.batch_size, n_step=config.n_step, gamma=config.gamma)
            told.append(algo.update(drawn, steps))
            if config.prioritised:
                self.buffer.update_priority(drawn["index"], algo.td_error)
            left -= steps
        algo.set_progress(progress)
        means = {name: torch.stack([facts[name] for facts in told]).mean() for name in (told[0] if told else ())}
        return means | {"replay/updates": torch.tensor(float(algo.updates), device=self.device)}

    def state_dict(self) -> dict[str, Any]:
        """Networks and optimisers; the buffer where `algo.save_replay` says so."""
        state = self.algo.state_dict() | {"warm": self._warm, "collected": self._collected}
        keep = self.config.save_replay
        if keep == "on" or (keep == "auto" and self.buffer.nbytes <= SMALL_BYTES):
            state["replay"] = self.buffer.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from `state`; where it holds no buffer, a new one fills up to `algo.warmup` before learning goes on."""
        self.algo.load_state_dict(state)
        if "replay" in state:
            self.buffer.load_state_dict(state["replay"])
            self._warm, self._collected = state["warm"], state["collected"]


def build_network(
    settings: Mapping[str, Any], observation_spec: Mapping[str, Spec], action_spec: Spec, model: ModelConfig
) -> Policy:
    """The policy that the algorithm of these settings (`algo.*`) trains."""
    name = settings["name"]
    if name == "dqn":
        return QPolicy(observation_spec, action_spec, model, settings["dueling"])
    if name == "sac":
        return SquashedGaussianPolicy(observation_spec, action_spec, model)
    if name == "td3":
        return DeterministicPolicy(observation_spec, action_spec, model, settings["noise"])
    return build_policy(observation_spec, action_spec, model)


def build_learner(
    policy: Policy, config: Any, observation_spec: Mapping[str, Spec], seed: int, fresh: bool = True
) -> PPO | ReplayLearner:
    """What trains `policy`, by the settings of its algorithm; one that is not `fresh` acts by itself in the warm-up."""
    if isinstance(policy, ActorCritic):
        return PPO(policy, config)
    algo: OffPolicy
    if isinstance(policy, QPolicy):
        algo = DQN(policy, config)
    elif isinstance(policy, SquashedGaussianPolicy):
        algo = SAC(policy, Critics(observation_spec, policy.dims, policy.config), config)
    else:
        assert isinstance(policy, DeterministicPolicy)
        algo = TD3(policy, Critics(observation_spec, policy.dims, policy.config), config)
    algo.random_warmup = fresh
    return ReplayLearner(algo, make_buffer(config, algo.device, seed))


def make_buffer(config: OffPolicyConfig, device: torch.device, seed: int) -> ReplayBuffer:
    """The replay buffer of these settings, on the GPU where the env is."""
    from slipstream.replay import PrioritizedSampler, ReplayBuffer  # its native code is loaded where it is needed

    sampler = (
        PrioritizedSampler(config.priority_exponent, config.importance_exponent) if config.prioritised else "uniform"
    )
    return ReplayBuffer(
        config.buffer_size, device=device, storage=device.type, codec=config.codec, sampler=sampler, seed=seed
    )
