"""What the pages and llms.txt take from the code.

Run it after a change of settings, commands, tools or public names:

    python docs/scripts/generated.py --write

A page says where a text goes with two comments, `<!-- options -->` and `<!-- /options
-->`. What is between them is committed, so that the pages are whole where the site is
not built; tests/test_docs.py fails when it is stale. MkDocs uses this file as a hook,
named in mkdocs.yml: on the site, mkdocstrings writes the reference of the Python API.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from pytest_vnc_use.cli import parser
from pytest_vnc_use.cli.options import RUN_OPTIONS
from pytest_vnc_use.plugin.options import SECRET_HELP
from pytest_vnc_use.recordings.life import MOVES, State
from pytest_vnc_use.settings.settings import (
    FIELDS,
    OPTIONS,
    option_name,
    variable_of,
)

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RAW = "https://raw.githubusercontent.com/pytest-vnc-use/pytest-vnc-use/main/docs/"
SOURCE = "https://github.com/pytest-vnc-use/pytest-vnc-use/blob/main/"
FROM_ELSEWHERE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?https?:|<link\b[^>]*stylesheet[^>]*https?:|@import"
)


def options() -> str:
    """Return a section for each setting: those of the command line, then the others."""
    named = [_section(name) for name in FIELDS if name in OPTIONS]
    others = [_section(name) for name in FIELDS if name not in OPTIONS]
    sources = (
        "`--vnc-secret=NAME=…`, as often as needed; `vnc_secrets`, one a line; default:"
        " none"
    )
    secrets = f"### vnc_secrets\n\n{_plain(SECRET_HELP)}\n\n{sources}"
    return "\n\n".join(["## For a run", *named, secrets, "## For a project", *others])


def _section(name: str) -> str:
    metadata = FIELDS[name].metadata
    sources = [f"`vnc_{name}`", f"`{variable_of(name)}`"]
    if name in OPTIONS:
        sources.insert(0, f"`{option_name(name)}={metadata['metavar']}`")
    default = _default(FIELDS[name].default)
    return (
        f"### vnc_{name}\n\n{_plain(metadata['help'])}\n\n{', '.join(sources)};"
        f" default: {default}"
    )


def _default(value: object) -> str:
    if value in ("", None, ()):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return (
        f"`{'x'.join(map(str, value))}`" if isinstance(value, tuple) else f"`{value}`"
    )


def _plain(text: str) -> str:
    """Return the text as Markdown that shows it as it is; what is code already
    stays.
    """
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([|<>*_\[\]])", r"\\\1", part)
        for part in parts
    )


def cli() -> str:
    """Return the commands of `cua-vnc` with their options, the same with each version
    of Python.
    """
    return "\n\n".join(_commands(parser()))


def _commands(command: argparse.ArgumentParser) -> Iterator[str]:
    parts = (command.description, _options(command), command.epilog)
    yield "\n\n".join(
        [f"### `{command.prog}`", *(part.strip() for part in parts if part)]
    )
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _commands(each)
            if command.prog == "cua-vnc":
                yield "### Options of a desktop and a model\n\n" + "\n".join(
                    _shared().values()
                )


@cache
def _shared() -> dict[str, str]:
    """Return the lines of the options that `run` shares with other commands, by
    option.
    """
    run = next(
        action
        for action in parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ).choices["run"]
    names = {*RUN_OPTIONS, "--secret"}
    return {
        name: _option(each)
        for each in run._actions
        for name in each.option_strings
        if name in names
    }


def _options(command: argparse.ArgumentParser) -> str:
    """Return the command's options; those that it shares with `run`, and commands with
    sections, only by a link.
    """
    lines = {
        " ".join(each.option_strings) or each.dest: _option(each)
        for each in command._actions
        if each.dest != "help"
        and not (
            command.prog == "cua-vnc" and isinstance(each, argparse._SubParsersAction)
        )
    }
    own = [line for line in lines.values() if line not in _shared().values()]
    if len(own) + 3 > len(lines):
        return "\n".join(lines.values())
    missing = ", ".join(
        f"`{name}`" for name, line in _shared().items() if line not in lines.values()
    )
    link = "- the [options of a desktop and a model](#options-of-a-desktop-and-a-model)"
    return "\n".join([*own, link + (f", without {missing}" if missing else "")])


def _option(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction):
        return "\n".join(
            f"- `{each.dest}`: {_plain(each.help or '')}"
            for each in action._choices_actions
        )
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}"
        if action.choices
        else action.dest.upper()
    )
    words = [", ".join(action.option_strings)] if action.option_strings else []
    help_ = _plain(
        (action.help or "").replace("%%", "%")
        % {
            "default": action.default,
            "prog": "cua-vnc",
        }
    )
    return (
        f"- `{' '.join([*words, *([] if action.nargs == 0 else [str(value)])])}`:"
        f" {help_}"
    )


def mcp() -> str:
    """Return the tools of `cua-vnc mcp`, with what a coding agent reads of them."""
    from pytest_vnc_use.cli.mcp_server import Tools

    names = [
        name
        for name, each in vars(Tools).items()
        if inspect.isfunction(each) and not name.startswith("_")
    ]
    rows = [
        f"| `{name}` | {_plain(' '.join(inspect.getdoc(getattr(Tools, name)).split()))} |"
        for name in names
    ]  # type: ignore[union-attr]
    return "\n".join(["| tool | does |", "|---|---|", *rows])


def layers() -> str:
    """Return the layers that import-linter checks, as a drawing."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    return "```text\n" + "\n  │\n".join(contracts[0]["layers"]) + "\n```"


