"""Contracts of the report: everything inside one file, everything escaped."""

from __future__ import annotations

import base64
import re

import pytest

from slipstream.ui.tables import format_number, format_percent, format_rate, write_report

IMAGE = b"\x89PNG not really"


@pytest.fixture
def figure(tmp_path):
    path = tmp_path / "paths.png"
    path.write_bytes(IMAGE)
    return path


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


def test_the_figures_lie_inside_the_file(tmp_path, figure):
    path = write_report(tmp_path / "out", "demo", [], {"paths over the map": figure}, {})
    assert path == tmp_path / "out" / "report.html"
    page = path.read_text(encoding="utf-8")
    (data,) = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    assert base64.b64decode(data) == IMAGE
    assert "<figcaption>paths over the map</figcaption>" in page


def test_nothing_is_fetched_from_elsewhere(tmp_path, figure):
    page = write_report(
        tmp_path, "demo", [{"policy": "ours"}], {"paths": figure}, {"command": "slipstream train"}
    ).read_text()
    assert not re.search(r"https?:|<link|<script|@import|url\(", page)
    assert set(re.findall(r'src="([^,]*),', page)) == {"data:image/png;base64"}


def test_text_from_outside_is_escaped_everywhere(tmp_path, figure):
    evil = '<b>&"{x}'
    page = write_report(tmp_path, evil, [{evil: evil}], {evil: figure}, {evil: evil}).read_text()
    assert "<b>" not in page
    assert (
        page.count("&lt;b&gt;&amp;&quot;{x}") == 2 + 2 + 2 + 2
    )  # title and heading, head and cell, alt and caption, fact


def test_the_table_holds_every_column_and_a_dash_where_a_row_has_none(tmp_path):
    rows = [{"policy": "straight", "success": 0.0}, {"policy": "ours", "success": 0.71234, "drones": 4096}]
    page = write_report(tmp_path, "demo", rows, {}, {"seed": 3}).read_text()
    assert re.findall(r"<th[^>]*>([^<]*)</th>", page) == ["policy", "success", "drones"]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", page) == ["straight", "0", "–", "ours", "0.7123", "4,096"]
    assert "<dt>seed</dt><dd>3</dd>" in page


def test_a_page_is_laid_out_for_narrow_screens(tmp_path, figure):
    page = write_report(tmp_path, "t", [{"a": 1}], {"c": figure}, {"k": "v"}).read_text()
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "@media (max-width: 600px)" in page and page.count('<div class="scroll">') == 2  # the table and the figure


def test_a_figure_that_is_missing_or_no_image_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone.png"):
        write_report(tmp_path, "demo", [], {"a": tmp_path / "gone.png"}, {})
    with pytest.raises(ValueError, match="data.csv"):
        write_report(tmp_path, "demo", [], {"a": tmp_path / "data.csv"}, {})
    assert not (tmp_path / "report.html").exists()


def test_a_title_with_the_marks_of_the_template_is_text(tmp_path):
    page = write_report(tmp_path, "{body} {title}", [], {}, {}).read_text(encoding="utf-8")
    assert page.count("{body} {title}") == 2  # in the head and as the heading
