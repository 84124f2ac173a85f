"""From `Settings` to concrete classes; the only place that chooses them. Each is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_vnc_use.assembly.connection import Connection as Connection
from pytest_vnc_use.assembly.desktops import (
    browsable as browsable,
    connect as connect,
    desktop_functions as desktop_functions,
    elements_asker as elements_asker,
    given_desktop as given_desktop,
    given_password as given_password,
    is_given as is_given,
    lease_desktop as lease_desktop,
    same_connection as same_connection,
    same_desktop as same_desktop,
    same_start as same_start,
    settings_at as settings_at,
    settle_rules as settle_rules,
    vnc_behind as vnc_behind,
)
from pytest_vnc_use.assembly.eyes import (
    PROTECT as PROTECT,
    connect_to as connect_to,
    devtools_url as devtools_url,
    wire_of as wire_of,
)
from pytest_vnc_use.assembly.live_models import LiveModels as LiveModels
from pytest_vnc_use.assembly.models import (
    API_KEY_VARIABLES as API_KEY_VARIABLES,
    GEMINI_KEY_VARIABLES as GEMINI_KEY_VARIABLES,
    MODELS as MODELS,
    ambient_secrets as ambient_secrets,
    api_keys as api_keys,
    build_budget as build_budget,
    build_judge as build_judge,
    build_planner as build_planner,
    build_policy as build_policy,
    given_planner as given_planner,
    is_no_planner as is_no_planner,
    judge_of as judge_of,
    model_that_judges as model_that_judges,
    no_planner as no_planner,
    person_as_judge as person_as_judge,
)
from pytest_vnc_use.settings.env_file import use_named_env_file
from pytest_vnc_use.settings.fallbacks import fallback_layer, fallbacks_in_words as fallbacks_in_words
from pytest_vnc_use.settings.layers import environment_layer, merge
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.settings.variables import from_file


def settings_of(given: Mapping[str, object]) -> Settings:
    """Return settings from Python keyword arguments over the environment and the file that it names.

    Raises SettingsError.
    """
    if not from_file:
        use_named_env_file()
    layers = (environment_layer(), (given, str))
    return merge(fallback_layer(layers), *layers)
