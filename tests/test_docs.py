"""The pages of docs/, README and CONTRIBUTING: their commands, snippets, links, names and messages are real."""

from __future__ import annotations

import argparse
import ast
import configparser
import os
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from pytest_vnc_use import cli, errors
from pytest_vnc_use.cli.init import SHOWS_PAGE
from pytest_vnc_use.plugin.toml import read_task_file
from pytest_vnc_use.safety.policy_file import explain, load_policy
from pytest_vnc_use.settings.layers import read_value
from pytest_vnc_use.settings.settings import ENVIRONMENT_PREFIX, FIELDS
from pytest_vnc_use.triage import RULES
from support.forked_python import run_python
from support.paths import ROOT
from support.vnc_servers import require

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
WITH_CONTRIBUTING = [*PAGES, *([CONTRIBUTING] if CONTRIBUTING.exists() else [])]  # an sdist has none
OF_EXAMPLES = sorted(ROOT.glob("examples/*/README.md"))
SOURCE = "https://github.com/pytest-vnc-use/pytest-vnc-use/"
REGENERATE = "run python docs/scripts/generated.py --write"
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    text: str


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(pages: list[Path]) -> list[Block]:
    return [Block(page, found[2], textwrap.dedent(found[3])) for page in pages for found in BLOCK.finditer(read(page))]


BLOCKS = blocks(WITH_CONTRIBUTING)
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)  # any block, also one with a title
PROSE = {page: FENCE.sub("", read(page)) for page in WITH_CONTRIBUTING}


def every(language: str, holding: str = "") -> pytest.MarkDecorator:
    """Run a test with each block of a language, or with those that hold a text."""
    found = [block for block in BLOCKS if block.language == language and holding in block.text]
    ids = [f"{block.page.stem}-{number}" for number, block in enumerate(found)]
    return pytest.mark.parametrize("block", found, ids=ids)


def option(config: pytest.Config, word: str) -> object:
    return config.getoption(word.split("=", maxsplit=1)[0].lstrip("-").replace("-", "_"), default="no")


def test_python_snippets_are_collected(pytester: pytest.Pytester) -> None:
    snippets = [block for block in BLOCKS if block.language == "python" and "import pytest\n" in block.text]
    names = (f"test_{number}_{block.page.stem}" for number, block in enumerate(snippets))
    pytester.makepyfile(**dict(zip(names, (block.text for block in snippets), strict=True)))
    result = pytester.runpytest_subprocess("--collect-only", "-q", "--strict-markers", "--import-mode=importlib")
    assert result.ret is pytest.ExitCode.OK, result.stdout.str()


def test_other_python_snippets_import_names_that_exist() -> None:
    for block in BLOCKS:
        if block.language == "python" and "import pytest\n" not in block.text:
            assert not re.search(r"\bpytest\.", block.text), f"{block} uses pytest, and does not import it"
            body = ast.parse(block.text, block.page.name).body
            imports = [node for node in body if isinstance(node, ast.ImportFrom)]
            ours = [node for node in imports if str(node.module).startswith("pytest_vnc")]
            exec(compile(ast.Module(list(ours), []), block.page.name, "exec"), {})


@every("toml", "[[test]]")
def test_task_file_snippet_is_read(tmp_path: Path, block: Block) -> None:
    file = tmp_path / "test_shop.vnc.toml"
    file.write_text(block.text, encoding="utf-8")
    assert [test.name for test in read_task_file(file)] == ["basket[apples]", "basket[pears]"]


@every("toml", "[[rule]]")
def test_policy_snippet_is_loaded_and_explained(tmp_path: Path, block: Block) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(block.text, encoding="utf-8")
    names = [rule["name"] for rule in tomllib.loads(block.text)["rule"]]
    assert names
    assert [name for name in names if repr(name) in explain(load_policy(str(file)))] == names


@every("toml")
def test_toml_snippet_parses(block: Block) -> None:
    assert tomllib.loads(block.text)


@every("ini")
def test_ini_snippet_has_valid_settings(block: Block) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(block.text)
    for name, text in parser["pytest"].items():
        if name.startswith("vnc_"):
            read_value(name.removeprefix("vnc_"), text, name)


@every("ini", "vnc_server = xvnc\n")
def test_xvnc_snippet_shows_its_program(pytester: pytest.Pytester, block: Block) -> None:
    for program in ("Xtigervnc", re.search(r"vnc_app = (\S+)", block.text)[1]):  # type: ignore[index]
        require(program)
    as_root = block.text.replace("--kiosk", "--kiosk --no-sandbox")
    pytester.makefile(".ini", pytest=as_root)
    pytester.makepyfile("def test_it(vnc_agent): assert vnc_agent.screenshot()")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


