"""The steps of a test's runs in Allure's results, if allure-pytest writes any (`--alluredir`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vnc_use.types import Drifted, Step


def add_steps(config: pytest.Config, runs: list[Path]) -> None:
    """Attach each step with its screenshot to the test that runs now, and each drift as three images to compare."""
    if not config.pluginmanager.has_plugin("allure_listener"):
        return
    import allure

    from pytest_vnc_use.errors import RunFolderError
    from pytest_vnc_use.runs.folder import read_trace

    for run in runs:
        try:
            trace = read_trace(run)
        except RunFolderError as exc:
            title = "the run never started" if exc.never_started else "the run cannot be shown"
            allure.attach(exc.never_started or str(exc), title, allure.attachment_type.TEXT)
            continue
        with allure.step(trace.started.task):
            for drift in trace.drifts:
                _attach_drift(run, drift)
            for step in trace.steps:
                _attach_step(run, step)


def _attach_drift(run: Path, drift: Drifted) -> None:
    import allure

    from pytest_vnc_use.errors import RunFolderError
    from pytest_vnc_use.report.screenshots import DIFF_MIME, image_diff

    try:
        allure.attach(image_diff(run, drift), drift.problem, DIFF_MIME, "imagediff")
    except RunFolderError as exc:
        allure.attach(str(exc), drift.problem, allure.attachment_type.TEXT)


def _attach_step(run: Path, step: Step) -> None:
    import allure

    from pytest_vnc_use.errors import RunFolderError
    from pytest_vnc_use.report.annotate import mark_action
    from pytest_vnc_use.report.phrases import action_in_words
    from pytest_vnc_use.runs.folder import RunFolder

    with allure.step(f"{step.number}. {action_in_words(step.proposal.action, step.elements)}"):
        lines = [step.proposal.intent or step.words, step.error]
        if text := "\n".join(filter(None, lines)):
            allure.attach(text, "words", allure.attachment_type.TEXT)
        try:
            png = mark_action(RunFolder(run).load_png(step.frame_before), step.proposal.action)
        except RunFolderError as exc:
            allure.attach(str(exc), "no screenshot", allure.attachment_type.TEXT)
        else:
            allure.attach(png, "the screen before", allure.attachment_type.PNG)
