"""The import of the engine while the first desktop of a process starts.

LangGraph takes most of a second of processor time; a desktop's start mostly waits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

ENGINE = "pytest_vnc_use.agent.graph"
"""The module that imports LangGraph."""


@contextmanager
def imported_meanwhile() -> Iterator[None]:
    """Import the engine in a thread, and wait for that at the end.

    So no code of a test runs while modules are imported. Meanwhile only `desktops` and `backends` may be imported here:
    the engine needs neither, so that the two threads never wait for each other. An error of the import shows where the
    engine is used.
    """
    thread = threading.Thread(target=_import, name="vnc-use-engine", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _import() -> None:
    with suppress(Exception):
        import_module(ENGINE)
