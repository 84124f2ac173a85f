"""Functions that find where an exception came from: the errors that led to it, the code that raised it, its topic.

No function of this module changes an exception. No function trusts an exception either: a user's class may fail in its
`__str__`.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import FrameType

from pytest_vnc_use.errors import InfraError, VncUseError

ASKS = "_vnc_asks"
"""A local variable with this name marks a frame as `planner` or `judge`. It is read like `__tracebackhide__`."""

_PACKAGE = Path(__file__).resolve().parents[1]
_PLANNERS_PACKAGE = f"{__name__.partition('.')[0]}.planners."
_ASKS_USERS = tuple(_PLANNERS_PACKAGE + name for name in ("local.callables", "local.scripted"))
"""The only modules of `planners` that call a function of the user."""

_NETWORK = re.compile(
    r"HTTP|Http|Connect|Network|Timeout|TimedOut|RateLimit|Throttl|Unavailable|Overloaded|Quota|Gateway"
    r"|(API|Api|RPC|Rpc|Server|Service)\w*(Error|Exception|Failure|Down)$"
)
_NETWORK_LIBRARIES = {
    *("httpx", "httpx2", "httpcore", "requests", "urllib3", "urllib", "http", "aiohttp", "websockets", "websocket"),
    *("grpc", "socket", "ssl", "openai", "anthropic", "google", "botocore", "boto3", "litellm", "mistralai", "cohere"),
}
_HTTP_STATUS = re.compile(
    r"\b(?:HTTP|status)\D{0,20}(?:401|403|408|425|429|5\d\d)\b|\b(?:401|403|408|425|429|5\d\d) = .*\.status",
    re.IGNORECASE,
)
"""An HTTP error as text, or as pytest shows `assert response.status_code == 200`."""

_BLOCKS = {
    "A test tried to use socket.": "pytest-socket blocks sockets. Allow desktops with --allow-unix-socket, and what is "
    "reached over TCP with --allow-hosts=HOST",
    "Network is disabled": "pytest-recording blocks sockets. Allow desktops with --allowed-hosts=127.0.0.1,/",
}
"""The prefixes of errors of plugins that keep tests from the network; with -W error, pytest-socket's is a warning."""


def blocked(problem: str) -> str:
    """Return which plugin keeps tests from the network, and the remedy, if that is the problem; else ""."""
    return next((f"{remedy} ({problem})" for start, remedy in _BLOCKS.items() if problem.startswith(start)), "")


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and all errors that led to it, nearest first, each once: causes, contexts, members of groups."""
    seen: set[int] = set()
    waiting = deque([error])
    while waiting:
        current = waiting.popleft()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting.extendleft([*_led_to(current)[::-1], *_members(current)[::-1]])


def parts(error: BaseException) -> Iterator[BaseException]:
    """Yield the members of a group, also of nested groups, and the errors that led to the group.

    An error that is not a group is its only member. So is a group that a user's planner or judge raised.
    """
    seen: set[int] = set()
    waiting = deque([error])
    while waiting:
        current = waiting.popleft()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if (members := _members(current)) and not asked(current):
            waiting.extendleft([*_led_to(current)[::-1], *members[::-1]])
        else:
            yield current


def _led_to(error: BaseException) -> list[BaseException]:
    return [cause for cause in (error.__cause__, error.__context__) if isinstance(cause, BaseException)]


def _members(error: BaseException) -> tuple[BaseException, ...]:
    """Return the members of an ExceptionGroup, also of the backport for Python 3.10."""
    if not any(kind.__name__ == "BaseExceptionGroup" for kind in type(error).__mro__):
        return ()
    return tuple(member for member in getattr(error, "exceptions", ()) if isinstance(member, BaseException))


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
    """Return the frames that the error came through, innermost last, without frames of code that is in no file."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [frame for frame in frames if not frame.f_code.co_filename.startswith("<")]


