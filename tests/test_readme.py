"""README is short, CI runs its two commands, and its head is the package's description; see test_docs.py too."""

from __future__ import annotations

import re
from importlib.metadata import metadata

from support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


def test_ci_runs_the_readmes_two_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line for block in blocks("bash") for line in block.splitlines() if "pip install -e" in line]
    assert len(commands) == 2
    for command in commands:
        assert f"\n{command}\n" in script


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_the_packages_description_is_its_head() -> None:
    """pytest-metadata parses all of it at every start of pytest."""
    description = metadata("pytest-vnc-use")["Description"]
    assert description.strip().startswith("# pytest-vnc-use\n")
    assert "@pytest.mark.vnc_task(" in description
    assert "## Try it" in README
    assert "## Try it" not in description
    targets = re.findall(r"\]\(([^)]+)\)", description)
    assert targets
    assert [target for target in targets if not target.startswith("https://")] == []
