"""The pictures of failed tests in JUnit's XML, after pytest has written it. See report/junit.py.

It works on pytest's file, as pytest offers no way to add output to a test there.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from pytest_vnc_use.plugin.redaction import secrets_of
from pytest_vnc_use.plugin.state import SETTINGS

_PROBLEM = pytest.StashKey[str]()


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Add the attachments, not on a worker, and not if no pictures are kept."""
    yield
    config = session.config
    place = config.getoption("xmlpath", None)
    if not place or hasattr(config, "workerinput") or config.stash[SETTINGS].artifacts == "off":
        return
    from xml.etree.ElementTree import ParseError

    from pytest_vnc_use.report.junit import add_attachments, workspace

    file = Path(os.path.expandvars(place)).expanduser()
    try:
        add_attachments(file, workspace(), secrets_of(config).hide)
    except (OSError, ParseError) as exc:
        config.stash[_PROBLEM] = f"no pictures are attached in {place}: {exc}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print why nothing is attached, if that failed."""
    from pytest_vnc_use.plain_text import line

    if _PROBLEM in config.stash:
        terminalreporter.write_line(line(f"vnc-use: {config.stash[_PROBLEM]}"))
