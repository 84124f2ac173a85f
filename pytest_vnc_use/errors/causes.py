"""Where an exception came from: the errors that led to it, and the code that raised it.

No function trusts an exception: a user's class may fail in its `__str__`.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType

from pytest_vnc_use.errors import AgentFailed, ModelUnavailable, VncUseError

_PACKAGE = Path(__file__).resolve().parents[1]
_USERS_CODE = ("planners.local.", "harness.")
"""The modules of this package whose planners call a user's code."""

_LIBRARIES = frozenset({"site-packages", "dist-packages"})
"""The names of directories with installed libraries."""

_BLOCKS = {
    "A test tried to use socket.": (
        "pytest-socket blocks sockets. Allow desktops with --allow-unix-socket, and"
        " what is reached over TCP with --allow-hosts=HOST"
    ),
    "Network is disabled": (
        "pytest-recording blocks sockets. Allow desktops with"
        " --allowed-hosts=127.0.0.1,/"
    ),
}
"""The beginning of each error of a plugin that keeps tests from the network, and the
remedy. The class decides nothing: with -W error, pytest-socket's is a warning.
"""


def blocked(problem: str) -> str:
    """Return which plugin keeps tests from the network, and the remedy, if that is the
    problem; else "".
    """
    for beginning, remedy in _BLOCKS.items():
        if problem.startswith(beginning):
            return f"{remedy} ({problem})"
    return ""


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and all errors that led to it, nearest first, each once: causes,
    contexts, members of groups.
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting = [*_members(current), *_led_to(current), *waiting]


def parts(error: BaseException) -> Iterator[BaseException]:
    """Yield the members of a group, also of nested groups, and the errors that led to
    the group.

    An error that is not a group is its only member.
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        members = _members(current)
        if members:
            waiting = [*members, *_led_to(current), *waiting]
        else:
            yield current


def _led_to(error: BaseException) -> list[BaseException]:
    return [
        cause
        for cause in (error.__cause__, error.__context__)
        if isinstance(cause, BaseException)
    ]


def _members(error: BaseException) -> tuple[BaseException, ...]:
    """Return the members of an ExceptionGroup, also of the backport for Python 3.10."""
    if not any(kind.__name__ == "BaseExceptionGroup" for kind in type(error).__mro__):
        return ()
    return tuple(
        member
        for member in getattr(error, "exceptions", ())
        if isinstance(member, BaseException)
    )


def text_of(error: BaseException) -> str:
    """Return the text of the error, or a fixed text if its class cannot produce one."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  # a user's class may raise anything, SystemExit too
        return f"<a {type(error).__name__} whose text cannot be shown>"


def named(error: BaseException) -> str:
    """Return the class and the text of the error, such as `KeyError: 'basket'`."""
    return f"{type(error).__name__}: {text_of(error)}"


def frames_of(error: BaseException) -> list[FrameType]:
    """Return the frames that the error came through, innermost last, without frames of
    code that is in no file.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [frame for frame in frames if not frame.f_code.co_filename.startswith("<")]


def is_from_package(error: BaseException) -> bool:
    """Return whether the innermost frame is of this package, or there is none, whatever
    the class of the error.
    """
    frames = frames_of(error)
    return not frames or _is_of_package(frames[-1].f_code.co_filename)


def lines_in(file: Path, error: BaseException) -> list[str]:
    """Return the innermost line of a file that the error came through, such as `at
    test_shop.py:12`, if any.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename) == file
    ]
    return [f"at {file.name}:{frame.lineno}" for frame in frames[-1:]]


def _is_of_user(file: str) -> bool:
    """Return whether a file belongs to the user: not to this package, to Python or to
    an installed library.
    """
    if file.startswith("<") or not _LIBRARIES.isdisjoint(Path(file).absolute().parts):
        return False
    return not (_is_of_package(file) or _is_of_python(file))


@lru_cache(1000)
def _is_of_package(file: str) -> bool:
    return _PACKAGE in Path(file).resolve().parents


@lru_cache(1000)
def _is_of_python(file: str) -> bool:
    return not _directories_of_python().isdisjoint(Path(file).resolve().parents)


@lru_cache(1)
def _directories_of_python() -> frozenset[Path]:
    directories = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
    return frozenset(
        Path(directory).resolve() for directory in directories if directory
    )


@contextmanager
def users_errors(role: str, asked: object) -> Iterator[None]:
    """Map each error of a user's planner or judge to one of this package.

    `role` names `asked` in the message. An error of a file, a connection or a time-out
    is an outage; else the planner or the judge failed. Errors of this package stay, and
    so do those of its own planners and judges: they are its defects. Raises
    ModelUnavailable, AgentFailed.
    """
    try:
        yield
    except VncUseError:
        raise
    except Exception as exc:
        if not _is_custom(asked):
            raise
        is_outage = any(isinstance(cause, (OSError, EOFError)) for cause in chain(exc))
        kind = ModelUnavailable if is_outage else AgentFailed
        message = f"the {role} raised {named(exc)}"
        for entry in reversed(traceback.extract_tb(exc.__traceback__)):
            if _is_of_user(entry.filename):
                name = Path(entry.filename).name
                message += f"\n  at {name}:{entry.lineno}, in {entry.name}"
        raise kind(message) from exc


def _is_custom(asked: object) -> bool:
    """Return whether a planner or judge is the user's, or calls the user's code."""
    package, _, name = type(asked).__module__.partition(".")
    return package != _PACKAGE.name or name.startswith(_USERS_CODE)
