"""The import of the engine while the first desktop of a session starts.

The engine is most of what a session imports. LangGraph alone takes most of a second of processor time; only a test that
asks a planner needs it, a replay does not (loop/order.py). A desktop's start mostly waits.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

REPLAYS = "pytest_vnc_use.loop.runner"
"""What a replay needs."""
ENGINE = "pytest_vnc_use.loop.graph"
"""The module that imports LangGraph."""


@contextmanager
def imported_meanwhile(*, replays: bool = False) -> Iterator[None]:
    """Import the engine in a thread, unless it is imported already; wait for that at the end.

    With `replays`, import only what a replay needs.

    So no code of a test runs while modules are imported. Meanwhile only `desktops` and `backends` may be imported here:
    the engine needs neither, so that the two threads never wait for each other. An error of the import shows where the
    engine is used.
    """
    name = REPLAYS if replays else ENGINE
    if name in sys.modules:
        yield
        return
    thread = threading.Thread(target=_import, args=(name,), name="vnc-use-engine", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _import(name: str) -> None:
    was_on = gc.isenabled()
    gc.disable()  # nearly all of 190,000 new objects stay; the search for garbage is a sixth of the time
    try:
        import_module(name)
    except Exception:  # noqa: BLE001, S110  # whatever it is, the import where the engine is used raises it again
        pass
    finally:
        if was_on:
            gc.enable()
