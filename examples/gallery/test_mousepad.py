"""A GTK program: mousepad."""

from __future__ import annotations

import pytest

from pytest_vnc_use.types.protocols import Desktop

START = """
echo "Dear all," >letter.txt
if [ "$(id -u)" = 0 ] && unshare --map-user=1000 true; then
    exec unshare --map-user=1000 mousepad letter.txt # as root it would show a warning
fi
exec mousepad letter.txt
"""


@pytest.fixture
def vnc_app() -> list[str]:
    return ["sh", "-c", START]


@pytest.mark.needs("mousepad", package="mousepad")
@pytest.mark.vnc_task(
    "Add the line 'see you on Monday.' at the end of the letter, and save it",
    expect=None,
)
def test_letter_is_finished(vnc_desktop: Desktop) -> None:
    assert vnc_desktop.read_file("letter.txt") == "Dear all,\nsee you on Monday.\n"
