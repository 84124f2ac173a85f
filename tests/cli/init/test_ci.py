"""CI files: valid for the published schemas, the same as docs/ci.md shows, and their shell steps do what they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import check_jsonschema
import jsonschema
import pytest
import yaml

from pytest_vnc_use import cli
from pytest_vnc_use.cli.init.ci import PACKAGES, ci_files, command_in_image
from pytest_vnc_use.cli.init.project import Project, plan
from pytest_vnc_use.cli.init.questions import Answers
from pytest_vnc_use.cli.init.target import read_target
from support.ci_jobs import (
    SH,
    Machine,
    Runner,
    is_run,
    run_github,
    run_gitlab,
    run_jenkins,
    script_of,
    stages_of,
)
from support.gemini_server import GeminiServer, calls, text
from support.paths import PAD_LINE, ROOT
from support.vnc_servers import require, require_package, require_pyside

pytestmark = pytest.mark.slow

PROGRAMS = {
    "xvnc": "xterm",
    "page": "http://localhost:8000/",
    "qt": "viewer",
    "container": "container:shop xterm",
    "address": "winbox::5900",
}
SCHEMAS = {
    ".github/workflows/desktop-tests.yml": "github-workflows",
    ".gitlab/desktop-tests.yml": "gitlab-ci",
    ".gitlab-ci.yml": "gitlab-ci",
}
DOCS = ROOT / "docs" / "ci.md"


def files_of(ci: str, kind: str, folder: Path, shards: int = 1) -> dict[str, str]:
    return ci_files(ci, read_target(PROGRAMS[kind], "qt" if kind == "qt" else "", folder), folder, shards)


def check_schema(document: object, name: str) -> None:
    schemas = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.validators.validator_for(schema)(schema).validate(document)


def parsed(source: str) -> object:
    """The document as JSON has it: YAML 1.1 takes the key `on` for true."""
    return json.loads(json.dumps(yaml.safe_load(source)).replace('"true": {"push"', '"on": {"push"'))


# --- what they are ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("ci", ["github", "gitlab"])
def test_yaml_is_valid_for_the_published_schema(tmp_path: Path, ci: str, kind: str, shards: int) -> None:
    for path, source in files_of(ci, kind, tmp_path, shards).items():
        check_schema(parsed(source), SCHEMAS[path])


def test_the_composite_action_is_valid_for_the_published_schema() -> None:
    source = (ROOT / ".github" / "actions" / "replay" / "action.yml").read_text(encoding="utf-8")
    check_schema(yaml.safe_load(source), "github-actions")


def test_all_recipes_select_each_test_with_a_desktop() -> None:
    """Not `-m vnc_task`: that leaves out a test which only uses the fixtures."""
    places = [ROOT / ".github", ROOT / "docs", ROOT / "examples", ROOT / "pytest_vnc_use" / "cli" / "init"]
    files = [path for place in places for kind in ("yml", "yaml", "md", "j2") for path in place.rglob(f"*.{kind}")]
    chosen = [(each, path.name) for path in files for each in re.findall(r"pytest -m (\w+)", path.read_text("utf-8"))]
    assert len(chosen) > 10
    assert {word for word, _ in chosen} == {"vnc"}, chosen


ACTIONS = {
    "actions/checkout": "v7",
    "actions/setup-python": "v7",
    "actions/upload-artifact": "v7",  # archive: false is new there
    "actions/download-artifact": "v8",
    "actions/upload-pages-artifact": "v5",
    "actions/deploy-pages": "v5",
    "pypa/gh-action-pypi-publish": "release/v1",
    "pytest-vnc-use/pytest-vnc-use/.github/actions/replay": "main",
}
"""The newest version of each action in autumn 2026. All of them run on Node 24; GitHub has taken Node 20 away."""


def test_all_files_use_the_newest_actions() -> None:
    used = {}
    places = [ROOT / ".github", ROOT / "docs", ROOT / "examples", ROOT / "pytest_vnc_use" / "cli" / "init"]
    files = [path for place in places for kind in ("yml", "yaml", "md", "j2") for path in place.rglob(f"*.{kind}")]
    for path in [ROOT / "README.md", *files]:
        for action, version in re.findall(r"uses: ([^@\s]+)@(\S+)", path.read_text(encoding="utf-8")):
            used.setdefault(action, set()).add((version, path.name))
    old = {
        f"{action}@{version} in {name}"
        for action, all_of in used.items()
        for version, name in all_of
        if ACTIONS.get(action) != version
    }
    assert len(used) >= 6
    assert not old, f"give them the version of ACTIONS, which knows what is newest: {sorted(old)}"


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_jenkinsfile_is_balanced(tmp_path: Path, kind: str, shards: int) -> None:
    (source,) = files_of("jenkins", kind, tmp_path, shards).values()
    outside = "".join(re.split(r"'''.*?'''", re.sub(r"//.*", "", source), flags=re.DOTALL))
    assert outside.count("{") == outside.count("}")
    assert source.count("'''") % 2 == 0


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_jenkinsfile_gives_no_fork_the_key(tmp_path: Path, kind: str, shards: int) -> None:
    (source,) = files_of("jenkins", kind, tmp_path, shards).values()
    heal = source.split("stage('Heal')")[1].split("stage('Propose")[0]
    for why in ({"params": {"HEAL": True}}, {"by_timer": True}, {}):
        fork = {"CHANGE_ID": "7", "CHANGE_FORK": "them", "BRANCH_NAME": "PR-7", "LABELLED": "" if why else "yes"}
        assert not is_run(heal, fork, **why)
        assert is_run(heal, {**fork, "CHANGE_FORK": ""}, **why) != why.get("by_timer", False)
    assert source.count("GOOGLE_API_KEY', variable") == heal.count("GOOGLE_API_KEY', variable") == 1


@pytest.mark.parametrize(
    ("source", "own", "installed"),
    [
        ("import PyQt6", "", "pytest-vnc-use PyQt6"),
        ("import PySide6", "", '"pytest-vnc-use[demo]"'),
        ("import PyQt6", "PyQt6==6.9\n", "pytest-vnc-use -r requirements.txt"),
    ],
)
def test_the_jobs_and_the_command_for_their_image_install_the_programs_qt(
    tmp_path: Path, source: str, own: str, installed: str
) -> None:
    (tmp_path / "app.py").write_text(f"{source}\n")
    if own:
        (tmp_path / "requirements.txt").write_text(own)
    target = read_target("python app.py", "", tmp_path)
    for ci in ("github", "gitlab", "jenkins"):
        (written, *_) = ci_files(ci, target, tmp_path).values()
        assert re.search(rf"pip install {re.escape(installed)}\n +# install what your program needs here\n", written)
        assert "python -m pytest -m vnc -o vnc_qt_open=true --vnc-record=replay" in written  # jobs are in containers
    in_image = command_in_image(target, tmp_path, "python -m pytest")
    assert f"pip install -q {installed} && python -m pytest -o vnc_qt_open=true" in in_image


@pytest.mark.parametrize("ci", ["github", "gitlab", "jenkins"])
def test_docs_show_what_is_written(tmp_path: Path, ci: str) -> None:
    path, source = next(iter(files_of(ci, "xvnc", tmp_path).items()))
    blocks = re.findall(r"^```\w+ title=\"([^\"]+)\"\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.M | re.DOTALL)
    assert dict(blocks)[path] == source, f"docs/ci.md must show this as {path}:\n{source}"


@pytest.mark.parametrize("ci", ["github", "gitlab", "jenkins"])
def test_docs_show_the_jobs_of_four_shards(tmp_path: Path, ci: str) -> None:
    path, source = next(iter(files_of(ci, "xvnc", tmp_path, 4).items()))
    shown = re.findall(rf"^```\w+ title=\"{path}, 4 shards\"\n(.*?)^```$", DOCS.read_text("utf-8"), re.M | re.DOTALL)
    assert len(shown) == 1
    assert shown[0] in source, f"docs/ci.md must show a part of this:\n{source}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--shards", "0", "--ci", "github"], "--shards must be a whole number from 1 to 50, got '0'"),
        (["--shards", "4"], "--shards 4 needs a CI"),
        (["--shards", "4", "--ci", "gitlab", "--vnc", "winbox::5900"], "one desktop for all jobs"),
    ],
)
def test_a_number_of_shards_that_makes_no_sense_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", None)
    assert cli.main(["init", "xterm", "--task", "Type it", *words]) == 2
    assert told in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


# --- when they run ---------------------------------------------------------------------------------------------------

LABELLED = {"github.event_name": "pull_request", "github.event.action": "labeled", "github.repository": "us/shop"}
EVENTS = {
    "a push": ({"github.event_name": "push"}, {"replay"}),
    "a night": ({"github.event_name": "schedule"}, {"heal"}),
    "by hand": ({"github.event_name": "workflow_dispatch"}, {"heal"}),
    "a pull request": (
        {
            "github.event_name": "pull_request",
            "github.event.action": "opened",
            "github.event.pull_request.head.repo.full_name": "us/shop",
            "github.repository": "us/shop",
        },
        set(),  # the push of its branch was replayed
    ),
    "a fork's pull request": (
        {
            "github.event_name": "pull_request",
            "github.event.action": "opened",
            "github.event.pull_request.head.repo.full_name": "them/shop",
            "github.repository": "us/shop",
        },
        {"replay"},
    ),
    "the label": (
        {
            **LABELLED,
            "github.event.label.name": "heal-vnc",
            "github.event.pull_request.head.repo.full_name": "us/shop",
        },
        {"heal"},
    ),
    "the label on a fork": (
        {
            **LABELLED,
            "github.event.label.name": "heal-vnc",
            "github.event.pull_request.head.repo.full_name": "them/shop",
        },
        set(),
    ),
    "another label": (
        {**LABELLED, "github.event.label.name": "bug", "github.event.pull_request.head.repo.full_name": "us/shop"},
        set(),
    ),
}


@pytest.mark.parametrize("event", EVENTS)
def test_github_heals_at_night_by_hand_and_by_the_label_but_no_fork(tmp_path: Path, event: str) -> None:
    known, jobs = EVENTS[event]
    (source,) = files_of("github", "xvnc", tmp_path).values()
    assert "pull_request_target" not in source  # it would give a fork's code the secrets
    described = yaml.safe_load(source)["jobs"]
    run = {name for name, job in described.items() if value_on_github(job["if"], known)}
    assert run == jobs
    name = value_on_github(described["replay"]["name"].removeprefix("${{").removesuffix("}}").strip(), known)
    assert name == ("replay" if "replay" in jobs else "no replay")  # skipped it would count as passed


def value_on_github(expression: str, known: Mapping[str, str]) -> object:
    text = re.sub(r"github\.[\w.]+", lambda found: repr(known.get(found[0], "")), expression)
    return eval(text.replace("&&", "and").replace("||", "or"))


@pytest.mark.parametrize("event", EVENTS)
def test_github_names_the_job_that_merges_after_what_it_does(tmp_path: Path, event: str) -> None:
    known, jobs = EVENTS[event]
    (source,) = files_of("github", "xvnc", tmp_path, 4).values()
    merge = yaml.safe_load(source)["jobs"]["merge"]
    name = value_on_github(merge["name"].removeprefix("${{").removesuffix("}}").strip(), known)
    assert name == ("merge" if "replay" in jobs else "no merge")


MERGE_REQUEST = {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_PROJECT_ID": "1"}
PIPELINES = {
    "a push": ({"CI_PIPELINE_SOURCE": "push"}, {"replay": "on_success", "heal": "manual"}),
    "a night": ({"CI_PIPELINE_SOURCE": "schedule"}, {"heal": "on_success"}),
    "a merge request": ({**MERGE_REQUEST, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1"}, {}),
    "the label": (
        {**MERGE_REQUEST, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1", "CI_MERGE_REQUEST_LABELS": "bug,heal-vnc"},
        {"heal": "manual"},  # each push makes such a pipeline, so a person starts it
    ),
    "the label on a fork": (
        {**MERGE_REQUEST, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2", "CI_MERGE_REQUEST_LABELS": "heal-vnc"},
        {},
    ),
    "a longer label": (
        {**MERGE_REQUEST, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1", "CI_MERGE_REQUEST_LABELS": "no-heal-vnc"},
        {},
    ),
}


def jobs_on_gitlab(source: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return when each job runs."""

    def holds(condition: str) -> bool:
        text = re.sub(r"=~ /(.*?)/", r"in Matching(r'\1')", condition)
        text = re.sub(r"\$(\w+)", lambda found: repr(known.get(found[1])), text)
        return bool(eval(text.replace("&&", "and").replace("||", "or"), {"Matching": Matching}))

    run = {}
    for name in ("replay", "heal"):
        rules = yaml.safe_load(source)[f"{name}-desktop-tests"]["rules"]
        first = next(rule.get("when", "on_success") for rule in rules if holds(rule.get("if", "True")))
        run |= {name: first} if first != "never" else {}
    return run


