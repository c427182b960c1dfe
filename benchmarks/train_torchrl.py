"""`slipstream bench train` beside TorchRL's PPO (Collector, GAE, ClipPPOLoss) over the same env and network.

python benchmarks/train_torchrl.py algo.bf16=true env.num_worlds=16
python benchmarks/train_torchrl.py sizes=1024 forms=compiled,torchrl
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torch.distributions import Beta, Independent

from slipstream.cli import bench
from slipstream.config import registry
from slipstream.config.help import ConfigError
from slipstream.config.schema import TrainConfig
from slipstream.models.policy import ActorCritic, build_policy
from slipstream.sim.random import derive_seed


class ScaledBeta(Independent):
    """The Beta head's distribution as `torch.distributions` has it."""

    def __init__(self, alpha: Tensor, beta: Tensor, low: float, high: float) -> None:
        self.low, self.high = low, high
        super().__init__(Beta(alpha, beta, validate_args=False), 1, validate_args=False)

    def sample(self, shape: Any = ()) -> Tensor:
        """An action."""
        return self.low + (self.high - self.low) * super().sample(torch.Size(shape)).clamp(1e-6, 1 - 1e-6)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density of an action."""
        return super().log_prob(((value - self.low) / (self.high - self.low)).clamp(1e-6, 1 - 1e-6))


class TorchRLTraining:
    """A training as TorchRL's PPO examples write it, with the methods of `Trainer`; the encoder runs once for actor and
    critic."""

    def __init__(self, cfg: TrainConfig, device: torch.device) -> None:
        from torchrl.collectors import Collector
        from torchrl.modules import ActorValueOperator, ProbabilisticActor, ValueOperator
        from torchrl.objectives import ClipPPOLoss
        from torchrl.objectives.value import GAE

        from slipstream.envs.adapters.torchrl_env import TorchRLEnv

        if cfg.model.memory != "none" or cfg.model.mirror:
            raise ConfigError("TorchRL has no memory and no mirror: leave model.memory and model.mirror out")
        self.algo, self.device = cfg.algo, device
        algo, env = cfg.algo, registry.find_task(cfg.task).make_env(cfg.env, device, derive_seed(cfg.seed, "env"))
        policy = build_policy(env.observation_spec, env.action_spec, cfg.model).to(device)
        names = policy.encoder.keys
        spec: Any = env.action_spec
        features = _Features(policy, {name: len(env.observation_spec[name].shape) for name in names})
        common = TensorDictModule(features, in_keys=[("observation", name) for name in names], out_keys=["features"])
        parameters = TensorDictModule(policy.actor, in_keys=["features"], out_keys=["alpha", "beta"])
        actor = ProbabilisticActor(
            parameters,
            in_keys=["alpha", "beta"],
            distribution_class=ScaledBeta,
            distribution_kwargs={"low": spec.low, "high": spec.high},
            return_log_prob=True,
        )
        both = ActorValueOperator(common, actor, ValueOperator(policy.critic, in_keys=["features"]))
        act, value = both.get_policy_operator(), both.get_value_operator()
        weights = {"entropy_coeff": algo.entropy, "critic_coeff": algo.value_weight}
        self.loss = ClipPPOLoss(act, value, clip_epsilon=algo.clip, loss_critic_type="smooth_l1", **weights)
        self.gae = GAE(gamma=algo.gamma, lmbda=algo.lam, value_network=value, average_gae=True, shifted=True)
        self.policy, self.optimizer = policy, torch.optim.Adam(policy.parameters(), lr=algo.learning_rate, fused=True)
        self.frames_per_batch = cfg.env.num_envs * algo.rollout_steps
        settings = {"return_same_td": True, "trust_policy": True, "no_cuda_sync": True}
        frames = {"frames_per_batch": self.frames_per_batch, "total_frames": -1}
        self.collector = Collector(TorchRLEnv(env), act, **frames, **settings)
        self._batches: Iterator[TensorDictBase] = iter(self.collector)

    def collect(self) -> TensorDictBase:
        """Return the next batch."""
        return next(self._batches)

    def learn(self, batch: TensorDictBase, progress: float = 0.0) -> None:
        """Run one update."""
        with torch.no_grad():
            self.gae(batch)
        data: TensorDict = batch.exclude("collector", "next").reshape(-1)  # type: ignore[assignment]  # its bookkeeping may be on another device
        for _ in range(self.algo.epochs):
            for index in torch.randperm(self.frames_per_batch, device=self.device).chunk(self.algo.minibatches):
                losses = self.loss(data[index])
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(self.policy.parameters(), self.algo.max_grad_norm)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Run one iteration."""
        self.learn(self.collect())

    def close(self) -> None:
        """Stop the collector."""
        self.collector.shutdown()


class _Features(nn.Module):
    """The encoder, called as TensorDictModule does: one argument per observation, any leading dimensions."""

    def __init__(self, policy: ActorCritic, dims: dict[str, int]) -> None:
        super().__init__()
        self.encoder, self.dims = policy.encoder, dims

    def forward(self, *values: Tensor) -> Tensor:
        name, first = next(iter(self.dims)), values[0]
        lead = first.shape[: first.dim() - self.dims[name]]
        flat = {name: x.flatten(0, len(lead) - 1) for name, x in zip(self.dims, values, strict=True)}
        return self.encoder(flat).unflatten(0, lead)


if __name__ == "__main__":
    raise SystemExit(bench.measure_training(sys.argv[1:], {"torchrl": TorchRLTraining}))
