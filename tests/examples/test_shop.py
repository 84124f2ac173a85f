"""The examples' shop has the same pixels everywhere, so that the recordings that come
with it are replayed anywhere.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_vnc_use.recordings.store import load
from support.page_user import Recorder
from support.paths import EXAMPLES, PROGRAMS

pytestmark = pytest.mark.desktop

PAGES = PROGRAMS / "shop_pages.py"
RULES = """
  <edit name="hintstyle" mode="assign"><const>hintfull</const></edit>
  <edit name="autohint" mode="assign"><bool>true</bool></edit>
  <edit name="antialias" mode="assign"><bool>false</bool></edit>
  <edit name="rgba" mode="assign"><const>rgb</const></edit>
  <edit name="embolden" mode="assign"><bool>true</bool></edit>
"""
OTHER_FONTS = f"""<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
  <dir>/usr/share/fonts</dir>
  <match target="pattern">
    <edit name="family" mode="prepend" binding="strong"><string>DejaVu Serif</string></edit>{RULES}
  </match>
  <match target="font">{RULES}</match>
</fontconfig>"""
OTHER_SETTINGS = {
    "QT_SCALE_FACTOR": "1.5",
    "QT_FONT_DPI": "144",
    "QT_STYLE_OVERRIDE": "windows",
}


def pages_on(machine: Mapping[str, str]) -> list[str]:
    command = [sys.executable, str(PAGES)]
    done = subprocess.run(
        command, env=machine, capture_output=True, text=True, timeout=400, check=True
    )
    return done.stdout.splitlines()


def test_fonts_and_settings_of_machine_are_not_seen(tmp_path: Path) -> None:
    pages = pages_on(os.environ)
    assert len(set(pages)) == 8
    file = tmp_path / "fonts.conf"
    file.write_text(OTHER_FONTS, encoding="utf-8")
    assert (
        pages_on({**os.environ, **OTHER_SETTINGS, "FONTCONFIG_FILE": str(file)})
        == pages
    )


@pytest.mark.slow
def test_change_accepted_on_page_once_for_all_tests(tmp_path: Path) -> None:
    shutil.copytree(
        EXAMPLES,
        tmp_path / "examples",
        ignore=shutil.ignore_patterns("runs", "gallery", "__pycache__"),
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:pytest-vnc\n", encoding="utf-8"
    )
    shop = shlex.join([sys.executable, str(PROGRAMS / "buggy_shop.py"), "spelling"])
    options = [
        "--vnc-ui",
        "--vnc-record=accept",
        f"--vnc-app={shop}",
        "-k",
        "two_apples or test_basket or notes",
    ]
    with Recorder("pytest", "examples", *options, cwd=tmp_path) as session:
        questions = session.page.answer({"kind": "accept"})
        ended = session.ended()
    assert (ended.code, len(questions)) == (0, 1), ended.out
    assert "3 passed" in ended.out
    changed = 0
    for path in (EXAMPLES / "__vnc_recordings__" / "test_shop").glob(
        "*/recording.json"
    ):
        after = load(tmp_path / path.relative_to(EXAMPLES.parent))
        changed += bool(after and after.history)
    assert changed > 1