WORKFLOW = """workflow:
  rules:

    # of merge requests only
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
test:
  script: make test
"""


@pytest.mark.parametrize(
    ("own", "is_replayed"),
    [
        (WORKFLOW, True),
        ("include:\n  - local: other.yml\n" + WORKFLOW, True),
        ("workflow:\n  name: x\n" + WORKFLOW.partition("\n")[2].replace("  rules:", "job:\n  rules:"), False),
        ("", False),
    ],
)
def test_a_merge_request_is_replayed_where_the_project_says_which_pipelines_there_are(
    tmp_path: Path, own: str, *, is_replayed: bool
) -> None:
    (tmp_path / ".gitlab-ci.yml").write_text(own)
    source = files_of("gitlab", "xvnc", tmp_path)[".gitlab/desktop-tests.yml"]
    check_schema(parsed(source), SCHEMAS[".gitlab/desktop-tests.yml"])
    merge_request, night = PIPELINES["a merge request"][0], PIPELINES["a night"][0]
    assert jobs_on_gitlab(source, merge_request) == ({"replay": "on_success"} if is_replayed else {})
    assert ("Not in a pipeline of a merge request" in source) != is_replayed
    assert jobs_on_gitlab(source, PIPELINES["a push"][0])["replay"] == "on_success"
    assert "replay" not in jobs_on_gitlab(source, night)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_gitlab_heals_at_night_by_hand_and_by_the_label_but_no_fork(tmp_path: Path, pipeline: str) -> None:
    known, jobs = PIPELINES[pipeline]
    source = files_of("gitlab", "xvnc", tmp_path)[".gitlab/desktop-tests.yml"]
    assert jobs_on_gitlab(source, known) == jobs


