"""Agents of sessions, with what only the plugin passes to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_vnc_use import VncUseAgent
from pytest_vnc_use.agent import credentials
from pytest_vnc_use.agent.connection import Connection
from pytest_vnc_use.agent.models import AnyPlanner, Models
from pytest_vnc_use.agent.session import Session
from pytest_vnc_use.recordings.record import RecordedTest
from pytest_vnc_use.settings.settings import Settings
from pytest_vnc_use.types.protocols import Controller, Desktop, Judge


def agent_of(
    settings: Settings,
    *,
    planner: AnyPlanner | None = None,
    judge: Judge | None = None,
    secrets: Mapping[str, str] | None = None,
    desktop: Desktop | None = None,
    controller: Controller | None = None,
    recorded_test: RecordedTest | None = None,
    **options: Any,
) -> VncUseAgent:
    """Return the agent of a session; `options` are the session's other arguments."""
    declared = credentials.build_secrets(settings, secrets or {})
    connection = Connection(
        settings,
        declared,
        password=desktop.password if desktop else None,
        desktop=desktop,
        controller=controller,
        recorded_test=recorded_test,
    )
    models = Models(planner, judge)
    session = Session(
        settings, declared, connection, models, recorded_test=recorded_test, **options
    )
    return VncUseAgent.of(session)
