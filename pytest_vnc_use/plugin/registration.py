"""The registration of the plugins that only tests with a desktop need.

They are named, not imported, so that a session without such a test imports none.
"""

from __future__ import annotations

from importlib import import_module

import pytest

_PLUGINS = (
    "state",
    "redaction",
    "runtest",
    "failures",
    "results",
    "reporting",
    "terminal",
    "costs",
    "markers",
    "reruns",
    "mode_requirements",
    "prestart",
    "ending",
    "playwright_page",
)
"""The modules in the order of registration: the first one reads the settings that the
others need.
"""
_REPORTS = ("htmlpath", "xmlpath", "allure_report_dir")
"""The options of pytest and of plugins that ask for a report with screenshots."""
_PLAYWRIGHT = ("playwright", "pytest_playwright.pytest_playwright")
"""The names of pytest-playwright as a plugin: by its entry point, and by `-p`."""


def register_plugins(config: pytest.Config) -> None:
    """Register the plugins for tests with a desktop, once there is such a test, or may
    be one on a worker.
    """
    if has_plugins(config):
        return
    left_out = set()
    if not any(config.getoption(name, None) for name in _REPORTS):
        left_out.add("reporting")
    if not any(map(config.pluginmanager.has_plugin, _PLAYWRIGHT)):
        left_out.add("playwright_page")
    for name in _PLUGINS:
        if name not in left_out:
            plugin = import_module(f"pytest_vnc_use.plugin.{name}")
            config.pluginmanager.register(plugin, f"vnc_use_{name}")


def has_plugins(config: pytest.Config) -> bool:
    """Return whether the other plugins are registered."""
    return bool(config.pluginmanager.has_plugin("vnc_use_runtest"))
