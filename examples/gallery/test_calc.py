"""An office program: LibreOffice Calc, without the tips of its first start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_vnc_use.types.protocols import Desktop

DIRECTORY = Path(__file__).parent
START = f"""
mkdir -p office/user
cp '{DIRECTORY}/quiet_office.xcu' office/user/registrymodifications.xcu
cp '{DIRECTORY}/sheet.fods' sum.fods
exec soffice -env:UserInstallation="file://$PWD/office" --nologo --norestore --nofirststartwizard --nolockcheck \\
    --calc sum.fods
"""


@pytest.fixture
def vnc_app() -> list[str]:
    return ["sh", "-c", START]


@pytest.mark.needs("soffice", package="libreoffice-calc libreoffice-gtk3")
@pytest.mark.vnc_task(
    "Write 12 and 30 into the first two cells, and their sum below", expect=None
)
def test_sum_is_computed(vnc_desktop: Desktop) -> None:
    assert re.findall(r'office:value="(\d+)"', vnc_desktop.read_file("sum.fods")) == [
        "12",
        "30",
        "42",
    ]
