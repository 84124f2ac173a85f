"""Tests that a session's or a worker's end cuts off: what the results say of them."""

from __future__ import annotations

import pytest

from support.pad_sessions import QUIET, results

DESKTOP = """
import pytest

@pytest.fixture
def vnc_desktop():
    return object()
"""
LOST = ("error", "infra")


@pytest.fixture
def ended(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    pytester.makeconftest(DESKTOP)
    return pytester


def ends() -> dict[str, tuple[str, str | None]]:
    return {name: (test.result, test.triage) for name, test in results().items()}


@pytest.mark.parametrize(
    ("end", "options", "line"),
    [
        (
            "raise KeyboardInterrupt",
            ("--vnc-record=rewrite",),
            "1 test did not end, as you pressed Ctrl-C; nothing was recorded of it\n",
        ),
        ("pytest.exit('enough')", (), "1 failed: 1 infra\n"),
        pytest.param("raise KeyboardInterrupt", ("-n2",), "1 failed: 1 infra\n", marks=pytest.mark.slow),
    ],
)
def test_test_in_which_session_ends_is_infra(
    ended: pytest.Pytester, end: str, options: tuple[str, ...], line: str
) -> None:
    ended.makepyfile(test_it=f"import pytest\ndef test_before(vnc_desktop): ...\ndef test_ends(vnc_desktop): {end}")
    result = ended.runpytest_subprocess(*QUIET, *options, timeout=400)
    assert result.ret != pytest.ExitCode.OK
    assert ends()["ends"] == LOST
    assert f"vnc-use: {line}" in result.stdout.str()
    assert ("1 infra" in result.stdout.str()) == ("infra" in line)
