"""What the planners ask for the same ten tasks: the table of docs/planners.md, in Markdown. Run as a script:

    PYTHONPATH=tests python tests/bench/planners.py

The tasks are those of the example shop, and local fake servers for the services play its scripts. Where the traces of
two planners differ, or the files that the shop wrote, that is printed, and the script fails. Tokens are those that the
fake servers count, the same for every call; calls and bytes are real. The last two columns are of runs that go from
page to page.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pytest_vnc_use.types import Click, Usage
from support.qt_desktop import QtDesktop
from support.shop_runs import PLAYERS, TASKS, Played, Said, differences, play

COLUMNS = (
    *("planner", "calls", "tokens in", "tokens out", "sent", "largest request"),
    *("largest of 10 turns", "largest of 60 turns"),
)
[SIGN_IN] = TASKS["Sign in as alice with the password wonderland"]
PAGES = [(120, 144 + 56 * place) for place in range(7)]

Everybody = Mapping[str, Played]
PlayAll = Callable[[str, Sequence[Said]], Everybody]


def main() -> int:
    with everybody() as play_all:
        tasks = {task: play_all(task, said) for task, said in TASKS.items()}
        found = [line for task, played in tasks.items() for line in differences(played, TASKS[task])]
        shorter, longer = (play_all("Look at every page", page_by_page(turns)) for turns in (10, 60))
    print(f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}")
    for name in PLAYERS:
        cells = cost([each[name] for each in tasks.values()])
        largest = (kilobytes(max(run[name].sizes)) for run in (shorter, longer))
        print(f"| {' | '.join([f'`{name}`', *cells, *largest])} |")
    print("\n".join(["", *(found or ["the traces and the files are the same with every planner"]), ""]))
    return len(found)


@contextmanager
def everybody() -> Iterator[PlayAll]:
    """Have all planners do a task at once, each on a desktop of its own."""
    with ExitStack() as stack:
        runs_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="planners-")))
        pool = stack.enter_context(ThreadPoolExecutor())
        desktops = {name: QtDesktop() for name in PLAYERS}
        for desktop in desktops.values():
            stack.callback(desktop.stop)

        def play_all(task: str, said: Sequence[Said]) -> Everybody:
            runs = {name: pool.submit(play, PLAYERS[name], task, said, desktops[name], runs_dir) for name in PLAYERS}
            return {name: run.result() for name, run in runs.items()}

        yield play_all


def page_by_page(turns: int) -> list[Said]:
    """So many turns, of which the first signs in; a planner that acts one by one takes some more for that."""
    return [SIGN_IN, *(Said((Click(*PAGES[number % len(PAGES)]),)) for number in range(turns - 1))]


def cost(runs: Sequence[Played]) -> Iterator[str]:
    usage = sum((run.result.usage for run in runs), Usage())
    sizes = [size for run in runs for size in run.sizes]
    yield f"{len(sizes)}"
    yield f"{usage.input:,}"
    yield f"{usage.output + usage.thinking:,}"
    yield f"{sum(sizes) / 1e6:.1f} MB"
    yield kilobytes(max(sizes))


def kilobytes(size: int) -> str:
    return f"{size / 1000:.0f} kB"


if __name__ == "__main__":
    sys.exit(main())
