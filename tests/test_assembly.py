"""From settings to desktops: who gets which, and what a wrong setting says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_vnc_use import assembly
from pytest_vnc_use.errors import DesktopRefused, SettingsError
from pytest_vnc_use.settings import Settings


def test_given_addresses_are_shared_one_user_at_a_time() -> None:
    settings = Settings(server="host-of-this-test::1, host-of-this-test::2", lease_seconds=0.2)
    first, second = assembly.lease_desktop(settings, "one"), assembly.lease_desktop(settings, "two")
    assert {first.server, second.server} == {"host-of-this-test::1", "host-of-this-test::2"}
    with pytest.raises(DesktopRefused, match="'host-of-this-test::1' by one"):
        assembly.lease_desktop(settings, "three")
    first.stop()
    assert assembly.lease_desktop(settings, "three").server == first.server


@pytest.mark.parametrize(
    ("settings", "told"),
    [(Settings(), "--vnc-server"), (Settings(server="qt"), "--vnc-app")],
    ids=["no desktop", "no program"],
)
def test_what_is_missing_is_told(settings: Settings, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        assembly.lease_desktop(settings)


def test_the_judge_of_a_model_that_only_acts_is_another_model() -> None:
    settings = Settings(planner="gemini", model="gemini-2.5-computer-use-preview-10-2025")
    assert assembly.model_that_judges(settings) == Settings().model
    assert assembly.model_that_judges(replace(settings, model="gemini-3.5-flash-lite")) == "gemini-3.5-flash-lite"
    assert assembly.model_that_judges(replace(settings, judge_model="other")) == "other"
