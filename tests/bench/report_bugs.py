"""Whether the first screenful of a run's page shows each seeded bug of the shop that a gate or a claim sees.

    python tests/bench/run.py report_bugs [--only KIND_OR_BUG …] [--at-once N]

The walks are recorded and replayed as seeded_bugs.py does it, each with a claim. The page of each test that failed is
opened in Chromium at 1280x720. The exit code is 1 where the difference is not in sight there.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from ratios import head, machine, row
from seeded_bugs import HERE, INI, NOBODY, Case, record, run, seen_by, write
from seeded_programs import ALL

SIZE = {"width": 1280, "height": 720}
IN_SIGHT = """
() => {
  const within = (box, outer) => box.width
    && box.top >= outer.top && box.left >= outer.left && box.bottom <= outer.bottom && box.right <= outer.right;
  const place = (part) => part.getBoundingClientRect();
  const screenful = { top: 0, left: 0, bottom: innerHeight, right: innerWidth };
  const canvas = document.querySelector("#deciding .right .canvas");
  if (!canvas) return "no screen";
  if (!within(place(canvas), screenful)) return "the screen is not whole in sight";
  if (!within(place(document.querySelector(".sentence")), screenful)) return "no sentence in sight";
  const marks = [...canvas.querySelectorAll("path.boxes, path.regions")].flatMap((path) => {
    const onScreen = path.getScreenCTM();
    return path.getAttribute("d").split("M").slice(1).map((box) => {
      const [x, y] = box.match(/-?[\\d.]+/g).map(Number);
      return new DOMPoint(x, y).matrixTransform(onScreen);
    });
  });
  const isIn = (point, outer) => point.x >= outer.left - 3 && point.x <= outer.right
    && point.y >= outer.top - 3 && point.y <= outer.bottom;
  return marks.some((corner) => isIn(corner, place(canvas))) ? "in sight" : "no difference marked in sight";
}
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="report_bugs")
    parser.add_argument("--only", nargs="+", default=[], help="kinds, or names of bugs")
    parser.add_argument("--at-once", type=int, default=2, help="so many tests")
    asked = parser.parse_args(arguments)
    only = {*asked.only}
    bugs = [bug for bug in ALL["qt"].bugs if "claim" in bug.flavours and (not only or only & {bug.kind, bug.name})]
    cases = [Case("qt", bug.walk, "claim", bug) for bug in bugs]
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="bugs-") as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text(INI)
        shutil.copy(HERE / "seeded_conftest.py", folder / "conftest.py")
        record(folder, dict.fromkeys((case.program, case.walk) for case in cases), asked.at_once)
        write(folder, cases)
        session = run(folder, cases, asked.at_once, "replay")
        print(f"\n{head('bug', 'seen by', 'first screenful')}")
        found = [*_looked_at(cases, session)]
    hidden = [told for told in found if told != "in sight"]
    print(f"\n{len(cases)} bugs, {len(found)} of them failed their test, {len(found) - len(hidden)} are in sight")
    return int(bool(hidden))


def _looked_at(cases: Sequence[Case], session: Any) -> Iterator[str]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport=SIZE)
        for case in cases:
            who, test = seen_by(case, session), session.tests.get(case.place)
            if who == NOBODY or test is None or not test.is_bad or not test.runs:
                print(row(case.bug.name if case.bug else "", who, "passed"))
                continue
            page.goto((Path(test.runs[-1].folder).absolute() / "index.html").as_uri())
            told = str(page.evaluate(IN_SIGHT))
            print(row(case.bug.name if case.bug else "", who, told), flush=True)
            yield told
        browser.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
