"""The recipes of docs/servers.md: their commands are run, a word is typed, and `cua-vnc doctor` names the recipe."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from pytest_vnc_use.backends.inspection import ServerFacts, inspect
from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.cli.doctor import diagnose_asked
from pytest_vnc_use.cli.recipes import recipe_of
from pytest_vnc_use.errors import DesktopError
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types import Move, TypeText
from support.paths import ROOT
from support.stages import libvncserver, qt
from support.stages.qemu import BOOT_SECTOR
from support.stages.stage import Stage, Wish
from support.vnc_servers import PACKAGES, is_free, own_displays, require, running, wait_for

PAGE = (ROOT / "docs" / "servers.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^### (.+)\n(?:(?!^###).*\n)*?```bash\n((?:.*\n)*?)```\n\nIts address is .*?`(.+?)`", PAGE, re.M)
WORD = "recipe"


def free_display() -> int:
    return next(filter(is_free, range(own_displays()[0] + 40, own_displays()[1])))


@pytest.mark.desktop
@pytest.mark.parametrize(("name", "commands", "address"), SECTIONS, ids=[name for name, _, _ in SECTIONS])
def test_the_commands_of_a_recipe_show_a_desktop_that_hears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, commands: str, address: str
) -> None:
    for program in {*re.findall(r"[\w-]+", commands)} & {*PACKAGES, "websockify"}:
        require(program)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boot").write_bytes(BOOT_SECTOR)
    display = free_display()
    commands = re.sub(r":41\b|X41\b", lambda found: f"{found[0][0]}{display}", commands)
    ports = {"5941": str(5900 + display), "6041": str(6000 + display)}
    for port, ours in ports.items():
        commands, address = commands.replace(port, ours), address.replace(port, ours)
    typed, facts, found = tmp_path / "typed", ServerFacts(), list[VNCController]()

    def answers() -> bool:
        try:
            found.append(inspect(address, None, facts))
        except DesktopError:
            return False
        return True

    with running("sh", "-c", commands):
        wait_for(answers, f"the start of {name}")
        with closing(found[0]) as hands:
            wait_for(typed.exists, "the start of the program")
            hands.perform(Move(100, 100))
            before = hands.frame().png
            hands.perform(TypeText(WORD, press_enter=True))
            wait_for(lambda: WORD.encode() in typed.read_bytes(), "the arrival of the word")
            wait_for(lambda: hands.frame().png != before, "the change of the screen")
        (recipe,) = (found for found in diagnose_asked(Settings(server=address)) if found.about == "recipe")
    assert recipe.word == "ok"
    assert f"#{'qemu' if name == 'libvirt' else name.lower()}" in recipe.said


def test_each_recipe_with_an_address_is_run() -> None:
    assert [name for name, _, _ in SECTIONS] == ["TigerVNC", "TightVNC", "x11vnc", "QEMU", "libvirt", "WebSocket"]


@pytest.mark.desktop
@pytest.mark.parametrize(
    ("start", "word", "said"),
    [(qt.qt, "ok", "#qt"), (qt.wayvnc, "ok", "#wayvnc"), (libvncserver.libvncserver, "--", "not recognised")],
    ids=["qt", "wayvnc", "libvncserver"],
)
def test_the_recipe_of_other_servers(
    tmp_path: Path, start: Callable[[Path, Wish], AbstractContextManager[Stage]], word: str, said: str
) -> None:
    facts = ServerFacts()
    with start(tmp_path, Wish()) as stage:
        inspect(stage.server.address, None, facts).close()
        recipe = recipe_of(stage.server.address, facts)
    assert recipe.word == word
    assert said in recipe.said


def test_every_recipe_that_is_named_is_in_the_docs() -> None:
    headings = {line.lstrip("# ").lower() for line in PAGE.splitlines() if line.startswith("#")}
    known = [
        ServerFacts(version="3.889"),
        ServerFacts(name="QEMU (vm)"),
        ServerFacts(name="Qt for Embedded Linux VNC Server"),
        ServerFacts(name="WayVNC"),
        ServerFacts(security_types=("Tight",)),
        ServerFacts(extended_clipboard=True),
        ServerFacts(name="vm:2"),
        ServerFacts(),
    ]
    for facts in known:
        for address in ("localhost::5901", "ws://localhost:6080/websockify"):
            assert recipe_of(address, facts).said.rpartition("#")[2] in headings
