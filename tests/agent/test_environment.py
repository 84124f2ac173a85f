"""The keys that the settings name stay with the tests: no desktop, program or command inherits them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.settings.settings import Settings
from support.vnc_servers import require

PRINTS = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]


@pytest.mark.desktop
@pytest.mark.parametrize("server", ["xvnc", "localhost::1"])
def test_key_variables_stay_out_of_commands(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHOP_VNC", "VNC_USE_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "not for the program")
    monkeypatch.setenv("SHOP_MODE", "test")
    settings = Settings(server=server, password_env="SHOP_VNC")
    if server == "xvnc":
        require("Xtigervnc")
    external = replace(settings, exec="env")
    desktop = build.external_desktop(external) if build.is_external(settings) else build.lease_desktop(settings)
    try:
        environment = json.loads(desktop.run(PRINTS).stdout)
    finally:
        desktop.stop()
    assert environment["SHOP_MODE"] == "test"
    assert "not for the program" not in environment.values()
