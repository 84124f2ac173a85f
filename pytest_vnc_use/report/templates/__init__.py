"""The HTML of the report: Jinja2 templates, which escape whatever they are given."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from pytest_vnc_use.report.phrases import sanitize

_TEMPLATES = Environment(
    loader=PackageLoader("pytest_vnc_use.report"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
    finalize=sanitize,
)


def render(name: str, **values: object) -> str:
    """Return the HTML of a template, `NAME.html.j2` in this directory, with these
    values.
    """
    return _TEMPLATES.get_template(f"{name}.html.j2").render(values)
