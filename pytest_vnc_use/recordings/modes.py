"""What is done with the recording of a test: the modes of `--vnc-record`."""

from __future__ import annotations

from typing import Literal

Mode = Literal["auto", "replay", "rewrite", "demonstrate", "off"]


def mode_of(asked: str, *, exists: bool, ci: bool, has_planner: bool) -> Mode:
    """Return the mode that `--vnc-record` and the circumstances give.

    Where the option is not given, a test that has a recording uses it, and no other test does: in mode `replay` with
    CI=true, else `auto`. Without a planner nothing can be healed: `auto` is then `replay`.
    """
    mode = asked or ("off" if not exists else "replay" if ci else "auto")
    return "replay" if mode == "auto" and not has_planner else mode  # type: ignore[return-value]  # checked as a setting
