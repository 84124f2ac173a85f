"""The pages of docs/, README and CONTRIBUTING: their commands, snippets, links, names
and messages are real.
"""

from __future__ import annotations

import ast
import configparser
import re
import runpy
import shlex
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest
import yaml

from pytest_vnc_use import cli, errors
from pytest_vnc_use.cli.target import browser_command
from pytest_vnc_use.plugin.toml import read_task_file
from pytest_vnc_use.safety.policy_file import explain, load_policy
from pytest_vnc_use.settings.layers import read_value
from pytest_vnc_use.settings.settings import ENVIRONMENT_PREFIX, FIELDS
from pytest_vnc_use.triage import RULES
from support.paths import ROOT
from support.vnc_servers import require

tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
# an sdist has none
WITH_CONTRIBUTING = [*PAGES, *([CONTRIBUTING] if CONTRIBUTING.exists() else [])]
OF_EXAMPLES = sorted(ROOT.glob("examples/*/README.md"))
WITH_LINKS = [
    *WITH_CONTRIBUTING,
    *OF_EXAMPLES,
    ROOT / "CHANGELOG.md",
    ROOT / "tests" / "bench" / "README.md",
]
EXTERNAL = {
    "https://developers.google.com/style",
    "https://docs.pypi.org/trusted-publishers/",
    "https://github.com/Edison-Watch/desktest",
    "https://github.com/OpenAdaptAI/openadapt-flow",
    "https://github.com/tester-army/e2e",
    "https://keepachangelog.com/en/1.1.0/",
    "https://open.qa",
    "https://playwright.dev",
    "https://semver.org/spec/v2.0.0.html",
    "https://testdriver.ai",
    "https://ubuntu.com/docs/yarf/latest/",
}
"""All links to pages of others. Nothing fetches them: look at a new one yourself."""
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
    found = []
    for page in pages:
        for match in BLOCK.finditer(read(page)):
            _, language, text = match.groups()
            found.append(Block(page, language, textwrap.dedent(text)))
    return found


BLOCKS = blocks(WITH_CONTRIBUTING)
# any block, also one with a title
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
PROSE = {page: FENCE.sub("", read(page)) for page in WITH_CONTRIBUTING}


def every(language: str, holding: str = "") -> pytest.MarkDecorator:
    """Run a test with each block of a language, or with those that hold a text."""
    found = [
        block
        for block in BLOCKS
        if block.language == language and holding in block.text
    ]
    ids = [f"{block.page.stem}-{number}" for number, block in enumerate(found)]
    return pytest.mark.parametrize("block", found, ids=ids)


def option(config: pytest.Config, word: str) -> object:
    return config.getoption(
        word.split("=", maxsplit=1)[0].lstrip("-").replace("-", "_"), default="no"
    )


def test_python_snippets_are_collected(pytester: pytest.Pytester) -> None:
    snippets = [
        block
        for block in BLOCKS
        if block.language == "python" and "import pytest\n" in block.text
    ]
    names = (
        f"test_{number}_{block.page.stem}" for number, block in enumerate(snippets)
    )
    pytester.makepyfile(
        **dict(zip(names, (block.text for block in snippets), strict=True))
    )
    result = pytester.runpytest_subprocess(
        "--collect-only", "-q", "--strict-markers", "--import-mode=importlib"
    )
    assert result.ret is pytest.ExitCode.OK, result.stdout.str()


def test_other_python_snippets_import_names_that_exist() -> None:
    for block in BLOCKS:
        if block.language == "python" and "import pytest\n" not in block.text:
            assert not re.search(r"\bpytest\.", block.text), (
                f"{block} uses pytest, and does not import it"
            )
            body = ast.parse(block.text, block.page.name).body
            imports = [node for node in body if isinstance(node, ast.ImportFrom)]
            ours = [
                node for node in imports if str(node.module).startswith("pytest_vnc")
            ]
            exec(compile(ast.Module(list(ours), []), block.page.name, "exec"), {})


