"""The view of a run, beside what it was: tests/report/page_data.json.

Remove that file and run this test to write it again; then look at what changed.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_vnc_use.report.run_view import show_run
from pytest_vnc_use.runs.directory import EndedTest, write_ended_test
from pytest_vnc_use.types import Click, Drag, Drifted, Judged, Region, RunEnded, Times, TypeText, Verdict

SNAPSHOT = Path(__file__).with_name("page_data.json")


def test_run_view_is_as_it_was(write_run: Callable[..., Path], make_step: Any, frames: Any) -> None:
    steps = [
        make_step(1, Click(150, 90), "Open it", times=Times(2.0, 0.25, 0.5, 0.125)),
        make_step(2, Drag(10, 10, 60, 40), times=Times(0.5, 0.25, 0.5)),
        make_step(3, TypeText("pears"), error="it is gone", passed=(frames[2].ref,), url="http://shop/"),
    ]
    drift = Drifted("it is other", frames[0].ref, frames[2].ref, Region(20, 30, 60, 50))
    verdict = Verdict("2 apples", "fails", "it shows 1", Region(10, 20, 60, 40), frames[1].ref, "m", votes=("fails",))
    end = RunEnded(None, "the run failed", "RecordingDrifted: it is other")
    run = write_run(steps, end, task="Open it and drag it, then add pears", events=[drift, Judged(verdict)])
    (run / "trace.jsonl").write_text("".join(_at_fixed_times(run)))
    write_ended_test(run, EndedTest("test_it", "failed", triage="product", rule="it drifted", message="it is other"))
    seen = _plain(dataclasses.asdict(show_run(run).view))
    if not SNAPSHOT.exists():
        SNAPSHOT.write_text(seen, encoding="utf-8")
    assert seen == SNAPSHOT.read_text("utf-8")


def _at_fixed_times(run: Path) -> list[str]:
    lines = [json.loads(line) for line in (run / "trace.jsonl").read_text().splitlines()]
    return [
        json.dumps({**line, "at_s": number / 2} if "at_s" in line else line) + "\n" for number, line in enumerate(lines)
    ]


def _plain(views: Any) -> str:
    """As text; screenshots by their order, as their names depend on zlib, and points without decimals."""
    text = json.dumps(views, indent=1, ensure_ascii=False) + "\n"
    names = dict.fromkeys(re.findall(r"\b[0-9a-f]{20,64}\b", text))
    for number, name in enumerate(names, start=1):
        text = text.replace(name, f"screenshot-{number}")
    return re.sub(r"(\d)\.\d,(\d+)\.\d(?=[ \"])", r"\1,\2", text)
