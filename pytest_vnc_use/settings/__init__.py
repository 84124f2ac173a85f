"""Settings, and how their text is read."""

from pytest_vnc_use.settings.settings import Settings as Settings
