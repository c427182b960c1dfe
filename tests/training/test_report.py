"""Rates and numbers as text."""

from __future__ import annotations

import pytest

from slipstream.ui.tables import format_number, format_percent, format_rate


@pytest.mark.parametrize(("rate", "text", "percent"), [
    (0.0, "0.000", "0.0 %"), (1.0, "1.000", "100.0 %"), (255 / 256, "0.996", "99.6 %"), (1999 / 2000, "0.9995", "99.95 %"),
    (0.99996, "0.99996", "99.996 %"), (1 - 1e-9, "> 0.999999", "> 99.999999 %"), (1e-9, "< 0.000001", "< 0.000001 %"),
    (1 / 3000, "0.0003", "0.03 %"), (0.25, "0.250", "25.0 %"), (None, "–", "–"), (float("nan"), "–", "–"),
])  # fmt: skip
def test_a_rate_is_0_or_1_only_if_it_is(rate, text, percent):
    assert (format_rate(rate), format_percent(rate)) == (text, percent)


def test_few_digits_round_no_rate_to_1():
    assert format_percent(255 / 256, 0) == "99.6 %" and format_rate(0.998, 2) == "0.998"
    assert [format_number(x) for x in (0.99999, 1.0, 1.00001, 123456.0, 1e-9)] == [
        "0.999990",
        "1",
        "1",
        "1.235e+05",
        "1e-09",
    ]
