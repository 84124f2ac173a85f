"""Eyes and hands with covers over what the screen shows of typed secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_vnc_use.types.protocols import Controller

if TYPE_CHECKING:
    from pytest_vnc_use.backends.covers.covers import Covers

_KEPT: dict[str, Covers] = {}
"""The covers of desktops that several tests use one after the other, by their addresses, while this process lives."""


def covered_as(controller: Controller, desktop: Controller) -> Controller | None:
    """Return eyes and hands on `desktop` with the covers of a controller on the same one; None where it has none."""
    from pytest_vnc_use.backends.covers.controller import CoveringController

    return controller.over(desktop) if isinstance(controller, CoveringController) else None


def covering(controller: Controller, hide: Callable[[str], str], kept_for: str = "") -> Controller:
    """Return eyes and hands whose pictures have covers. `hide` takes secrets out of what is typed.

    `kept_for` is the address of a desktop that other tests use too: what one test typed there is covered in all.
    """
    from pytest_vnc_use.backends.covers.controller import CoveringController
    from pytest_vnc_use.backends.covers.covers import Covers

    covers = _KEPT.setdefault(kept_for, Covers()) if kept_for else Covers()
    return CoveringController(controller, covers, hide)
