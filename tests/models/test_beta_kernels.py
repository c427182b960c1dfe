"""The Triton forms against plain PyTorch: interpreted on a CPU in a process of its own, compiled on a GPU."""

import os
import subprocess
import sys

import pytest
import torch

pytest.importorskip("triton")

CHECK = """
import sys, torch
from slipstream.algorithms.gae_kernel import discounted_sums
from slipstream.models import beta_kernels
from slipstream.models.heads import BetaHead, Head

device = sys.argv[1]
torch.manual_seed(0)
head = BetaHead(4, 3, -2.0, 2.0)
spread = lambda: (1 + torch.rand(300, 3, dtype=torch.float64, device=device) ** 4 * 60)
action = torch.rand(300, 3, device=device) * 3.9 - 1.95
weights = torch.randn(2, 300, device=device)
exact = (spread().requires_grad_(), spread().requires_grad_())
truth = torch.stack(Head.evaluate(head, exact, action.double()))


def evaluate(alpha, beta, unit):
    found = alpha.new_empty(2, len(alpha)), alpha.new_empty(4, *alpha.shape)
    beta_kernels.evaluate(alpha, beta, unit, *found[0], found[1])
    return found


values, slopes = evaluate(*(x.detach().float() for x in exact), head._unit(action))
torch.testing.assert_close(values, truth.float(), atol=3e-4, rtol=1e-5)
for slope, of_log, of_entropy in zip(torch.autograd.grad((weights * truth).sum(), exact), slopes[:2], slopes[2:]):
    found = weights[0, :, None] * of_log + weights[1, :, None] * of_entropy
    torch.testing.assert_close(found, slope.float(), atol=2e-5, rtol=1e-4)
edge = torch.tensor([[1.000001, 1.000001]], device=device)
assert all(torch.isfinite(x).all() for x in evaluate(edge, edge, edge - 0.5))

delta, keep = torch.randn(2, 32, 100, device=device)
valid = torch.rand(32, 100, device=device) > 0.1
sums, advantage = discounted_sums(delta, keep, valid), torch.zeros(100, device=device)
for t in range(31, -1, -1):
    advantage = torch.where(valid[t], delta[t] + keep[t] * advantage, 0.0)
    torch.testing.assert_close(sums[t], advantage)
"""


def test_the_interpreted_kernels_give_what_float64_gives():
    subprocess.run([sys.executable, "-c", CHECK, "cpu"], check=True, env=os.environ | {"TRITON_INTERPRET": "1"})


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_compiled_kernels_give_what_float64_gives():
    subprocess.run([sys.executable, "-c", CHECK, "cuda"], check=True)
