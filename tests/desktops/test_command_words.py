"""A command for the desktop is a list of words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_vnc_use.desktops.program import check_argv
from pytest_vnc_use.errors import SettingsError
from support.paths import PAD_LINE


@pytest.mark.parametrize("command", ["ls -l", "", [], ()])
def test_a_text_is_no_list_of_words(command: Sequence[str]) -> None:
    with pytest.raises(SettingsError, match=r'must be its words, such as \["ls", "-l"\], got '):
        check_argv(command)


@pytest.mark.desktop
def test_a_desktop_refuses_a_text(pytester: pytest.Pytester) -> None:
    pytester.makepyfile('def test_it(vnc_desktop):\n    vnc_desktop.run("ls -l")\n')
    result = pytester.runpytest_subprocess("--vnc-server=qt", f"--vnc-app={PAD_LINE}", timeout=400)
    result.stdout.fnmatch_lines(["*a command must be its words*got 'ls -l'*"])