def segment_states() -> str:
    """Return the states of a segment in a session, and the legal moves from each."""
    rows = []
    for state in State:
        after = ", ".join(other.title for other in MOVES[state])
        rows.append(f"| {state.title} | {state.value} | {after or 'none'} |")
    return "\n".join(["| state | meaning | next |", "|---|---|---|", *rows])


@dataclass(frozen=True)
class Reference:
    """A module or a class of the Python API, and how mkdocstrings has it on the
    site.
    """

    name: str
    level: int = 3
    members: tuple[str, ...] = ()
    only_docstring: bool = False

    def directive(self) -> str:
        """Return the lines that mkdocstrings replaces."""
        options = {"heading_level": self.level} | (
            {"members": list(self.members)} if self.members else {}
        )
        if self.is_module:
            options |= {"show_root_heading": False, "show_root_toc_entry": False}
        return f"::: {self.name}\n    options:\n" + "\n".join(
            f"      {key}: {options[key]}" for key in options
        )

    @property
    def is_module(self) -> bool:
        """Whether it is a module: its last name is in small letters."""
        return self.name.rpartition(".")[2].islower()

    def listed(self) -> str:
        """Return each public name with its signature and the first sentence of its
        docstring.
        """
        module, _, class_name = (
            (self.name, "", "") if self.is_module else self.name.rpartition(".")
        )
        place = ROOT / module.replace(".", "/")
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        tree = ast.parse(file.read_text("utf-8"))
        whole = (
            (ast.get_docstring(tree) or "")
            if self.is_module and not self.members
            else ""
        )
        about = [
            f"```text\n{part}\n```\n" if "├──" in part else f"{part}\n"
            for part in whole.split("\n\n")
            if part
        ]
        if self.only_docstring:
            return "\n".join(about)
        chosen = [class_name] if class_name else self.members
        lines = "\n".join(
            [
                *about,
                *(line for node in tree.body for line in _described(node, 0, chosen)),
            ]
        )
        # fields without a text on one line
        return re.sub(r"(?m)(?<=`)\n +- (?=`[^`]+`$)", ", ", lines)


def _described(node: ast.stmt, depth: int, chosen: Any = ()) -> Iterator[str]:
    name = getattr(node, "name", "_")
    if name.startswith("_") or (chosen and name not in chosen):
        return
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        overload = any(
            ast.unparse(each).endswith("overload") for each in node.decorator_list
        )
        if not overload:
            yield _line(depth, _signature(node, bool(depth)), node)
    elif isinstance(node, ast.ClassDef):
        inits = [
            each
            for each in node.body
            if isinstance(each, ast.FunctionDef) and each.name == "__init__"
        ]
        bases = ", ".join(ast.unparse(each) for each in node.bases)
        arguments = _arguments(inits[0], True) if inits else bases
        yield _line(
            depth, f"class {name}" + (f"({arguments})" if arguments else ""), node
        )
        for number in range(len(inits[0].body) if inits else 0):
            yield from _field(inits[0].body, number, depth + 1, of_self=True)
        for number, each in enumerate(node.body):
            yield from _described(each, depth + 1)
            yield from _field(node.body, number, depth + 1)


def _field(
    body: list[ast.stmt], number: int, depth: int, *, of_self: bool = False
) -> Iterator[str]:
    node = body[number]
    if not isinstance(node, ast.AnnAssign | ast.Assign):
        return
    target = ast.unparse(
        node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    )
    name = target.removeprefix("self.") if of_self else target
    if name.startswith("_") or (
        of_self and (name == target or not name.isidentifier())
    ):
        return
    after = body[number + 1] if number + 1 < len(body) else None
    text = (
        isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and str(after.value.value)
    )
    kind = (
        f": {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
    )
    shown = (
        f"{name}{kind}"
        if of_self
        else re.sub(r" = field\(.*\)$", "", ast.unparse(node))
    )
    yield f"{'  ' * depth}- `{shown}`" + (f": {_first_sentence(text)}" if text else "")


def _line(depth: int, signature: str, node: Any) -> str:
    first = _first_sentence(ast.get_docstring(node) or "")
    return f"{'  ' * depth}- `{signature}`" + (f": {first}" if first else "")


def _signature(node: Any, in_class: bool) -> str:
    if any(
        ast.unparse(each).endswith(("property", "setter"))
        for each in node.decorator_list
    ):
        return f"{node.name}: {ast.unparse(node.returns)}"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({_arguments(node, in_class)}){returns}"


def _arguments(node: Any, in_class: bool) -> str:
    # a fixture of our own
    arguments = re.sub(r"^_\w+: None, ", "", ast.unparse(node.args))
    return re.sub(r"^(?:self|cls)(?:, |$)", "", arguments) if in_class else arguments


