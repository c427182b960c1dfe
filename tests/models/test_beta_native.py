"""The native form of the Beta head's log probability and entropy against float64."""

import pytest
import torch
import torch.fx.experimental.proxy_tensor

from slipstream.models.heads import BetaHead, Head

pytest.importorskip("numba")


def _parameters(rows: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: 1 + 60 * torch.rand(rows, 3, dtype=torch.float64, generator=generator) ** 4  # noqa: E731
    return draw().requires_grad_(), draw().requires_grad_()


def test_values_and_gradients_are_those_of_float64():
    head, exact = BetaHead(4, 3, -2.0, 2.0), _parameters(300)
    mine = tuple(x.detach().float().requires_grad_() for x in exact)
    action, weights = torch.rand(300, 3) * 3.9 - 1.95, torch.randn(2, 300)
    truth, found = Head.evaluate(head, exact, action.double()), head.evaluate(mine, action)
    for a, b in zip(found, truth, strict=True):
        torch.testing.assert_close(a, b.float(), atol=5e-5, rtol=1e-6)
    slopes = [torch.autograd.grad((weights * torch.stack(out)).sum(), p) for out, p in ((found, mine), (truth, exact))]
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b.float(), atol=5e-6, rtol=1e-5)


def test_parameters_near_1_and_actions_at_the_ends_are_finite():
    head, edge = BetaHead(4, 3, -2.0, 2.0), torch.full((2, 3), 1.000001, requires_grad=True)
    action = torch.tensor([[-2.0] * 3, [2.0] * 3])
    found = torch.stack(head.evaluate((edge, edge), action))
    assert torch.isfinite(found).all()
    assert torch.isfinite(torch.autograd.grad(found.sum(), edge)[0]).all()


@pytest.mark.parametrize("shape", [(1, 3), (3,), (5, 1)])
def test_actions_that_broadcast_use_the_plain_form(shape):
    head, parameters = BetaHead(4, 3, -2.0, 2.0), tuple(x.detach().float() for x in _parameters(5))
    action = torch.rand(shape) * 3.9 - 1.95
    expected = head.log_prob(parameters, action.expand(5, 3))
    torch.testing.assert_close(head.evaluate(parameters, action)[0], expected)


def test_a_second_derivative_is_refused():
    head, parameters = BetaHead(4, 3, -2.0, 2.0), tuple(x.detach().float().requires_grad_() for x in _parameters(5))
    log_prob, _ = head.evaluate(parameters, torch.zeros(5, 3))
    (slope,) = torch.autograd.grad(log_prob.sum(), parameters[:1], create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(slope.square().sum(), parameters[:1])


def test_it_can_be_traced():
    head, parameters = BetaHead(4, 3, -2.0, 2.0), tuple(x.detach().float() for x in _parameters(5))
    action = torch.rand(5, 3) * 3.9 - 1.95
    traced = torch.fx.experimental.proxy_tensor.make_fx(lambda *x: head.evaluate(x[:2], x[2]))(*parameters, action)
    others = tuple(x.detach().float() for x in _parameters(5, seed=1))
    for a, b in zip(traced(*others, action), head.evaluate(others, action), strict=True):
        assert torch.equal(a, b)
