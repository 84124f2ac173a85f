"""The keys that the settings name stay with the tests: no desktop, program or command inherits them."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.agent.build import given_desktop
from pytest_vnc_use.settings.settings import Settings
from support.paths import PAD_LINE
from support.vnc_servers import require

PRINTS = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHOP_VNC", "VNC_USE_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "not for the program")
    monkeypatch.setenv("SHOP_MODE", "test")


def check(environment: dict[str, str]) -> None:
    assert environment["SHOP_MODE"] == "test"
    assert "not for the program" not in environment.values()


@pytest.mark.desktop
@pytest.mark.parametrize("server", ["qt", "xvnc"])
def test_of_desktop_started_here(server: str) -> None:
    if server == "xvnc":
        require("Xtigervnc")
    settings = Settings(server=server, app=PAD_LINE, qt_host_network="true", password_env="SHOP_VNC")
    desktop = build.lease_desktop(settings)
    try:
        check(json.loads(desktop.run(PRINTS).stdout))
    finally:
        desktop.stop()


def test_of_desktop_that_command_leads_to() -> None:
    settings = Settings(server="localhost::1", exec="env", app=shlex.join(PRINTS), password_env="SHOP_VNC")
    check(json.loads(given_desktop(settings).run(PRINTS).stdout))
