"""Controllers with covers over typed secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_vnc_use.types.protocols import Controller

if TYPE_CHECKING:
    from pytest_vnc_use.backends.covers.covers import Covers

_KEPT: dict[str, Covers] = {}
"""The covers of desktops that several tests use one after the other, by address, for the time of this process."""


def covered_as(controller: Controller, desktop: Controller) -> Controller | None:
    """Return a controller on `desktop` with the covers of another controller of it; None if that has none."""
    from pytest_vnc_use.backends.covers.controller import CoveringController

    return controller.over(desktop) if isinstance(controller, CoveringController) else None


def covering(controller: Controller, hide: Callable[[str], str], kept_for: str = "") -> Controller:
    """Return a controller whose pictures have covers. `hide` takes secrets out of what is typed.

    `kept_for` is the address of a desktop that other tests use too: a secret of one test is covered in all of them.
    """
    from pytest_vnc_use.backends.covers.controller import CoveringController
    from pytest_vnc_use.backends.covers.covers import Covers

    covers = _KEPT.setdefault(kept_for, Covers()) if kept_for else Covers()
    return CoveringController(controller, covers, hide)
