"""Text of limited length."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pytest_vnc_use.plain_text import LONGEST, cut


def short(text: object, most: int = LONGEST) -> str:
    """Return the text; if it is longer than `most` characters, its beginning and its length."""
    return cut(str(text), most)


def as_json(value: Any, most: int) -> str:
    """Return a JSON value as indented text of at most `most` characters."""
    try:
        return short(json.dumps(value, ensure_ascii=False, indent=1, default=str), most)
    except RecursionError:
        return "(nested too deeply to be shown)"


def without_place(text: object, folder: Path) -> str:
    """Return the text without the path of a folder, because a page that is sent away must not show it."""
    return str(text).replace(f"{folder.parent}{os.sep}", "")


def free_name(name: str, taken: set[str]) -> str:
    """Return the name, or, if it is taken, the first free one of `name-2`, `name-3`, …; it is taken from now on.

    Names that differ in case alone are one name: on some disks they are one file.
    """
    number = 1
    while (free := name if number == 1 else f"{name}-{number}").casefold() in taken:
        number += 1
    taken.add(free.casefold())
    return free
