"""Text of a model, a task, a program or a file name, sanitized for a page.

Jinja2 escapes what is markup. This file makes control characters visible, and characters that change the direction of a
text, so that a text cannot look like another.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Control characters but tab and newline, invisible ones, bidi marks, halves of a surrogate pair, tags."""


def sanitize(value: object) -> object:
    """Return a text with its hidden characters shown as `⟨U+202E⟩`; other values and finished HTML as they are."""
    if hasattr(value, "__html__") or not isinstance(value, str):
        return value
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", value.replace("\r\n", "\n"))
