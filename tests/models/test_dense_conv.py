from __future__ import annotations

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slipstream.models.encoders import DenseConv2d


@settings(max_examples=15, deadline=None)
@given(
    image=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    channels=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
@example(image=(36, 4), channels=(4, 16), kernel=(5, 3), stride=(2, 1), padding=(2, 1))  # NavRL's second layer
@example(image=(18, 4), channels=(16, 16), kernel=(5, 3), stride=(2, 2), padding=(2, 1))  # and its third
def test_any_convolution_equals_its_matrix(image, channels, kernel, stride, padding):
    """Values and all three gradients of the matrix product are those of torch's own convolution, in float64."""
    dense = DenseConv2d(image, *channels, kernel, stride=stride, padding=padding).double()
    x = torch.randn(3, channels[0], *image, dtype=torch.float64)
    got_x, want_x = x.clone().requires_grad_(), x.clone().requires_grad_()
    got = dense.dense(got_x)
    want = torch.nn.functional.conv2d(want_x, dense.weight, dense.bias, dense.stride, dense.padding)
    assert tuple(got.shape[1:]) == dense.output
    torch.testing.assert_close(got, want)
    pull = torch.randn_like(want)
    got_gradients = torch.autograd.grad(got, (got_x, dense.weight, dense.bias), pull)
    want_gradients = torch.autograd.grad(want, (want_x, dense.weight, dense.bias), pull)
    for mine, theirs in zip(got_gradients, want_gradients, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_checkpoint_of_it_is_a_plain_convolutions():
    dense = DenseConv2d((6, 4), 2, 3, (3, 3), padding=(1, 1))
    plain = torch.nn.Conv2d(2, 3, (3, 3), padding=(1, 1))
    plain.load_state_dict(dense.state_dict())
    x = torch.randn(2, 2, 6, 4)
    assert torch.equal(dense(x), plain(x))
