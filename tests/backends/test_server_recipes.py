"""The recipes of docs/vnc-servers.md: TigerVNC's commands run, and `cua-vnc doctor` names those that are there."""

from __future__ import annotations

import re
from contextlib import closing, suppress
from pathlib import Path

import pytest

from pytest_vnc_use.backends.security import ServerFacts
from pytest_vnc_use.backends.vnc import VNCController, connect
from pytest_vnc_use.cli.doctor import diagnose, recipe_of
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Move, TypeText
from support.paths import ROOT
from support.vnc_servers import is_free, own_displays, require, running, wait_for

PAGE = (ROOT / "docs" / "vnc-servers.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.desktop
def test_commands_of_tigervnc_recipe_show_desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = re.search(r"^### TigerVNC\n(?:.*\n)*?```bash\n((?:.*\n)*?)```\n\nThe address is .*?`(.+?)`", PAGE, re.M)
    assert recipe
    for program in ("Xtigervnc", "xterm"):
        require(program)
    number = next(filter(is_free, range(own_displays()[0] + 40, own_displays()[1])))
    commands = re.sub(r"(?<=[:X])41\b", str(number), recipe[1]).replace("5941", str(5900 + number))
    address = recipe[2].replace("5941", str(5900 + number))
    monkeypatch.chdir(tmp_path)
    found = list[VNCController]()

    def answers() -> bool:
        with suppress(DesktopError):
            found.append(connect(address))
        return bool(found)

    with running("sh", "-c", commands, environment={"HOME": str(tmp_path)}):
        wait_for(answers, "the start of the server")
        with closing(found[0]) as hands:
            typed = tmp_path / "typed"
            wait_for(typed.exists, "the start of the program")
            hands.perform(Move(100, 100))
            hands.perform(TypeText("recipe", press_enter=True))
            wait_for(lambda: typed.read_text() == "recipe\n", "the arrival of the word")
        findings = diagnose(Settings(server=address), typing=False, only_asked=True)
        assert [(each.word, "#tigervnc" in each.text) for each in findings if each.about == "recipe"] == [("ok", True)]


def test_every_recipe_named_is_in_docs() -> None:
    headings = {line.lstrip("# ").lower() for line in PAGE.splitlines() if line.startswith("#")}
    names = ("QEMU (vm)", "Qt for Embedded Linux VNC Server", "WayVNC", "vm:2", "")
    known = [ServerFacts(name=name) for name in names]
    known += [
        ServerFacts(version="3.889"),
        ServerFacts(security_types=("Tight",)),
        ServerFacts(extended_clipboard=True),
    ]
    for facts in known:
        for address in ("localhost::5901", "ws://localhost:6080/websockify"):
            assert recipe_of(address, facts).text.rpartition("#")[2] in headings