BUILDS = {
    "a push": ({"BRANCH_NAME": "buttons"}, {}, "Replay"),
    "a push of the default branch": ({"BRANCH_NAME": "main", "BRANCH_IS_PRIMARY": "true"}, {}, "Replay"),
    "a night": ({"BRANCH_NAME": "main", "BRANCH_IS_PRIMARY": "true"}, {"by_timer": True}, "Heal"),
    "a night of another branch": ({"BRANCH_NAME": "buttons"}, {"by_timer": True}, "Replay"),
    "a night of a job with one branch": ({}, {"by_timer": True}, "Heal"),
    "the parameter": ({"BRANCH_NAME": "buttons"}, {"params": {"HEAL": True}}, "Heal"),
    "a pull request": ({"BRANCH_NAME": "PR-7", "CHANGE_ID": "7", "LABELLED": "no"}, {}, "Replay"),
    "the label": ({"BRANCH_NAME": "PR-7", "CHANGE_ID": "7", "LABELLED": "yes"}, {}, "Heal"),
}


@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("build", BUILDS)
def test_jenkins_heals_at_night_by_hand_and_by_the_label(tmp_path: Path, build: str, shards: int) -> None:
    env, why, expected = BUILDS[build]
    (source,) = files_of("jenkins", "xvnc", tmp_path, shards).values()
    stages = stages_of(source)
    replay = "Replays" if shards > 1 else "Replay"
    run = {name for name in (replay, "Heal") if is_run(stages[name].partition("matrix {")[0], env, **why)}
    assert run == {replay if expected == "Replay" else expected}
    assert "triggers { cron(!env.BRANCH_NAME || env.BRANCH_IS_PRIMARY == 'true' ? 'H 3 * * *' : '') }" in source


