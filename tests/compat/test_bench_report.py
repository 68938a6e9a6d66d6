"""The benchmark's table tells the truth about targets, and keeps what people wrote under it."""

from __future__ import annotations

from pathlib import Path

from bench import report
from bench.results import KAFKA, KAFKA_FLUSH, LATENCY_P50, START_UP, TRUNKLINE, Results, produce_rate

_FACTS = {"command": "make bench", "date": "2026-01-01"}


def _line(results: Results, label: str) -> list[str]:
    (line,) = [line for line in report.table(results).splitlines() if line.startswith(f"| {label}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_higher_rate_meets_its_target_and_a_lower_one_misses_it() -> None:
    results = Results()
    for case, ours in (("fast", 1200.0), ("slow", 900.0)):
        results.add(produce_rate(case), KAFKA, 1000.0)
        results.add(produce_rate(case), TRUNKLINE, ours)
    assert _line(results, "produce, fast")[-3:] == ["1.20×", "≥ 1.0×", "met"]
    assert _line(results, "produce, slow")[-3:] == ["0.90×", "≥ 1.0×", "**missed**"]


def test_the_median_of_the_rounds_is_what_counts() -> None:
    results = Results()
    for seconds in (3.0, 90.0, 3.2):
        results.add(START_UP, KAFKA, seconds)
    results.add(START_UP, TRUNKLINE, 0.8)
    assert _line(results, "start-up")[2:] == ["3.20", "0.80", "0.25×", "≤ 0.3×", "met"]


def test_latency_is_judged_against_kafka_with_and_without_flushes() -> None:
    results = Results()
    for contender, p50_ms in ((KAFKA, 1.0), (KAFKA_FLUSH, 1.4), (TRUNKLINE, 1.35)):
        results.add(LATENCY_P50, contender, p50_ms)
    assert _line(results, "end to end p50")[-3:] == [
        "1.35×; 0.96× of flush",
        "≤ 1.3×; ≤ 1.0× of flush",
        "**missed**; met",
    ]


def test_a_contender_that_failed_leaves_a_gap_and_a_line_of_why(tmp_path: Path) -> None:
    results = Results(failures=["produce on Trunkline: it stopped"])
    results.add(produce_rate("100 B"), KAFKA, 1000.0)
    results.add(produce_rate("1 kB"), TRUNKLINE, 300.0)
    page = tmp_path / "benchmarks.md"
    report.write(page, results, _FACTS)
    assert _line(results, "produce, 100 B")[3] == "–"
    assert "- produce on Trunkline: it stopped" in page.read_text()


def test_a_new_run_keeps_the_notes_and_replaces_the_rest(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# Old page\n\nold figures\n\n## Notes\n\nCPU is missed because of the copy in fetch.\n")
    results = Results()
    results.add(produce_rate("100 B"), KAFKA, 1000.0)
    for _ in range(2):
        report.write(page, results, _FACTS)
    text = page.read_text()
    assert "old figures" not in text
    assert text.endswith("\n\n## Notes\n\nCPU is missed because of the copy in fetch.\n")
    assert text.count("## Notes") == 1