@every("toml")
def test_toml_snippet_is_read_as_what_it_is(tmp_path: Path, block: Block) -> None:
    snippet = tomllib.loads(block.text)
    file = tmp_path / "test_shop.vnc.toml"
    file.write_text(block.text, encoding="utf-8")
    if "test" in snippet:
        assert [test.name for test in read_task_file(file)] == [
            "basket[apples]",
            "basket[pears]",
        ]
    if "rule" in snippet:
        explained = explain(load_policy(str(file)))
        assert [
            rule for rule in snippet["rule"] if repr(rule["name"]) not in explained
        ] == []


@every("ini")
def test_ini_snippet_has_valid_settings(block: Block) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(block.text)
    for name, text in parser["pytest"].items():
        if name.startswith("vnc_"):
            read_value(name.removeprefix("vnc_"), text, name)


@every("ini", "vnc_server = xvnc\n")
def test_xvnc_snippet_shows_its_program(
    pytester: pytest.Pytester, block: Block
) -> None:
    for program in ("Xtigervnc", re.search(r"vnc_app = (\S+)", block.text)[1]):  # type: ignore[index]
        require(program)
    as_root = block.text.replace("--kiosk", "--kiosk --no-sandbox")
    pytester.makefile(".ini", pytest=as_root)
    if home := re.search(r"vnc_home = (\S+)", block.text):
        pytester.mkdir("tests")
        pytester.mkdir(home[1])
        (pytester.path / home[1] / ".nanorc").touch()
    pytester.makepyfile("def test_it(vnc_agent): assert vnc_agent.screenshot()")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


@every("yaml")
def test_yaml_snippet_has_valid_options(
    block: Block, pytestconfig: pytest.Config
) -> None:
    assert yaml.safe_load(block.text)
    for word in re.findall(r"--vnc-[a-z-]+", block.text):
        assert option(pytestconfig, word) != "no", word


def commands(*names: str) -> list[str]:
    """The lines of the shell that begin so, each once."""
    found = []
    for block in [*BLOCKS, *blocks(OF_EXAMPLES)]:
        if block.language in ("bash", "console"):
            found += block.text.replace("\\\n", " ").splitlines()
    lines = [line.strip().removeprefix("$ ") for line in found]
    return list(dict.fromkeys(line for line in lines if line.startswith(names)))


@pytest.mark.parametrize("line", commands("cua-vnc"))
def test_cua_vnc_command_parses(line: str) -> None:
    cli.parser().parse_args(shlex.split(line, comments=True)[1:])


@pytest.mark.parametrize("line", commands("pytest", "python -m pytest"))
def test_pytest_command_has_valid_options(
    line: str, pytestconfig: pytest.Config
) -> None:
    for word in shlex.split(line, comments=True):
        name, equals, value = word.partition("=")
        if name.startswith("--vnc-"):
            assert option(pytestconfig, name) != "no", name
        if equals and name.startswith("--vnc-"):
            read_value(name.removeprefix("--vnc-").replace("-", "_"), value, name)


@pytest.mark.parametrize("page", WITH_CONTRIBUTING, ids=lambda page: page.stem)
def test_named_options_settings_extras_and_files_exist(
    page: Path, pytestconfig: pytest.Config
) -> None:
    """Files of this project: a test in `tests/` itself is the reader's."""
    text = " ".join(read(page).split())
    project = tomllib.loads(read(ROOT / "pyproject.toml"))
    extras = project["project"]["optional-dependencies"]
    scripts = project["tool"]["hatch"]["envs"]["default"]["scripts"]
    # one is of an option that has gone
    without_messages = re.sub(r"^> `.*$", "", read(page), flags=re.MULTILINE)
    options = re.findall(r"--vnc-[a-z]+(?:-[a-z]+)*", without_messages)
    assert [name for name in options if option(pytestconfig, name) == "no"] == []
    assert {*re.findall(r"(?:pytest-vnc-use|\.)\[([a-z]+)\]", text)} <= {*extras}
    assert {*re.findall(r"-o ?vnc_([a-z_]+)", text)} <= {*FIELDS}
    variables = {
        name.lower()
        for name in re.findall(rf"{ENVIRONMENT_PREFIX}([A-Z_]+)", PROSE[page])
    }
    assert variables <= {*FIELDS, "password", "api_key", "name"}
    assert {*re.findall(r"hatch run (\w+)", text)} <= {*scripts}
    files = re.findall(
        r"(?:tests/\w+|docs|examples|pytest_vnc_use)/[\w/.]*\.(?:py|sh|toml|md)", text
    )
    files += [
        f"tests/bench/{name}.py"
        for name in re.findall(r"tests/bench/run\.py ([a-z_]+)", text)
    ]
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_web_page_options_equal_those_of_init() -> None:
    assert f"vnc_app = {browser_command()} http" in read(DOCS / "web-pages.md")