@pytest.mark.parametrize(
    ("env", "asked"),
    [
        ({"BRANCH_NAME": "buttons"}, False),
        ({"BRANCH_NAME": "PR-7", "CHANGE_ID": "7"}, True),
        ({"BRANCH_NAME": "PR-7", "CHANGE_ID": "7", "CHANGE_FORK": "them"}, False),
    ],
)
def test_jenkins_asks_for_the_label_before_anything_of_the_project_runs(
    tmp_path: Path, env: dict[str, str], *, asked: bool
) -> None:
    (source,) = files_of("jenkins", "xvnc", tmp_path).values()
    first, *_ = stages_of(source)
    assert first == "Take the label"
    assert is_run(stages_of(source)[first], env) == asked


PULL = "https://github.com/us/shop/pull/7"


@pytest.mark.parametrize(
    ("url", "says", "told"),
    [
        (PULL, "200", "yes"),
        (PULL, "404", "no"),
        (PULL, "403", "no\nGitHub said 403 about the label heal-vnc: nothing is healed"),
        (PULL, "", "no\nGitHub said nothing about the label heal-vnc: nothing is healed"),
        ("https://git.test/us/shop/pull/7", "200", "no"),
    ],
)
def test_jenkins_takes_the_label_off_so_that_it_heals_once(
    tmp_path: Path, origin: Callable[[str], Path], url: str, says: str, told: str
) -> None:
    require("git")
    machine = Machine(tmp_path / "machine", origin("jenkins"))
    script = script_of(stages_of((machine.clone / "Jenkinsfile").read_text())["Take the label"])
    env = {"CHANGE_URL": url, "CHANGE_ID": "7", "GH_TOKEN": "secret", "CURL_SAYS": says}
    assert machine.run(SH, script, env) == 0
    assert machine.said.strip() == told
    label = "https://api.github.com/repos/us/shop/issues/7/labels/heal-vnc"
    sent = [f"curl -sS -m 30 -o /dev/null -w %{{http_code}} -X DELETE -H @- {label}"]
    assert machine.calls == (sent if url == PULL else [])
    assert "secret" not in machine.said