def asked(error: BaseException) -> str:
    """Return `planner` or `judge` if a user's planner or judge raised the error; else "".

    Return "" for the errors of this package, whose messages are complete, and for defects of this package.
    """
    if isinstance(error, VncUseError):
        return ""
    frames = frames_of(error)
    at = [number for number, frame in enumerate(frames) if _is_package_frame(frame) and ASKS in frame.f_locals]
    if not at:
        return ""
    foreign = next(
        (number for number, frame in enumerate(frames) if number > at[-1] and not _is_package_frame(frame)), None
    )
    if foreign is None or _calls_out(frames[foreign - 1]):
        return ""
    return str(frames[at[-1]].f_locals[ASKS])


def _calls_out(frame: FrameType) -> bool:
    """Return whether a frame belongs to a planner or judge of this package, which calls no user's code."""
    module = str(frame.f_globals.get("__name__", ""))
    return module.startswith(_PLANNERS_PACKAGE) and module not in _ASKS_USERS


def is_from_package(error: BaseException) -> bool:
    """Return whether the innermost frame is of this package, or there is none, whatever the class of the error."""
    return all(map(_is_package_frame, frames_of(error)[-1:]))


def is_users(file: str, test: Path) -> bool:
    """Return whether a file belongs to the user: not to this package, to Python or to an installed library.

    Files beside the test belong to the user.
    """
    path = Path(file).absolute()
    beside = test.parent in path.parents
    installed = {"site-packages", "dist-packages"}.intersection(
        path.relative_to(test.parent).parts if beside else path.parts
    )
    return not installed and (beside or not (_is_of_package(file) or _is_of_python(file)))


def users_lines(error: BaseException, test: Path) -> list[str]:
    """Return the user's lines that the error came through, innermost first, such as `shop_plan.py:2, in look`."""
    entries = traceback.extract_tb(error.__traceback__)
    user_entries = [entry for entry in entries if not entry.filename.startswith("<") and is_users(entry.filename, test)]
    return [f"{Path(entry.filename).name}:{entry.lineno}, in {entry.name}" for entry in reversed(user_entries)]


def lines_in(file: Path, error: BaseException) -> list[str]:
    """Return the innermost line of a file that the error came through, such as `at test_shop.py:12`, if any."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
    return [f"at {file.name}:{frame.lineno}" for frame in frames[-1:]]


def _is_package_frame(frame: FrameType) -> bool:
    return _is_of_package(frame.f_code.co_filename)


@lru_cache(1000)
def _is_of_package(file: str) -> bool:
    return _PACKAGE in Path(file).resolve().parents


@lru_cache(1000)
def _is_of_python(file: str) -> bool:
    return not _directories_of_python().isdisjoint(Path(file).resolve().parents)


@lru_cache(1)
def _directories_of_python() -> frozenset[Path]:
    directories = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
    return frozenset(Path(directory).resolve() for directory in directories if directory)


def text_of_users_error(error: BaseException) -> str:
    """Return `the planner raised KeyError: 'basket' at shop_plan.py:2, in look`; "" if no user's code was asked."""
    who = asked(error)
    lines = [f"at {line}" for line in users_lines(error, Path())[:1]]
    return " ".join([f"the {who} raised {named(error)}", *lines]) if who else ""


def of_network(error: BaseException) -> bool:
    """Return whether the error, or one that led to it, is about a file, a connection, a service or a time-out."""
    return any(map(_is_of_network, chain(error)))


def _is_of_network(error: BaseException) -> bool:
    if isinstance(error, (OSError, EOFError, InfraError)) or _HTTP_STATUS.search(text_of(error)):
        return True
    kinds = [kind for kind in type(error).__mro__ if kind.__module__ != "builtins"]
    return any(
        str(kind.__module__).partition(".")[0] in _NETWORK_LIBRARIES or _NETWORK.search(kind.__name__) for kind in kinds
    )
