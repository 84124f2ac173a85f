"""What the plugin costs who does not use it: `pytest --collect-only` on 100 tests without a desktop. Run as a script:

    python tests/bench/run.py collecting [ROUNDS]

In turn, ROUNDS (25 by default) times each: pytest with pytest-html, which the plugin needs, and no other plugin; the
same with this one; and the same with langsmith's as well, which comes along with langgraph, and which pytest loads by
itself. Told are medians and quickest, in wall-clock time and in processor time; the ratio of medians is the median of
the rounds' ratios, as the machine's own pace changes between rounds. Bytecode is kept, as it is for users.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import entry_points
from pathlib import Path

from ratios import head, machine, row

COMMAND = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
NEEDED = {"html", "html_fixtures", "metadata"}
WAYS = {"without": NEEDED, "with": {*NEEDED, "vnc_use"}, "and langsmith's": {*NEEDED, "vnc_use", "langsmith_plugin"}}
"""Which plugins are loaded, by the names of their entry points."""
INSTALLED = {each.name for each in entry_points(group="pytest11")}


def main(rounds: int) -> None:
    print(f"{machine()}, n = {rounds}\n")
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "pytest.ini").write_text("[pytest]\n")
        for number in range(10):
            tests = (f"def test_{each}():\n    assert True\n" for each in range(10))
            (Path(directory) / f"test_{number}.py").write_text("\n\n".join(tests))
        spent_s = [{way: spent(directory, plugins) for way, plugins in WAYS.items()} for _ in range(rounds + 1)][1:]
    print(head("`pytest --collect-only`, 100 tests", *WAYS, "ratio with"))
    for clock, name in enumerate(("wall clock", "processor")):
        ratios = [each["with"][clock] / each["without"][clock] for each in spent_s]
        quickest_s = {way: min(each[way][clock] for each in spent_s) for way in WAYS}
        middle_s = {way: statistics.median(each[way][clock] for each in spent_s) for way in WAYS}
        print(row(f"{name}, median", *told(middle_s), f"{statistics.median(ratios):.3f}"))
        print(row(f"{name}, quickest", *told(quickest_s), f"{quickest_s['with'] / quickest_s['without']:.3f}"))


def told(each_s: dict[str, float]) -> list[str]:
    return [f"{one_s * 1000:.0f} ms" for one_s in each_s.values()]


def spent(directory: str, plugins: set[str]) -> tuple[float, float]:
    """Seconds by the clock, and of the processor."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPYCACHEPREFIX"] = str(Path(directory) / "bytecode")
    left_out = [f"-pno:{name}" for name in INSTALLED - plugins]
    began_s, before_s = time.perf_counter(), of_children_s()
    ended = subprocess.run([*COMMAND, *left_out], cwd=directory, env=environment, capture_output=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return time.perf_counter() - began_s, of_children_s() - before_s


def of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