PARSE = """
import org.codehaus.groovy.control.*
args.each { name ->
  def unit = new CompilationUnit()
  unit.addSource(new File(name))
  unit.compile(Phases.CONVERSION)
}
"""


def test_groovy_reads_each_jenkinsfile(tmp_path: Path) -> None:
    if not shutil.which("groovy"):
        pytest.skip("groovy is not installed: apt-get install groovy")
    (tmp_path / "parse.groovy").write_text(PARSE)
    files = []
    for kind in PROGRAMS:
        for shards in (1, 4):
            (source,) = files_of("jenkins", kind, tmp_path, shards).values()
            files.append(tmp_path / f"{kind}-{shards}")
            files[-1].write_text(source)
    parse = ["groovy", str(tmp_path / "parse.groovy")]
    done = subprocess.run([*parse, *map(str, files)], capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    files[0].write_text(files[0].read_text() + "}")
    assert subprocess.run([*parse, str(files[0])], capture_output=True, timeout=400, check=False).returncode == 1


class Matching:
    """All texts that match a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __contains__(self, text: str | None) -> bool:
        return bool(re.search(self._pattern, text or ""))


def test_the_packages_are_debians() -> None:
    if not shutil.which("apt-cache"):
        pytest.skip("apt-cache is not installed: apt-get install apt")
    names = sorted({name for packages in PACKAGES.values() for name in packages} | {"git", "gh"})
    known = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True, timeout=400, check=True).stdout
    if "tigervnc-standalone-server" not in known.split():
        pytest.skip("apt has no list of packages here: apt-get update")
    assert not set(names) - set(known.split())


# --- what they do ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recipe:
    ci: str
    file: str
    run: Runner
    replay: str
    heal: str


RECIPES = [
    Recipe("github", ".github/workflows/desktop-tests.yml", run_github, "replay", "heal"),
    Recipe("gitlab", ".gitlab/desktop-tests.yml", run_gitlab, "replay-desktop-tests", "heal-desktop-tests"),
    Recipe("jenkins", "Jenkinsfile", run_jenkins, "Replay", "Heal,Propose the new recordings"),
]


@pytest.fixture
def origin(tmp_path: Path) -> Callable[[str], Path]:
    """A project of `cua-vnc init` with a Qt program, pushed to a repository of its own."""

    def make(ci: str, shards: int = 1) -> Path:
        project, bare = tmp_path / "project", tmp_path / "origin.git"
        project.mkdir()
        target = read_target(PAD_LINE, "qt", project)
        planned = plan(Answers(target, "Click into the middle", "model", ci, shards), Project.read(project))
        for file in planned.files:
            (project / file.path).parent.mkdir(parents=True, exist_ok=True)
            (project / file.path).write_text(file.text or "")
        test = project / "tests" / "test_first.py"
        test.write_text(
            test.read_text().replace("    pass", '    assert "press" in vnc_desktop.read_file("events.txt")')
        )
        (project / "requirements.txt").touch()  # the program is its own
        git = ["git", "-c", "user.name=us", "-c", "user.email=us@example.com"]
        subprocess.run(["git", "init", "-q", "-b", "main", "--bare", str(bare)], check=True)
        subprocess.run(["git", "config", "receive.advertisePushOptions", "true"], cwd=bare, check=True)
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=project, check=True)
        subprocess.run(["git", "add", "-A"], cwd=project, check=True)
        subprocess.run([*git, "commit", "-q", "-m", "first"], cwd=project, check=True)
        subprocess.run(["git", "push", "-q", str(bare), "main"], cwd=project, check=True)
        return bare

    return make


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.ci)
def test_heal_proposes_recordings_that_replay_without_a_key(
    tmp_path: Path, origin: Callable[[str], Path], model: Callable[..., GeminiServer], recipe: Recipe
) -> None:
    require("git")
    require_pyside()
    bare = origin(recipe.ci)
    holds = text(json.dumps({"reason": "it shows that", "verdict": "holds", "box_2d": None}))
    server = model(calls(("click", {"x": 500, "y": 500})), text("I clicked"), holds)
    secrets = {"GOOGLE_API_KEY": server.api_key, "GH_TOKEN": "token", "HEAL_TOKEN": "token"}
    subprocess.run(["git", "branch", "buttons", "main"], cwd=bare, check=True)
    healing = Machine(
        tmp_path / "healing", bare, {"GOOGLE_GEMINI_BASE_URL": server.url}, pull_request=7, branch="buttons"
    )
    assert recipe.run(healing, recipe.file, recipe.heal, secrets) == 0, healing.said
    assert "1 recording written" in healing.said
    branch = "heal-desktop-tests-7"
    listed = ["git", "ls-tree", "-r", "--name-only", branch]
    pushed = subprocess.run(listed, cwd=bare, capture_output=True, text=True, check=True).stdout
    assert "tests/__vnc_recordings__/test_first/test_first.json" in pushed
    assert "runs/" not in pushed
    if recipe.ci != "gitlab":
        assert any(call.startswith(f"gh pr create --head {branch} --base buttons --title") for call in healing.calls)
    subprocess.run(["git", "update-ref", "refs/heads/main", branch], cwd=bare, check=True)

    replaying = Machine(tmp_path / "replaying", bare)
    assert recipe.run(replaying, recipe.file, recipe.replay, {}) == 0, replaying.said
    assert "1 run planned by recording" in replaying.said
    assert (replaying.clone / "report.html").exists()


def test_without_a_recording_and_a_key_replay_fails(tmp_path: Path, origin: Callable[[str], Path]) -> None:
    require("git")
    require_pyside()
    recipe = RECIPES[0]
    machine = Machine(tmp_path / "machine", origin(recipe.ci))
    assert recipe.run(machine, recipe.file, recipe.replay, {}) == 1, machine.said
    assert "no recording" in machine.said
    summary = (machine.folder / "summary.md").read_text()
    assert "https://github.test/page#run-1)" in summary
    assert "All files: URL" in summary


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.ci)
def test_without_a_key_nothing_is_healed_and_nothing_fails(
    tmp_path: Path, origin: Callable[[str], Path], recipe: Recipe
) -> None:
    require("git")
    machine = Machine(tmp_path / "machine", origin(recipe.ci))
    assert recipe.run(machine, recipe.file, recipe.heal, {}) == 0, machine.said
    assert "nothing is healed" in machine.said
    assert not [call for call in machine.calls if call.startswith("gh")]


def test_a_test_that_cannot_be_healed_fails_the_job_after_the_others_were_proposed(
    tmp_path: Path, origin: Callable[[str], Path], model: Callable[..., GeminiServer]
) -> None:
    require("git")
    require_pyside()
    server = model(text("I cannot do that"))
    machine = Machine(tmp_path / "machine", origin("github"), {"GOOGLE_GEMINI_BASE_URL": server.url})
    secrets = {"GOOGLE_API_KEY": server.api_key}
    assert run_github(machine, RECIPES[0].file, "heal", secrets) == 1, machine.said
    assert "no recording has changed" in machine.said


UNSHOWN = """
import pytest

@pytest.mark.skip("no desktop is needed to be counted")
@pytest.mark.vnc_task("Click it")
def test_it(vnc_desktop): ...
"""
MERGES = {"github": "merge", "gitlab": "merge-desktop-tests", "jenkins": "Merge"}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.ci)
def test_shards_are_put_together_and_a_missing_one_is_told(
    tmp_path: Path, origin: Callable[..., Path], recipe: Recipe
) -> None:
    require("git")
    require_package("pytest_split")
    bare = origin(recipe.ci, shards=2)
    whole = Machine(tmp_path / "whole", bare)
    for shard in (1, 2):  # one of them has no test
        job = Machine(tmp_path / f"job-{shard}", bare, shard=shard)
        (job.clone / "tests" / "test_first.py").write_text(UNSHOWN)
        assert recipe.run(job, recipe.file, recipe.replay, {}) == 0, job.said
        shutil.copytree(job.clone / "shards", whole.clone / "shards", dirs_exist_ok=True)
    assert recipe.run(whole, recipe.file, MERGES[recipe.ci], {}) == 0, whole.said
    assert "1 skipped in 2 of 2 jobs: report/vnc-results.json" in whole.said
    assert (whole.clone / "report" / "index.html").exists()
    shutil.rmtree(whole.clone / "shards" / "2")
    assert recipe.run(whole, recipe.file, MERGES[recipe.ci], {}) == 1, whole.said
    assert "'shards/2' must have one vnc-results.json below it, it has none" in whole.said
