"""Action heads: features in, a distribution over actions out.

`forward` computes the distribution's parameters; all other methods are pure functions of them.
"""

from __future__ import annotations

import importlib.util
from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream.models.exploration import normal_like, sampling_generator, uniform_like

HAS_TRITON = importlib.util.find_spec("triton") is not None

Parameters = tuple[Tensor, ...]


def small_linear(inputs: int, outputs: int) -> nn.Linear:
    """Build a last layer that starts near zero: orthogonal with gain 0.01, bias 0."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, 0.01)
    nn.init.zeros_(layer.bias)
    return layer


def linear_together(features: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
    """Return the output of each layer; on a GPU by one product, because each small one takes as long as all."""
    if not features.is_cuda:
        return tuple(layer(features) for layer in layers)
    weight, bias = torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])
    return F.linear(features, weight, bias).split([layer.out_features for layer in layers], -1)


class Head(nn.Module):
    """Compute the parameters of an action distribution from features."""

    dims: int
    mask: str | None = None  # the observation that masks actions, if any

    @abstractmethod
    def log_prob(self, parameters: Parameters, action: Tensor) -> Tensor:
        """Return the log probability [N] of `action`."""

    @abstractmethod
    def entropy(self, parameters: Parameters) -> Tensor:
        """Return the entropy [N]."""

    def evaluate(self, parameters: Parameters, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return log probability of `action` and entropy, each [N]."""
        return self.log_prob(parameters, action), self.entropy(parameters)


