"""The recipes of docs/vnc-servers.md: their commands run, a word is typed, `cua-vnc doctor` names the recipe."""

from __future__ import annotations

import os
import re
import sys
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
from support.stages import qt
from support.stages.qemu import BOOT_SECTOR
from support.vnc_servers import PACKAGES, is_free, own_displays, require, require_pyside, running, wait_for

PAGE = (ROOT / "docs" / "vnc-servers.md").read_text(encoding="utf-8")
SECTIONS = re.findall(
    r"^### (.+)\n(?:(?!^###).*\n)*?```bash\n((?:(?!```).*\n)*)```\n\nThe address is .*?`(.+?)`", PAGE, re.M
)
NAMED_AS_THEIR_PACKAGES = ("websockify", "sway", "wayvnc", "foot", "x11vnc", "openbox", "xterm", "chromium")
WORD = "recipe"
APP = """
from pathlib import Path
from PySide6.QtWidgets import QApplication, QLineEdit

app, typed = QApplication([]), Path("typed")
field = QLineEdit()
field.returnPressed.connect(lambda: typed.write_text(field.text()))
field.showFullScreen()
typed.touch()
app.exec()
"""


def with_free_numbers(text: str) -> tuple[str, str]:
    """The commands with a free display in place of 41, and its number."""
    number = str(next(filter(is_free, range(own_displays()[0] + 40, own_displays()[1]))))
    text = re.sub(r":41\b|X41\b", lambda found: found[0][0] + number, text)
    return text.replace("5941", str(5900 + int(number))).replace("6041", str(6000 + int(number))), number


def first_answer(address: str, facts: ServerFacts, what: str) -> VNCController:
    """Connect as soon as the server lets us in."""
    found = list[VNCController]()

    def answers() -> bool:
        with suppress(DesktopError):
            found.append(connect(address, None, facts=facts))
        return bool(found)

    wait_for(answers, f"the start of {what}")
    return found[0]


@pytest.mark.slow
@pytest.mark.desktop
@pytest.mark.parametrize(("name", "commands", "address"), SECTIONS, ids=[name for name, _, _ in SECTIONS])
def test_commands_of_recipe_show_desktop_that_hears(
    monkeypatch: pytest.MonkeyPatch, name: str, commands: str, address: str
) -> None:
    for program in {*re.findall(r"[\w-]+", commands)} & {*PACKAGES, *NAMED_AS_THEIR_PACKAGES}:
        require(program)
    if name == "Qt":
        require_pyside()
    commands, number = with_free_numbers(commands)
    address = address.replace("5941", str(5900 + int(number))).replace("6041", str(6000 + int(number)))
    facts = ServerFacts()
    with qt.directory_of_an_ordinary_user() as (directory, user):
        monkeypatch.chdir(directory)
        Path("boot").write_bytes(BOOT_SECTOR)
        Path("app.py").write_text(APP)
        typed = directory / "typed"
        environment = {"HOME": str(directory), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        needs_user = user if name == "wayvnc" else {}
        with running("sh", "-c", commands, environment=environment, **needs_user):
            with closing(first_answer(address, facts, name)) as hands:
                is_ready = b"." if "debugcon" in commands else b""  # what the boot sector says first
                wait_for(lambda: typed.exists() and typed.read_bytes().startswith(is_ready), "the start of the program")
                hands.perform(Move(100, 100))
                before = hands.frame().png
                hands.perform(TypeText(WORD, press_enter=True))
                wait_for(lambda: WORD.encode() in typed.read_bytes(), "the arrival of the word")
                wait_for(lambda: hands.frame().png != before, "the change of the screen")
            (recipe,) = (
                found
                for found in diagnose(Settings(server=address), typing=False, only_asked=True)
                if found.about == "recipe"
            )
    assert recipe.word == "ok"
    assert f"#{'qemu' if name == 'libvirt' else name.lower()}" in recipe.text


def test_every_recipe_named_is_in_docs_and_run() -> None:
    recipes = ["TigerVNC", "TightVNC", "x11vnc", "QEMU", "libvirt", "WebSocket", "wayvnc", "Qt"]
    assert [name for name, _, _ in SECTIONS] == recipes
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
