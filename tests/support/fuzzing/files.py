"""Files that strangers made: policies, prices, tasks, results, ledgers, action traces."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from pytest_vnc_use.agent.budget import load_prices
from pytest_vnc_use.plugin.toml import read_task_file
from pytest_vnc_use.report.results import ItemResult, RunFigures, read_results, session_results, write_results
from pytest_vnc_use.report.sessions import merged
from pytest_vnc_use.report.summaries import lines
from pytest_vnc_use.runs.uitask_trace import read_execution
from pytest_vnc_use.safety.policy_file import load_policy
from support.fuzzing.mutations import any_text, mutated, mutated_json, text_of
from support.fuzzing.trial import Target, Try

POLICIES = (
    b"""on_deny = "end"
[[rule]]
name = "no destructive keys"
decision = "deny"
keys = "ctrl+alt+delete"
[[rule]]
name = "no deleting"
decision = "deny"
text = 'rm\\s+-rf'
on_deny = "continue"
[[rule]]
name = "paying"
decision = "allow"
category = "FINANCIAL_*"
explanation = "(?i)checkout"
region = [0, 0, 1440, 800]
action = "click*"
test = "*::test_checkout*"
task = "test shop"
""",
    b'extends = "strict"\naddresses = ["shop.example", "localhost:8080", "[::1]:5"]\n',
)
PRICES = b"""dated = 2026-01-02
[[price]]
models = ["a-model", "b"]
from = 2025-01-02
input = 1.5
cached = 0.2
output = 10
image_tokens = 1500
"""
TASKS = b"""app = "python shop"
[[test]]
name = "basket"
task = ["Sign in as alice", "add two {fruit} <secret:SHOP>"]
expect = ["the basket shows 2 {fruit}"]
steps = 20
seconds = 3.5
secrets = ["SHOP"]
parameters = { fruit = ["apples", "pears"], n = [1, 2.5, true] }
[[test]]
name = "other"
task = "look"
expect = false
"""
EXECUTION = [
    {"action": "click_at", "params": {"x": 1, "y": 2}, "number": 1, "name": "click", "screenshot": "screens/a.png"},
    {"action": "type_text", "params": {"text": "hello"}, "intent": "why"},
    {"action": "key_combination", "params": {"keys": "ctrl+a"}, "task_marked_complete": None},
    {"action": "finish", "params": {"x": 1}, "task_marked_complete": True},
]


def _of_bytes(name: str, read: Callable[[Path], object], *seeds: bytes) -> Callable[[Path], Iterator[Try]]:
    def opened(directory: Path) -> Iterator[Try]:
        file = directory / name

        def attempt(random: Random) -> None:
            file.write_bytes(mutated(random, random.choice(seeds)))
            read(file)

        yield attempt

    return opened


def _of_json(
    name: str, read: Callable[[Path], object], make: Callable[[Path], object]
) -> Callable[[Path], Iterator[Try]]:
    def opened(directory: Path) -> Iterator[Try]:
        file, seed = directory / name, make(directory)

        def attempt(random: Random) -> None:
            file.write_bytes(text_of(random, mutated_json(random, seed)))
            read(file)

        yield attempt

    return opened


def _results(directory: Path) -> object:
    run = RunFigures("runs/a", "a task", "done", steps=3, models=("m",), dollars=0.5)
    item = ItemResult("test_a.py::test_a", "failed", "product", "rule", "message", 1.5, (), (run,), 0.5)
    write_results(directory / "seed.json", session_results("2026-01-02", "2026-01-03", [item, item]))
    return json.loads((directory / "seed.json").read_text())


def _read_results(file: Path) -> None:
    read = read_results(file)
    lines(merged({"job": read, "other": read}, []))
    write_results(file.with_name("merged.json"), read)


def _paths(directory: Path) -> Iterator[Try]:
    """Try every reader of a file on paths of anything, and on what is no file."""
    readers = (load_policy, lambda path: load_prices(str(path)), read_task_file, read_results, read_execution)

    def attempt(random: Random) -> None:
        random.choice(readers)(directory / any_text(random))

    yield attempt


TARGETS = (
    Target("policy files", contextmanager(_of_bytes("policy.toml", load_policy, *POLICIES)), 300),
    Target("price files", contextmanager(_of_bytes("prices.toml", lambda path: load_prices(str(path)), PRICES)), 300),
    Target("task files", contextmanager(_of_bytes("test_a.vnc.toml", read_task_file, TASKS)), 300),
    Target("results", contextmanager(_of_json("vnc-results.json", _read_results, _results)), 300),
    Target("action traces", contextmanager(_of_json("execution.json", read_execution, lambda _: EXECUTION)), 300),
    Target("paths of files", contextmanager(_paths), 200),
)
