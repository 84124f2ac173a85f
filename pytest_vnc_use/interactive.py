"""Whether a user can be asked, and who it is, or a CI job runs this process: the only
module that reads CI.
"""

from __future__ import annotations

import getpass
import os
from typing import TextIO

from pytest_vnc_use.errors import SettingsError

_NO_CI = ("", "false", "0")


def is_ci() -> bool:
    """Return whether a CI job runs this process: any value of CI but "false" and "0".

    Some CIs set their name. A job that wants to be none sets CI=false.
    """
    return os.environ.get("CI", "").strip().lower() not in _NO_CI


def check_user(what: str, remedy: str) -> None:
    """Raise SettingsError in a CI job, where no user answers. `what` includes the
    verb.
    """
    if is_ci():
        raise SettingsError(
            f"{what} a user at a browser, but CI={os.environ['CI']!r} is set. {remedy},"
            " or set CI=false where a user is there"
        )


def has_user(stream: TextIO | None) -> bool:
    """Return whether a user is at a stream: it is a terminal, and not a CI job's."""
    return stream is not None and stream.isatty() and not is_ci()


def user_name() -> str:
    """Return the name of this process's user, "unknown" for one without, as in a
    container.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"