@every("yaml")
def test_yaml_snippet_has_valid_options(block: Block, pytestconfig: pytest.Config) -> None:
    assert yaml.safe_load(block.text)
    for word in re.findall(r"--vnc-[a-z-]+", block.text):
        assert option(pytestconfig, word) != "no", word


def commands(*names: str) -> list[str]:
    """The lines of the shell that begin so, each once."""
    shown = [*BLOCKS, *blocks(OF_EXAMPLES)]
    texts = [block.text.replace("\\\n", " ") for block in shown if block.language in ("bash", "console")]
    lines = [line.strip().removeprefix("$ ") for text in texts for line in text.splitlines()]
    return list(dict.fromkeys(line for line in lines if line.startswith(names)))


@pytest.mark.parametrize("line", commands("cua-vnc"))
def test_cua_vnc_command_parses(line: str) -> None:
    cli.parser().parse_args(shlex.split(line, comments=True)[1:])


@pytest.mark.parametrize("line", commands("pytest", "python -m pytest"))
def test_pytest_command_has_valid_options(line: str, pytestconfig: pytest.Config) -> None:
    for word in shlex.split(line, comments=True):
        name, equals, value = word.partition("=")
        if name.startswith("--vnc-"):
            assert option(pytestconfig, name) != "no", name
        if equals and name.startswith("--vnc-"):
            read_value(name.removeprefix("--vnc-").replace("-", "_"), value, name)


def test_named_extras_exist() -> None:
    extras = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]
    for page in WITH_CONTRIBUTING:
        for name in re.findall(r"(?:pytest-vnc-use|\.)\[([a-z]+)\]", read(page)):
            assert name in extras, f"{page.name}: {name}"


def test_named_debian_packages_exist() -> None:
    release = Path("/etc/os-release")
    if not release.exists() or "\nID=debian\n" not in read(release):
        pytest.skip("it needs Debian's list of packages")
    known = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True, check=True)
    if len(known.stdout) < 100_000:
        pytest.skip("apt has no list of packages here: apt-get update")
    names = set(known.stdout.split())
    for page in WITH_CONTRIBUTING:
        for words in re.findall(r"apt-get install ([^`\n#(…]+)", read(page)):
            for name in re.findall(r"(?<!\S)[a-z0-9][a-z0-9.+-]+", words.partition(" &&")[0].partition("  ")[0]):
                assert name in names, f"{page.name}: {name}"


def test_web_page_options_equal_those_of_init() -> None:
    assert f"vnc_app = chromium {SHOWS_PAGE} http" in read(DOCS / "web-pages.md")


def test_named_options_exist(pytestconfig: pytest.Config) -> None:
    for page in WITH_CONTRIBUTING:
        without_messages = re.sub(r"^> `.*$", "", read(page), flags=re.MULTILINE)  # one is of an option that has gone
        for name in re.findall(r"--vnc-[a-z]+(?:-[a-z]+)*", without_messages):
            assert option(pytestconfig, name) != "no", f"{page.name}: {name}"


def test_named_settings_exist() -> None:
    known = {f"vnc_{name}" for name in FIELDS}
    for page in WITH_CONTRIBUTING:
        for name in re.findall(r"-o ?(vnc_[a-z_]+)", read(page)):
            assert name in known, f"{page.name}: {name}"
        for name in re.findall(rf"{ENVIRONMENT_PREFIX}[A-Z_]+", PROSE[page]):
            assert name.removeprefix(ENVIRONMENT_PREFIX).lower() in {*FIELDS, "password", "api_key", "name"}, name


def test_named_files_exist() -> None:
    """Those of this project: a test in `tests/` itself is the reader's."""
    for page in WITH_CONTRIBUTING:
        text = " ".join(read(page).split())
        for name in re.findall(r"(?:tests/\w+|docs|examples|pytest_vnc_use)/[\w/.]*\.(?:py|sh|toml|md)", text):
            assert (ROOT / name).exists(), f"{page.name}: {name}"
        for name in re.findall(r"tests/bench/run\.py ([a-z_]+)", text):
            assert (ROOT / f"tests/bench/{name}.py").exists(), f"{page.name}: {name}"


