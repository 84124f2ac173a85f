"""The registration of the plugins that only a session with a desktop needs."""

from __future__ import annotations

import pytest


def register_the_rest(config: pytest.Config) -> None:
    """Register the plugins for tests with a desktop. Called once there is such a test, or may be one on a worker."""
    if config.pluginmanager.has_plugin("vnc_use_reporting"):
        return
    from pytest_vnc_use.plugin import (
        broken_calls,
        costs,
        desktops_ahead,
        ended_tests,
        forked_workers,
        hooks,
        junit,
        kept_errors,
        live_line,
        proofs,
        recordings,
        redaction,
        rehearsals,
        repeat,
        reporting,
        stash,
    )
    from pytest_vnc_use.plugin.options import read_settings

    config.stash[stash.SETTINGS] = read_settings(config)
    config.pluginmanager.register(redaction, "vnc_use_redacting")
    config.pluginmanager.register(redaction.Redaction(config), "vnc_use_redaction")
    config.pluginmanager.register(reporting, "vnc_use_reporting")
    config.pluginmanager.register(live_line.Eraser(config), "vnc_use_live_line")
    config.pluginmanager.register(hooks, "vnc_use_hooks")
    config.pluginmanager.register(costs, "vnc_use_spending")
    config.pluginmanager.register(repeat, "vnc_use_repeating")
    config.pluginmanager.register(proofs, "vnc_use_proving")
    config.pluginmanager.register(recordings, "vnc_use_recorded_items")
    config.pluginmanager.register(desktops_ahead, "vnc_use_next_desktops")
    config.pluginmanager.register(rehearsals, "vnc_use_rehearsing")
    config.pluginmanager.register(broken_calls, "vnc_use_broken_calls")
    config.pluginmanager.register(ended_tests, "vnc_use_ended_tests")
    config.pluginmanager.register(kept_errors, "vnc_use_kept_errors")
    config.pluginmanager.register(junit, "vnc_use_junit")
    config.pluginmanager.register(forked_workers, "vnc_use_forked_workers")
    if config.stash[stash.SETTINGS].playwright:
        from pytest_vnc_use.plugin import playwright_page

        config.pluginmanager.register(playwright_page, "vnc_use_playwright_page")
