"""The plugins that only a session with a desktop needs, and their registration."""

from __future__ import annotations

import pytest

from pytest_vnc_use.plugin import (
    costs,
    ended_tests,
    hooks,
    junit,
    live_line,
    recordings,
    redaction,
    rehearsals,
    repeat,
    reporting,
    session_settings,
    stash,
)
from pytest_vnc_use.plugin.collecting import has_the_rest


def register_the_rest(config: pytest.Config) -> None:
    """Register the plugins for tests with a desktop. Called once there is such a test, or may be one on a worker."""
    if has_the_rest(config):
        return
    config.stash[stash.SETTINGS] = session_settings.read_settings(config)
    plugins = [
        redaction,
        redaction.Redaction(config),
        reporting,
        live_line.Eraser(config),
        hooks,
        costs,
        repeat,
        recordings,
        rehearsals,
        ended_tests,
        junit,
    ]
    if config.stash[stash.SETTINGS].playwright:
        from pytest_vnc_use.plugin import playwright_page

        plugins.append(playwright_page)
    for plugin in plugins:
        name = getattr(plugin, "__name__", type(plugin).__name__).rpartition(".")[2]
        config.pluginmanager.register(plugin, f"vnc_use_{name}")