def code_in(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", PROSE[page]) if page.exists() else []


def test_names_in_contributing_exist() -> None:
    """A path is one of the repository or of the package. A file's name alone may be anywhere in the package."""
    package = ROOT / "pytest_vnc_use"
    lanes = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["hatch"]["envs"]["default"]["scripts"]
    for name in code_in(CONTRIBUTING):
        if re.fullmatch(r"[\w.][\w./-]*(?:/|\.(?:py|md|toml|yml))", name) and name != "site/":  # which mkdocs makes
            known = [ROOT / name, package / name, *package.rglob(name.rstrip("/"))]
            assert any(path.exists() for path in known), name
        if lane := re.match(r"hatch run (\w+)", name):
            assert lane[1] in lanes, name


@pytest.mark.desktop
def test_planner_in_contributing_ends_as_budget(tmp_path: Path) -> None:
    require("Xtigervnc")
    for block in blocks([CONTRIBUTING]):
        if name := re.match(r"# (\w+\.py)\n", block.text):
            (tmp_path / name[1]).write_text(block.text, encoding="utf-8")
    given = re.search(r"`PYTHONPATH=\. pytest (--vnc-planner=\S+ [^`]+)`", read(CONTRIBUTING))
    assert given
    command = ["pytest", "-p", "no:cacheprovider", *given[1].split()]
    done = run_python(*command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, timeout=120)
    assert "vnc-use: 1 failed: 1 budget" in done.stdout, done.stdout


@cache
def generated() -> dict[str, object]:
    return runpy.run_path(str(DOCS / "scripts" / "generated.py"))


@cache
def anchors(page: Path) -> set[str]:
    return {slug(line.lstrip("# ")) for line in read(page).splitlines() if line.startswith("#")}


def slug(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def links(page: Path) -> Iterator[tuple[str, str]]:
    for target in re.findall(r"\]\(([^)\s]+)\)", PROSE[page]):
        path, _, anchor = target.partition("#")
        yield path, anchor


@pytest.mark.parametrize("page", WITH_CONTRIBUTING, ids=lambda page: page.stem)
def test_links_and_anchors_exist(page: Path) -> None:
    for path, anchor in links(page):
        if path.startswith(SOURCE):
            assert (ROOT / re.sub(r"^(?:blob|tree)/main/", "", path.removeprefix(SOURCE))).exists(), path
        elif not path.startswith("https://"):
            target = page.parent / path if path else page
            assert target.exists(), path
            assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def error_classes() -> set[str]:
    """The names of all error classes of the package that derive from VncUseError, read off its source."""
    classes = [node for node in nodes() if isinstance(node, ast.ClassDef)]
    bases = {node.name: {base.id for base in node.bases if isinstance(base, ast.Name)} for node in classes}
    found = {"VncUseError"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found


@cache
def nodes() -> list[ast.AST]:
    trees = (ast.parse(path.read_text("utf-8")) for path in (ROOT / "pytest_vnc_use").rglob("*.py"))
    return [node for tree in trees for node in ast.walk(tree)]


def test_error_tree_has_every_class_below_its_base() -> None:
    (tree,) = re.findall(r"^```text\n(VncUseError\n.*?)^```$", read(DOCS / "api.md"), re.MULTILINE | re.DOTALL)
    above, found = ["VncUseError"], {"VncUseError"}
    for branch, name in re.findall(r"^([│ ]*[├└]── )(\w+)", tree, re.MULTILINE):
        depth = len(branch) // 4
        above[depth:] = [name]
        assert getattr(errors, above[depth - 1]) in getattr(errors, name).__bases__, name
        found.add(name)
    assert found == error_classes()


def test_triage_rules_are_in_reports_page() -> None:
    page = read(DOCS / "reports.md")
    for rule in RULES:
        assert f"| {rule.when} |" in page, rule.when


def test_generated_parts_are_current() -> None:
    stale = [path.name for path, text in generated()["current"]().items() if read(path) != text]  # type: ignore[operator]
    assert stale == [], REGENERATE


def test_generated_parts_are_each_on_one_page() -> None:
    parts: re.Pattern[str] = generated()["PART"]  # type: ignore[assignment]
    found = sorted(match[1] for page in PAGES for match in parts.finditer(read(page)))
    assert found == sorted(generated()["GENERATED"])  # type: ignore[call-overload]
    assert not [page.name for page in PAGES if re.search("^:::", read(page), re.MULTILINE)]


def test_llms_txt_lists_every_page_by_url() -> None:
    lines = re.findall(r"^- \[[^]]+\]\(([^)]+)\): \S", read(DOCS / "llms.txt"), re.MULTILINE)
    whole: str = generated()["RAW"]  # type: ignore[assignment]
    assert sorted(lines) == sorted(f"{whole}{page.name}" for page in PAGES[1:])


MESSAGES = re.findall(r"^> `(?:` )?(.+?)(?: `)?`$", read(DOCS / "troubleshooting.md"), re.MULTILINE)


@cache
def texts() -> list[str]:
    """All texts of the source; what is filled in is a NUL."""
    plain = [node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    filled = [
        [str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values]
        for node in nodes()
        if isinstance(node, ast.JoinedStr)
    ]
    return [*plain, *map("".join, filled)]


def is_example_of(message: str, text: str) -> bool:
    """Whether the message is a part of the text, or the whole text with something filled in."""
    if len(text.replace("\0", "")) < 12 or "\0" not in text:
        return message in text
    return bool(re.fullmatch(".*?".join(map(re.escape, text.split("\0"))), message))


def test_troubleshooting_messages_are_in_source() -> None:
    assert len(MESSAGES) >= 30
    assert [message for message in MESSAGES if not any(is_example_of(message, text) for text in texts())] == []


def test_images_are_small() -> None:
    for image in (DOCS / "images").iterdir():
        assert 0 < image.stat().st_size < 200_000, image.name


def test_images_are_current() -> None:
    images = runpy.run_path(str(DOCS / "scripts" / "images.py"))
    assert images["stale"]() == [], "run python docs/scripts/images.py, and look at what it made"


def test_every_image_is_used() -> None:
    texts = "".join(map(read, PAGES))
    assert [path.name for path in (DOCS / "images").glob("*.[!j]*") if f"images/{path.name})" not in texts] == []


REPLACED = {
    r"folders?": "directory",
    r"pictures?": "image, screenshot",
    r"sitters?": "supervisor",
    r"notch(?:es)?": "wheel clicks",
    r"anew": "again, re-record",
    r"(?:some|any)body": "user, other process",
    r"by (?:it|them)sel(?:f|ves)": "automatically, on its own",
    r"spoilt": "malformed",
    r"mended": "fixed",
    r"stand-ins?": "fake server",
    r"vocabular(?:y|ies)": "toolset",
    r"volatile|endless(?:ly)?": "dynamic, always changing",
    r"never tried|not tried": "untested",
    r"goes on|went on": "continues",
    r"of y?our own": "custom",
    r"told": "reported",
    r"a yes": "approval",
    r"in circles": "repeats actions",
    r"glances?": "raw frame",
    r"reckon(?:s|ed)?": "estimate",
    r"dialects?": "tool format",
    r"thoughts": "reasoning",
    r"movers?|unrest": "moving region, motion",
    r"spellings?|spelt": "format, alias",
    r"foregone": "always true",
    r"orders on the screen": "prompt injection",
    r"strangers?": "untrusted source",
    r"heeds?": "follow",
}
"""Terms of this project's past, as patterns, with the standard term to write; code is left out."""
PAST = re.compile(rf"\b(?:{'|'.join(REPLACED)})\b", re.IGNORECASE)


def test_texts_use_standard_terms() -> None:
    """Pages, errors, options' help, prompts and docstrings: every text of several words."""
    for page, prose in PROSE.items():
        terms = PAST.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", " ", prose))
        assert terms == [], f"{page.name}: see REPLACED for the term to write"
    found = {text for text in texts() if " " in text and PAST.search(re.sub("`[^`]*`", " ", text))}
    assert sorted(found) == [], "see REPLACED for the term to write"


def helps(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The help of a parser's options and commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from (str(choice.help) for choice in action._choices_actions)
            for command in action.choices.values():
                yield from helps(command)
        elif action.dest != "help":  # argparse words this one
            yield str(action.help)


def test_help_is_a_capital_and_at_most_100_characters(pytestconfig: pytest.Config) -> None:
    inis = {name: entry[0] for name, entry in pytestconfig._parser._inidict.items() if name.startswith("vnc_")}
    options = [option for group in pytestconfig._parser._groups for option in group.options]
    ours = [option.attrs()["help"] for option in options if option.dest.startswith("vnc_")]
    assert inis
    assert ours
    assert [text for text in (*inis.values(), *ours, *helps(cli.parser())) if not re.match("[A-Z].{3,99}$", text)] == []


@pytest.mark.slow
def test_site_builds_with_llms_texts(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install -e '.[docs]'")
    pytest.importorskip("mcp", reason="mcp is not installed: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert read(tmp_path / "llms.txt") == read(DOCS / "llms.txt")
    assert [page.name for page in PAGES[1:] if not (tmp_path / page.name).is_file()] == []
    assert "pytest_vnc_run_end(item: pytest.Item, run: RunFigures)" in read(tmp_path / "llms-full.txt")
    assert "\n:::" not in read(tmp_path / "llms-full.txt")
    assert "doc-signature" in read(tmp_path / "api" / "index.html")
    assert "VNC_USE_GATE_SECONDS" in read(tmp_path / "llms-full.txt")
    assert "VNC_USE_GATE_SECONDS" in read(tmp_path / "configuration" / "index.html")