def _first_sentence(text: str) -> str:
    return re.split(
        r"(?<=\.)\s", " ".join(text.partition("\n\n")[0].split()), maxsplit=1
    )[0].replace("|", "\\|")


REFERENCES = {
    "api-hooks": Reference("pytest_vnc_use.plugin.hookspecs"),
    "api-step": Reference("pytest_vnc_use.types.model.Step", 4),
    "api-drift": Reference("pytest_vnc_use.types.frames.Drift", 4),
    "api-run-figures": Reference("pytest_vnc_use.report.results.RunFigures", 4),
    "api-fixtures": Reference("pytest_vnc_use.plugin.fixtures"),
    "api-agent": Reference("pytest_vnc_use.agent.agent.VncUseAgent"),
    "api-desktop": Reference("pytest_vnc_use.types.protocols.Desktop"),
    "api-run-result": Reference("pytest_vnc_use.types.model.RunResult"),
    "api-outcome": Reference("pytest_vnc_use.types.model.Outcome"),
    "api-verdict": Reference("pytest_vnc_use.types.verdicts.Verdict"),
    "api-callables": Reference(
        "pytest_vnc_use.planners.local.callables",
        members=("ActingPlanner", "key", "scroll", "finish", "give_up"),
    ),
    "api-observation": Reference("pytest_vnc_use.types.model.Observation"),
    "api-errors": Reference("pytest_vnc_use.errors", only_docstring=True),
}


GENERATED = {
    each.__name__.replace("_", "-"): each
    for each in (options, cli, mcp, layers, segment_states)
} | {name: each.listed for name, each in REFERENCES.items()}
PART = re.compile(r"^<!-- ([a-z-]+) -->\n.*?^<!-- /\1 -->$", re.MULTILINE | re.DOTALL)


def filled(markdown: str, texts: Any = None) -> str:
    """Return the page with what stands between `<!-- name -->` and `<!-- /name -->`
    rewritten.
    """

    def again(match: re.Match[str]) -> str:
        name = match[1]
        text = (
            (texts or GENERATED)[name]().strip("\n")
            if name in (texts or GENERATED)
            else None
        )
        return (
            match[0]
            if text is None
            else f"<!-- {name} -->\n\n{text}\n\n<!-- /{name} -->"
        )

    return PART.sub(again, markdown)


def llms() -> str:
    """Return llms.txt: what the project is, and each page with what it is for, in the
    order of the site.
    """
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    lines = [f"# {site['site_name']}", "", f"> {site['site_description']}", ""]
    lines += [
        (
            "The pages are Markdown. All of them in one file:"
            f" {site['site_url']}llms-full.txt"
        ),
        "",
    ]
    for section in site["nav"]:
        ((title, pages),) = section.items()
        lines += [f"## {'Optional' if title == 'Background' else title}", ""]
        pages = [{title: pages}] if isinstance(pages, str) else pages
        lines += [
            f"- [{name}]({RAW}{path}): {_opening(path)}"
            for page in pages
            for name, path in page.items()
        ]
        lines.append("")
    return "\n".join(lines)


def _opening(path: str) -> str:
    first = " ".join((DOCS / path).read_text("utf-8").split("\n\n")[1].split())
    return re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", first)


def current() -> dict[Path, str]:
    """Return what each committed file with generated parts has to hold now."""
    texts = {path: path.read_text("utf-8") for path in sorted(DOCS.glob("*.md"))}
    return {path: filled(text) for path, text in texts.items() if PART.search(text)} | {
        DOCS / "llms.txt": llms()
    }


def write() -> None:
    """Write the committed files again, and name those that changed."""
    for path, text in current().items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))


def on_page_markdown(markdown: str, **_: object) -> str:
    """Fill the page in; the Python API by mkdocstrings."""
    return filled(
        filled(markdown), {name: each.directive for name, each in REFERENCES.items()}
    )


def on_post_page(output: str, page: Any, **_: object) -> str:
    """Refuse a page that loads something from elsewhere: it would be broken without the
    internet.
    """
    if found := FROM_ELSEWHERE.search(output):
        raise ValueError(
            f"{page.file.src_uri} must load nothing from elsewhere, got {found[0]!r}"
        )
    return output


def on_post_build(config: Any) -> None:
    """Put the Markdown of each page beside it, and all of them in llms-full.txt; MkDocs
    copies llms.txt.
    """
    site, docs = Path(config.site_dir), Path(config.docs_dir)
    names = re.findall(
        rf"{re.escape(RAW)}([\w-]+\.md)", (docs / "llms.txt").read_text("utf-8")
    )
    texts = {name: filled((docs / name).read_text("utf-8")) for name in names}
    head = f"# {config.site_name}\n\n> {config.site_description}\n\n"
    site.joinpath("llms-full.txt").write_text(
        head + "\n\n".join(texts.values()), encoding="utf-8"
    )
    for name, text in texts.items():
        site.joinpath(name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python docs/scripts/generated.py --write")
    write()
