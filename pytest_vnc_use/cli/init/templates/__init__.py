"""The files that `cua-vnc init` writes, as Jinja2 templates; `<{` and `<%` begin their fields."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

_TEMPLATES = Environment(
    loader=PackageLoader("pytest_vnc_use.cli.init"),
    block_start_string="<%",
    block_end_string="%>",
    variable_start_string="<{",
    variable_end_string="}>",
    comment_start_string="<#",
    comment_end_string="#>",
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)


def render(name: str, **values: object) -> str:
    """Return the text of a template, `NAME.j2` in this folder, with these values."""
    return _TEMPLATES.get_template(f"{name}.j2").render(values)
