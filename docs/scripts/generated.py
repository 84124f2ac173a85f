"""What the pages take from the code when they are built: a hook of MkDocs, named in mkdocs.yml.

A page says where it goes with a comment: `<!-- options -->` becomes the return value of `options()`.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_vnc_use.cli import parser
from pytest_vnc_use.settings.layers import ENVIRONMENT_PREFIX
from pytest_vnc_use.settings.settings import FIELDS, OPTIONS, option_name

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

ROOT = Path(__file__).parents[2]
SOURCE = "https://github.com/pytest-vnc-use/pytest-vnc-use/blob/main/"
FROM_ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?https?:|<link\b[^>]*stylesheet[^>]*https?:|@import"
)

pages: dict[str, tuple[str, str]] = {}
"""The title and the first paragraph of each page by its address, in the order of the build."""


# --- what stands on the pages ----------------------------------------------------------------------------------------


def options() -> str:
    """Return a section for each setting: those of the command line, then the others."""
    named = [_section(name) for name in FIELDS if name in OPTIONS]
    others = [_section(name) for name in FIELDS if name not in OPTIONS]
    return "\n\n".join(["## For a run", *named, "## For a project", *others])


def _section(name: str) -> str:
    told = FIELDS[name].metadata
    ways = [f"`vnc_{name}`", f"`{ENVIRONMENT_PREFIX}{name.upper()}`"]
    if name in OPTIONS:
        ways.insert(0, f"`{option_name(name)}={told['metavar']}`")
    return f"### vnc_{name}\n\n{_plain(told['help'])}\n\n{', '.join(ways)}; default: {_default(FIELDS[name].default)}"


def _default(value: object) -> str:
    if value in ("", None, ()):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{'x'.join(map(str, value))}`" if isinstance(value, tuple) else f"`{value}`"


def _plain(text: str) -> str:
    return re.sub(r"([|<>*_\[\]])", r"\\\1", text)


def cli() -> str:
    """Return the help of `cua-vnc` and of each of its commands."""
    os.environ["COLUMNS"] = "88"  # argparse asks for the width of the terminal
    return "\n\n".join(_helps(parser()))


def _helps(command: argparse.ArgumentParser) -> Iterator[str]:
    yield f"### `{command.prog}`\n\n```text\n{command.format_help().strip()}\n```"
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _helps(each)


def mcp() -> str:
    """Return the tools of `cua-vnc mcp`, with what a coding agent reads of them."""
    from pytest_vnc_use.cli.mcp_server import Tools

    names = [name for name, each in vars(Tools).items() if inspect.isfunction(each) and not name.startswith("_")]
    rows = [f"| `{name}` | {_plain(' '.join(inspect.getdoc(getattr(Tools, name)).split()))} |" for name in names]  # type: ignore[union-attr]
    return "\n".join(["## The tools", "", "| tool | does |", "|---|---|", *rows])


def many_machines() -> str:
    """Return the page of examples/many_machines, without its title."""
    text = (ROOT / "examples/many_machines/README.md").read_text("utf-8")
    return text.partition("\n")[2].replace(
        "`two_hosts.sh`", f"[two_hosts.sh]({SOURCE}examples/many_machines/two_hosts.sh)"
    )


def rooms() -> str:
    """Return the table of folders and their questions."""
    text = (ROOT / ".github/CONTRIBUTING.md").read_text("utf-8")
    return re.search(r"^\| folder \| question \|\n(?:\|.*\n)+", text, re.MULTILINE)[0]  # type: ignore[index]


def layers() -> str:
    """Return the layers that import-linter checks, as a drawing."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    return "```text\n" + "\n  │\n".join(contracts[0]["layers"]) + "\n```"


GENERATED = {each.__name__.replace("_", "-"): each for each in (options, cli, mcp, many_machines, rooms, layers)}


def filled(markdown: str) -> str:
    """Return the page with each `<!-- name -->` replaced by what `name` returns."""
    return re.sub(r"^<!-- ([a-z-]+) -->$", lambda match: GENERATED[match[1]](), markdown, flags=re.MULTILINE)


# --- what MkDocs calls -----------------------------------------------------------------------------------------------


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Fill the page in, and note its first paragraph for llms.txt."""
    first = " ".join(markdown.split("\n\n")[1].split())
    pages[page.file.src_uri] = (str(page.title or page.file.name), first)
    return filled(markdown)


def on_post_page(output: str, page: Any, **_: object) -> str:
    """Refuse a page that loads something from elsewhere: it would be broken without the internet."""
    if found := FROM_ELSEWHERE.search(output):
        raise ValueError(f"{page.file.src_uri} must load nothing from elsewhere, got {found[0]!r}")
    return output


def on_post_build(config: Any) -> None:
    """Write llms.txt, a list of the pages for language models, and llms-full.txt, all pages in one."""
    site, docs = Path(config.site_dir), Path(config.docs_dir)
    lines = [f"- [{title}]({name}): {first}" for name, (title, first) in pages.items()]
    head = f"# {config.site_name}\n\n> {config.site_description}\n\n"
    site.joinpath("llms.txt").write_text(f"{head}## Pages\n\n" + "\n".join(lines) + "\n", encoding="utf-8")
    texts = [filled((docs / name).read_text("utf-8")) for name in pages]
    site.joinpath("llms-full.txt").write_text(head + "\n\n".join(texts), encoding="utf-8")
    for name in pages:  # what llms.txt links to
        target = site / name
        target.write_text(filled((docs / name).read_text("utf-8")), encoding="utf-8")
