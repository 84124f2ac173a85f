"""The text of a recording's file: how it is written, read, checked, and brought to this version's form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.recordings.format import FORMAT, VERSION, WITHOUT_COVERS, WITHOUT_ELEMENTS, Recording
from pytest_vnc_use.recordings.modes import AGAIN
from pytest_vnc_use.runs.json_lines import load_json
from pytest_vnc_use.types import CARET_PX, JsonObject, Region
from pytest_vnc_use.types.json_depth import DEEPEST, is_shallow

_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)
_LONGEST_VALUE = 300
ANEW = f"take it back from version control, or {AGAIN}"
_QUIET_OF_1_S = 1.2
"""The time, in seconds, that recorders of version 1 watched the end. Their files do not hold it."""


def text_of(recording: Recording) -> str:
    """Return the text of a recording's file: JSON, with one line for each step and each claim."""
    content = recording.model_dump(mode="json", exclude_defaults=True)
    has_elements = any(step.elements for run in recording.runs for step in run.steps)
    version = VERSION if recording.covered else WITHOUT_COVERS if has_elements else WITHOUT_ELEMENTS
    return _object({"format": FORMAT, "version": version, **content}, "") + "\n"


def _object(fields: JsonObject, indent: str) -> str:
    inner = indent + "  "
    lines = [f'{inner}"{name}": {_value(name, value, inner)}' for name, value in fields.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _value(name: str, value: Any, indent: str) -> str:
    if name not in ("runs", "steps", "claims") or not value:
        return _line(value)
    inner = indent + "  "
    items = [_object(item, inner) if name == "runs" else _line(item) for item in value]
    return f"[\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}]"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def parse(text: str, where: str) -> Recording:
    """Return the recording in a file's text; `where` names the file. Raises RecordingError."""
    if _CONFLICT.search(text):
        raise RecordingError(
            f"{where} holds the conflict marks of a merge: take one side of it and of its pictures (git checkout "
            f"--ours or --theirs), or {AGAIN}"
        )
    try:
        data = load_json(text.encode())
    except (ValueError, RecursionError) as exc:
        raise RecordingError(f"{where} is cut off, or no JSON: {exc}; {ANEW}") from exc
    if not is_shallow(data, 2 * DEEPEST):  # a recorded value may be DEEPEST deep itself, and is nested in other levels
        raise RecordingError(f"{where} is damaged: it is more than {2 * DEEPEST} levels of JSON deep; {ANEW}")
    try:
        return Recording.model_validate(_upgrade(data, where))
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        place = _format_place(first["loc"]) or "it"
        got = cut(repr(first["input"]), _LONGEST_VALUE)
        raise RecordingError(f"{where} is damaged: {place}: {first['msg']}, got {got}; {ANEW}") from exc


def _format_place(parts: Iterable[str | int]) -> str:
    """Return a place in words: `("runs", 0, "steps", 1, "action")` is `runs 1, steps 2, action`, counted from 1."""
    return "".join(f" {part + 1}" if isinstance(part, int) else f", {part}" for part in parts).removeprefix(", ")


def _upgrade(data: Any, where: str) -> JsonObject:
    """Return the data in this version's form, with the fields that an older version lacks."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RecordingError(f'{where} is no recording: "format" must be {FORMAT!r}; {ANEW}')
    version = data.get("version")
    if type(version) is not int or version < 1:
        raise RecordingError(f'{where} is damaged: "version" must be a number, at least 1, got {version!r}; {ANEW}')
    if version > VERSION:
        raise RecordingError(
            f"{where} was written by a newer pytest-vnc-use: its version is {version}, this one reads up to {VERSION}; "
            f"upgrade pytest-vnc-use, or {AGAIN}"
        )
    return _upgrade_from_1(data) if version == 1 else {**data, "version": VERSION}


def _upgrade_from_1(data: Any) -> JsonObject:
    """Return data of version 1 in this version's form.

    Version 1 had no kinds of volatile regions; a small region was a caret.
    """
    if isinstance(data, dict):
        upgraded = {name: _upgrade_from_1(value) for name, value in data.items()}
        if isinstance(end := upgraded.get("end"), dict):
            end["quiet_s"] = _QUIET_OF_1_S
        if isinstance(regions := upgraded.get("volatile"), list):
            upgraded["volatile"] = [_with_kind(region) for region in regions]
        return upgraded | ({"version": VERSION} if "format" in data else {})
    return [_upgrade_from_1(item) for item in data] if isinstance(data, list) else data  # type: ignore[return-value]


def _with_kind(region: Any) -> Any:
    try:
        is_caret = Region(**region).is_within(CARET_PX)
    except TypeError:  # no region: validation refuses it later
        return region
    return {**region, "kind": "caret"} if is_caret else region