@cache
def generated() -> dict[str, object]:
    return runpy.run_path(str(DOCS / "scripts" / "generated.py"))


@cache
def anchors(page: Path) -> set[str]:
    return {
        slug(line.lstrip("# "))
        for line in read(page).splitlines()
        if line.startswith("#")
    }


def slug(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def links(page: Path) -> Iterator[tuple[str, str]]:
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", read(page))):
        path, _, anchor = target.partition("#")
        yield path, anchor


def broken(page: Path, path: str, anchor: str) -> bool:
    """Return whether a link of a page leads to no file, heading or known URL."""
    if path.startswith("https://") and not path.startswith(SOURCE):
        return path not in EXTERNAL
    target = page.parent / path if path else page
    if path.startswith(SOURCE):
        target = ROOT / re.sub(r"^(?:blob|tree)/main/", "", path.removeprefix(SOURCE))
    if not target.exists():
        return True
    return bool(anchor) and anchor not in anchors(target)


@pytest.mark.parametrize(
    "page", WITH_LINKS, ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_and_anchors_exist(page: Path) -> None:
    assert [link for link in links(page) if broken(page, *link)] == []


def test_external_links_are_listed_once_used() -> None:
    used = set()
    for page in WITH_LINKS:
        used |= {path for path, _ in links(page)}
    assert EXTERNAL - used == set()


MAX_WORDS = {"docs": 24_000, "README.md": 650, "CONTRIBUTING.md": 900}
MAX_PAGES = 19
MAX_CHANGELOG_LINES = 125


def words(*pages: Path) -> int:
    return sum(len(read(page).split()) for page in pages)


def test_pages_are_no_longer_than_a_reader_takes() -> None:
    pages = PAGES[1:]
    counted = {"docs": words(*pages), "README.md": words(PAGES[0])}
    if CONTRIBUTING.exists():
        counted["CONTRIBUTING.md"] = words(CONTRIBUTING)
    assert {name for name in counted if counted[name] > MAX_WORDS[name]} == set()
    assert len(pages) <= MAX_PAGES
    assert len(read(ROOT / "CHANGELOG.md").splitlines()) <= MAX_CHANGELOG_LINES


def test_layers_in_contributing_are_those_of_import_linter() -> None:
    project = tomllib.loads(read(ROOT / "pyproject.toml"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    section = read(CONTRIBUTING).partition("## Where things are")[2].partition("\n## ")
    assert re.findall(r"^- `([^`]+)`: ", section[0], re.MULTILINE) == layers


def files_of(*patterns: str) -> list[Path]:
    """Return the project's files that match a pattern."""
    found = chain.from_iterable(map(ROOT.glob, patterns))
    return [path for path in found if path.is_file()]


def test_nothing_installs_from_pypi_before_release() -> None:
    """Once there is a release, this test goes."""
    files = files_of("docs/*.md", "examples/**/*", ".github/**/*.yml")
    command = re.compile(r"pip install (?:[^\n]*[\s\"'])?pytest-vnc-use(?!\S* @)")
    texts = {path: path.read_text("utf-8", "replace") for path in [*files, PAGES[0]]}
    assert [path.name for path, text in texts.items() if command.search(text)] == []


@cache
def nodes() -> list[ast.AST]:
    found: list[ast.AST] = []
    for path in (ROOT / "pytest_vnc_use").rglob("*.py"):
        found += ast.walk(ast.parse(read(path)))
    return found


def test_error_tree_has_every_class_below_its_base() -> None:
    (tree,) = re.findall(
        r"^```text\n(VncUseError\n.*?)^```$",
        read(DOCS / "api.md"),
        re.MULTILINE | re.DOTALL,
    )
    above = ["VncUseError"]
    found = {"VncUseError"}
    for branch, name in re.findall(r"^([│ ]*[├└]── )(\w+)", tree, re.MULTILINE):
        depth = len(branch) // 4
        above[depth:] = [name]
        assert getattr(errors, above[depth - 1]) in getattr(errors, name).__bases__, (
            name
        )
        found.add(name)
    classes = {value for value in vars(errors).values() if isinstance(value, type)}
    assert found == {
        each.__name__ for each in classes if issubclass(each, errors.VncUseError)
    }


def test_triage_rules_are_in_reports_page() -> None:
    page = read(DOCS / "reports.md")
    for rule in RULES:
        assert f"| {rule.when} |" in page, rule.when


def test_generated_parts_are_current() -> None:
    stale = [
        path.name
        for path, text in generated()["current"]().items()
        if read(path) != text
    ]  # type: ignore[operator]
    assert stale == [], REGENERATE


def test_llms_txt_lists_every_page_by_url() -> None:
    lines = re.findall(
        r"^- \[[^]]+\]\(([^)]+)\): \S", read(DOCS / "llms.txt"), re.MULTILINE
    )
    whole: str = generated()["RAW"]  # type: ignore[assignment]
    assert sorted(lines) == sorted(f"{whole}{page.name}" for page in PAGES[1:])


MESSAGES = re.findall(
    r"^> `(?:` )?(.+?)(?: `)?`$", read(DOCS / "troubleshooting.md"), re.MULTILINE
)


@cache
def texts() -> list[str]:
    """All texts of the source; what is filled in is a NUL."""
    found = []
    for node in nodes():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            text = ""
            for part in node.values:
                text += str(part.value) if isinstance(part, ast.Constant) else "\0"
            found.append(text)
    return found


def is_example_of(message: str, text: str) -> bool:
    """Whether the message is a part of the text, or the whole text with something
    filled in.
    """
    if len(text.replace("\0", "")) < 12 or "\0" not in text:
        return message in text
    return bool(re.fullmatch(".*?".join(map(re.escape, text.split("\0"))), message))


def test_troubleshooting_messages_are_in_source() -> None:
    assert len(MESSAGES) >= 25
    assert [
        message
        for message in MESSAGES
        if not any(is_example_of(message, text) for text in texts())
    ] == []


def test_images_are_current() -> None:
    images = runpy.run_path(str(DOCS / "scripts" / "images.py"))
    assert images["stale"]() == [], (
        "run python docs/scripts/images.py, and look at what it made"
    )


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
    r"persons?|people": "user, manual",
    r"nobody|whoever": "no user, other process",
    r"carr(?:y|ies|ied) out": "perform, run",
    r"moments?": "time, timestamp",
    r"faults?": "failure, error",
    r"said": "stated, confirmed",
    r"let go": "release",
    r"swallows?": "suppress",
    r"surely": "always",
    r"at rest": "stable",
    r"eyes and hands": "screen capture and input",
    r"attended": "manual",
    r"cascad(?:es?|ing)": "layers",
    r"hears?|heard": "receive",
    r"seal(?:s|ed)?": "checksum",
    r"wish(?:es)?": "setting, request",
    r"lanes?|rooms": "test suites, packages",
    r"sittings?": "session",
}
"""Terms of this project's past, as patterns, with the standard term to write; code is
left out.
"""
PAST = re.compile(rf"\b(?:{'|'.join(REPLACED)})\b", re.IGNORECASE)


def test_texts_use_standard_terms() -> None:
    """Pages, errors, options' help, prompts and docstrings: every text of several
    words.
    """
    others = files_of(
        "pytest_vnc_use/**/*.j2",
        "pytest_vnc_use/ui/page/*.[hj]*",
        "docs/images/*.svg",
        "examples/**/README.md",
        "CHANGELOG.md",
    )
    assert len(others) > 20
    for page, prose in [
        *PROSE.items(),
        *((path, FENCE.sub("", read(path))) for path in others),
    ]:
        terms = PAST.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", " ", prose))
        assert terms == [], f"{page.name}: see REPLACED for the term to write"
    found = {
        text
        for text in texts()
        if " " in text and PAST.search(re.sub("`[^`]*`", " ", text))
    }
    assert sorted(found) == [], "see REPLACED for the term to write"