class BetaHead(Head):
    """Continuous actions in a box, each dimension a Beta distribution scaled to it (NavRL's head)."""

    EDGE = 1e-6  # distance of samples from the ends, where the density may be 0 or infinite

    def __init__(self, inputs: int, dims: int, low: float, high: float) -> None:
        super().__init__()
        self.dims, self.low, self.high = dims, low, high
        self.alpha_layer = small_linear(inputs, dims)
        self.beta_layer = small_linear(inputs, dims)

    def forward(self, features: Tensor) -> Parameters:
        """Return alpha and beta, each [N, dims], both above 1: one peak, density 0 at the ends."""
        return self.shapes(*linear_together(features, self.alpha_layer, self.beta_layer))

    def shapes(self, alpha: Tensor, beta: Tensor) -> Parameters:
        """Return alpha and beta of the outputs of their layers."""
        return 1 + F.softplus(alpha) + 1e-6, 1 + F.softplus(beta) + 1e-6

    def sample(self, parameters: Parameters) -> Tensor:
        """Sample an action [N, dims]."""
        # One draw for both: a compiler may reorder two.
        x, y = torch._standard_gamma(torch.stack(parameters), sampling_generator()).unbind()
        return self._scaled((x / (x + y)).clamp(self.EDGE, 1 - self.EDGE))

    def mean(self, parameters: Parameters) -> Tensor:
        """Return the expected action [N, dims]."""
        alpha, beta = parameters
        return self._scaled(alpha / (alpha + beta))

    def mode(self, parameters: Parameters) -> Tensor:
        """Return the most likely action [N, dims]."""
        alpha, beta = parameters
        return self._scaled((alpha - 1) / (alpha + beta - 2))

    def mirror(self, parameters: Parameters, order: Tensor, sign: Tensor) -> Parameters:
        """Return the parameters of `sign` x action[order]; the bounds must be symmetric."""
        alpha, beta = (x.index_select(1, order) for x in parameters)
        return torch.where(sign < 0, beta, alpha), torch.where(sign < 0, alpha, beta)

    def log_prob(self, parameters: Parameters, action: Tensor) -> Tensor:
        """Return the log density [N] of `action`, in units of the unit interval."""
        alpha, beta = parameters
        x = self._unit(action)
        log = (alpha - 1) * x.log() + (beta - 1) * (-x).log1p()
        return (log + torch.lgamma(alpha + beta) - torch.lgamma(alpha) - torch.lgamma(beta)).sum(-1)

    def entropy(self, parameters: Parameters) -> Tensor:
        """Return the entropy [N], in units of the unit interval."""
        alpha, beta = parameters
        total = alpha + beta
        log_beta = torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(total)
        of_alpha, of_beta = (alpha - 1) * torch.digamma(alpha), (beta - 1) * torch.digamma(beta)
        return (log_beta - of_alpha - of_beta + (total - 2) * torch.digamma(total)).sum(-1)

    def evaluate(self, parameters: Parameters, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return log density of `action` and entropy, each [N]; in one kernel if it can compute them."""
        alpha, beta = parameters
        unit = self._unit(action)
        same_shape = alpha.dim() == 2 and alpha.shape == beta.shape == unit.shape  # else it may broadcast
        if same_shape and alpha.dtype == torch.float32 and (alpha.is_cpu or alpha.is_cuda and HAS_TRITON):
            from slipstream.models.beta import beta_evaluate

            return beta_evaluate(alpha, beta, unit)
        return super().evaluate(parameters, action)

    def compile_kernels(self, rows: int) -> None:
        """Compile the Triton kernel of `evaluate` by launching it on `rows` rows. May run in any thread."""
        numbers = torch.full((rows, self.dims), 1.5, device=self.alpha_layer.weight.device)
        self.evaluate((numbers, numbers), numbers)

    def _unit(self, action: Tensor) -> Tensor:
        return ((action - self.low) / (self.high - self.low)).clamp(self.EDGE, 1 - self.EDGE)

    def _scaled(self, unit: Tensor) -> Tensor:
        return self.low + (self.high - self.low) * unit


class GaussianHead(Head):
    """Continuous actions without bounds: a normal distribution with one learned deviation per dimension."""

    def __init__(self, inputs: int, dims: int) -> None:
        super().__init__()
        self.dims = dims
        self.mean_layer = small_linear(inputs, dims)
        self.log_std = nn.Parameter(torch.zeros(dims))

    def forward(self, features: Tensor) -> Parameters:
        """Return mean and log deviation, each [N, dims]."""
        mean = self.mean_layer(features)
        return mean, self.log_std.expand_as(mean)

    def sample(self, parameters: Parameters) -> Tensor:
        """Sample an action [N, dims]."""
        mean, log_std = parameters
        return mean + log_std.exp() * normal_like(mean)

    def mean(self, parameters: Parameters) -> Tensor:
        """Return the expected action [N, dims]."""
        return parameters[0]

    mode = mean

    def mirror(self, parameters: Parameters, order: Tensor, sign: Tensor) -> Parameters:
        """Return the parameters of `sign` x action[order]."""
        mean, log_std = (x.index_select(1, order) for x in parameters)
        return mean * sign, log_std

    def log_prob(self, parameters: Parameters, action: Tensor) -> Tensor:
        """Return the log density [N] of `action`."""
        mean, log_std = parameters
        z = (action - mean) * (-log_std).exp()
        return (-0.5 * z.square() - log_std - 0.9189385332046727).sum(-1)  # log sqrt(2 pi)

    def entropy(self, parameters: Parameters) -> Tensor:
        """Return the entropy [N]."""
        return (parameters[1] + 1.4189385332046727).sum(-1)  # log sqrt(2 pi e)


class HybridHead(Head):
    """Real components, each a Beta distribution scaled to its own bounds, then switches (0 or 1), each a Bernoulli.

    Where the mask is 0 a switch is off with probability 1: it adds nothing to log probability and entropy, and does not
    learn.
    """

    # A switch is decided at every step: one that is on with probability 0.1 turns on after about ten. With a threshold
    # of 0.5 it would stay off: 0.38 of 200 duels were won with 0.5, 0.78 with 0.1, 0.81 with sampled switches.
    ON_FROM = 0.1
    # A switch that starts at probability 0.5 is used at once: all missiles are gone in the first seconds, and the
    # policy never sees that they are worth more later.
    FIRST_LOGIT = -4.0

    low: Tensor
    span: Tensor

    def __init__(
        self, inputs: int, low: tuple[float, ...], high: tuple[float, ...], switches: int, mask: str | None = None
    ) -> None:
        super().__init__()
        self.real, self.switches, self.mask = len(low), switches, mask
        self.dims = self.real + switches
        self.beta = BetaHead(inputs, self.real, 0.0, 1.0)
        self.switch_layer = small_linear(inputs, switches)
        nn.init.constant_(self.switch_layer.bias, self.FIRST_LOGIT)
        self.register_buffer("low", torch.tensor(low), persistent=False)
        self.register_buffer("span", torch.tensor(high) - torch.tensor(low), persistent=False)

    def forward(self, features: Tensor, mask: Tensor | None = None) -> Parameters:
        """Return alpha and beta [N, real], logits [N, switches] and whether switches work [N, switches], 1 or 0."""
        alpha, beta, logits = linear_together(features, self.beta.alpha_layer, self.beta.beta_layer, self.switch_layer)
        works = torch.ones_like(logits) if mask is None else (mask > 0.5).to(logits.dtype)
        return *self.beta.shapes(alpha, beta), logits, works

    def sample(self, parameters: Parameters) -> Tensor:
        """Sample an action [N, dims]."""
        alpha, beta, logits, works = parameters
        on = (uniform_like(logits) < logits.sigmoid()).to(logits.dtype)
        return self._joined(self.beta.sample((alpha, beta)), on * works)

    def mean(self, parameters: Parameters) -> Tensor:
        """Return the expected real components and the switches that are on with a probability of at least `ON_FROM` [N,
        dims]."""
        alpha, beta, logits, works = parameters
        return self._joined(self.beta.mean((alpha, beta)), (logits.sigmoid() >= self.ON_FROM).to(logits.dtype) * works)

    def mode(self, parameters: Parameters) -> Tensor:
        """Return the most likely action [N, dims]."""
        alpha, beta, logits, works = parameters
        return self._joined(self.beta.mode((alpha, beta)), (logits > 0).to(logits.dtype) * works)

    def log_prob(self, parameters: Parameters, action: Tensor) -> Tensor:
        """Return the log probability [N] of `action`, real components in units of their bounds."""
        alpha, beta, logits, works = parameters
        return self.beta.log_prob((alpha, beta), self._unit(action)) + self._switch_log_prob(logits, works, action)

    def entropy(self, parameters: Parameters) -> Tensor:
        """Return the entropy [N], real components in units of their bounds."""
        alpha, beta, logits, works = parameters
        return self.beta.entropy((alpha, beta)) + self._switch_entropy(logits, works)

    def evaluate(self, parameters: Parameters, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return log probability of `action` and entropy, each [N]."""
        alpha, beta, logits, works = parameters
        log_prob, entropy = self.beta.evaluate((alpha, beta), self._unit(action))
        return log_prob + self._switch_log_prob(logits, works, action), entropy + self._switch_entropy(logits, works)

    def _switch_log_prob(self, logits: Tensor, works: Tensor, action: Tensor) -> Tensor:
        on = action[..., self.real :] > 0.5
        return (F.logsigmoid(torch.where(on, logits, -logits)) * works).sum(-1)

    def _switch_entropy(self, logits: Tensor, works: Tensor) -> Tensor:
        p = logits.sigmoid()
        return (-(p * F.logsigmoid(logits) + (1 - p) * F.logsigmoid(-logits)) * works).sum(-1)

    def _unit(self, action: Tensor) -> Tensor:
        return (action[..., : self.real] - self.low) / self.span

    def _joined(self, unit: Tensor, on: Tensor) -> Tensor:
        return torch.cat((self.low + self.span * unit, on), -1)


class CategoricalHead(Head):
    """One of n actions."""

    def __init__(self, inputs: int, n: int) -> None:
        super().__init__()
        self.dims = 1
        self.logits = small_linear(inputs, n)

    def forward(self, features: Tensor) -> Parameters:
        """Return log probabilities [N, n]."""
        return (F.log_softmax(self.logits(features), -1),)

    def sample(self, parameters: Parameters) -> Tensor:
        """Sample an action [N] (the Gumbel trick: no host synchronization)."""
        (log_p,) = parameters
        noise = -torch.log(-torch.log(uniform_like(log_p).clamp(1e-12, 1 - 1e-7)))
        return (log_p + noise).argmax(-1)

    def mean(self, parameters: Parameters) -> Tensor:
        """Return the most likely action [N]; categories have no mean."""
        return parameters[0].argmax(-1)

    mode = mean

    def log_prob(self, parameters: Parameters, action: Tensor) -> Tensor:
        """Return the log probability [N] of `action`."""
        return parameters[0].gather(-1, action.unsqueeze(-1))[..., 0]

    def entropy(self, parameters: Parameters) -> Tensor:
        """Return the entropy [N]."""
        (log_p,) = parameters
        return -(log_p.exp() * log_p).sum(-1)
