"""The gallery is a project of its own: the README's first command leaves it out. .ci/run replays it."""

from __future__ import annotations

import pytest

from support.forked_python import run_python
from support.paths import EXAMPLES, ROOT


@pytest.mark.slow
def test_gallery_is_not_collected_with_examples() -> None:
    command = ["pytest", "-Wdefault", "-p", "no:cacheprovider", "--collect-only", "-q", "examples"]
    done = run_python(*command, cwd=ROOT, timeout=400)
    assert done.returncode == 0, done.stdout
    assert "test_mousepad.py" not in done.stdout


def test_both_worlds_shows_test_of_gallery() -> None:
    shown = (ROOT / "docs" / "web-pages.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    _, is_there, function = shown.partition("\n\n\ndef ")
    assert is_there
    assert f"def {function}" in (EXAMPLES / "gallery" / "test_upload.py").read_text(encoding="utf-8")
