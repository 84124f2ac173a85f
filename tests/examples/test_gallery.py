"""The gallery, which .ci/run replays: docs/web-pages.md shows a test of it."""

from __future__ import annotations

from support.paths import EXAMPLES, ROOT


def test_both_worlds_shows_test_of_gallery() -> None:
    shown = (
        (ROOT / "docs" / "web-pages.md")
        .read_text(encoding="utf-8")
        .partition("```python\n")[2]
        .partition("```")[0]
    )
    _, is_there, function = shown.partition("\n\n\ndef ")
    assert is_there
    assert f"def {function}" in (EXAMPLES / "gallery" / "test_upload.py").read_text(
        encoding="utf-8"
    )
