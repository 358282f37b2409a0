"""Reports as text, JSON and pages."""

from __future__ import annotations

import json
from pathlib import Path

from tilelang.autotuner import Report, Row

REPORT = Report(
    "f",
    "cpu",
    "a processor x2",
    (
        Row({"block": 64}, "measured", 0.5, 0.02),
        Row({"block": 128}, "measured", 1.0, 0.1, "8 bytes of registers spilled"),
        Row({"block": 1}, "failed", None, None, "a < b"),
    ),
    1.25,
    2.0,
)


def test_the_table() -> None:
    assert str(REPORT) == (
        "f for cpu on a processor x2: 3 configurations, 2 measured, 1.2 s, reference 2 ms\n"
        "configuration  latency  spread     state\n"
        "block=64        500 us     2 %  measured\n"
        "block=128         1 ms    10 %  measured  8 bytes of registers spilled\n"
        "block=1              -       -    failed  a < b"
    )
    assert REPORT.render(rows=1).splitlines()[-2:] == [
        "block=64        500 us     2 %  measured",
        "... 2 more",
    ]


def test_json_round_trip(tmp_path: Path) -> None:
    assert Report.from_dict(json.loads(REPORT.render("json"))) == REPORT
    assert len(json.loads(REPORT.render("json", rows=2))["rows"]) == 2
    REPORT.save(tmp_path / "report.json")
    assert (tmp_path / "report.json").read_text() == REPORT.render("json")
    REPORT.save(tmp_path / "report.txt")
    assert (tmp_path / "report.txt").read_text() == str(REPORT)


def test_the_page_has_a_bar_for_each_time() -> None:
    page = REPORT.render("html")
    assert page.count('class="bar"') == 2
    assert 'style="width:200px"' in page and 'style="width:400px"' in page
    assert "a &lt; b" in page and "a < b" not in page
