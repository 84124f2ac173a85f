"""Done once, in the server that `forked_python` forks sessions from: templates are
compiled, schemas are built, and the modules of all files are found, which the first
traceback of a session would do.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.report import templates
from pytest_vnc_use.report.results import RehearsalFigures, RunFigures, SessionResults
from pytest_vnc_use.runs.json_lines import from_json
from pytest_vnc_use.types import (
    Action,
    Decision,
    FrameRef,
    Proposal,
    Ruling,
    Step,
    Verdict,
)

for name in templates._TEMPLATES.list_templates(("j2",)):
    templates._TEMPLATES.get_template(name)
FORMS: tuple[Any, ...] = (
    Action,
    Decision,
    FrameRef,
    Proposal,
    Ruling,
    SessionResults,
    Step,
    Verdict,
    tuple[RehearsalFigures, ...],
    tuple[RunFigures, ...],
)
for form in FORMS:
    with suppress(RunDirectoryError):
        from_json(form, None)
inspect.getmodule(inspect.getmodule.__code__)
