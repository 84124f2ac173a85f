"""The settings of a run, and the parsers of their text."""

from pytest_vnc_use.settings.settings import Settings as Settings
