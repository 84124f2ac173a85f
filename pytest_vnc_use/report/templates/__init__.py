"""The HTML of the report: Jinja2 templates, which escape whatever they are given."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pytest_vnc_use.report.sanitizing import sanitize

_TEMPLATES = Environment(
    loader=PackageLoader("pytest_vnc_use.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
_PAGES = _TEMPLATES.overlay(finalize=sanitize)
"""The same for whole pages, where characters that hide or turn a text around are made visible too."""


def render(name: str, **values: object) -> str:
    """Return the HTML of a template, `NAME.html.j2` in this folder, with these values."""
    return _TEMPLATES.get_template(f"{name}.html.j2").render(values)


def render_page(name: str, **values: object) -> str:
    """Return the HTML of a page, `page_NAME.html.j2` in this folder, with these values."""
    return _PAGES.get_template(f"page_{name}.html.j2").render(values)


def attribute(name: str, value: str) -> str:
    """Return `name="value"` as finished HTML; the value is escaped."""
    return Markup('{}="{}"').format(name, value)
