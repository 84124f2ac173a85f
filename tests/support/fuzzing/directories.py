"""Run directories and recordings that strangers made, and images that are bombs."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from PIL import Image

from pytest_vnc_use import types as t
from pytest_vnc_use.cli.policy import replay_rulings
from pytest_vnc_use.demonstrate.codegen import proposed_test
from pytest_vnc_use.errors import RunDirectoryError
from pytest_vnc_use.recordings.format import screens
from pytest_vnc_use.recordings.store import FILE, load
from pytest_vnc_use.report.annotate import mark_action
from pytest_vnc_use.report.results import figures_of
from pytest_vnc_use.runs.directory import RunDirectory, read_exchanges, read_trace
from pytest_vnc_use.runs.transcript import line_of, summary_of
from pytest_vnc_use.safety.policy_file import load_policy
from pytest_vnc_use.settings.settings import Settings
from support.agents import agent_of
from support.fuzzing.trial import Target, Try, hostile, mutated, mutated_json
from support.judges import Says
from support.memory_desktop import SIZE, ListPlanner, PaintedController, act, finished
from support.paths import EXAMPLES

_RECORDED = EXAMPLES / "__vnc_recordings__" / "test_shop" / "test_sign_in" / FILE
_ACTIONS: tuple[t.Action, ...] = (
    t.Click(1, 2),
    t.Drag(1, 2, 3, 4),
    t.Scroll(5, 5, "down"),
    t.TypeText("hello", 3, 4),
    t.KeyCombo(("ctrl", "a")),
    t.CallFunction("f", {"a": [1]}),
)
_READ = ("exchanges.jsonl", "trace.jsonl", "trace.jsonl")


def _png(width: int, height: int, data: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n"
    for kind, content in ((b"IHDR", head), (b"IDAT", data), (b"IEND", b"")):
        crc = struct.pack(">I", zlib.crc32(kind + content))
        png += struct.pack(">I", len(content)) + kind + content + crc
    return png


def _saved(form: str) -> bytes:
    file = BytesIO()
    Image.new("RGB", (40, 30), (0, 0, 99)).save(file, form)
    return file.getvalue()


@cache
def _images() -> tuple[bytes, ...]:
    """Return images of all kinds: plain ones, broken ones, and bombs of 60 MB."""
    bomb = zlib.compress(bytes(60_000_000), 9)
    return (
        *map(_saved, ("PNG", "GIF", "WEBP", "TIFF")),
        *(_png(side, side, bomb) for side in (65535, 6_000, 4)),
        _png(2**31 - 1, 1, b""),
    )


def _any_image(random: Random) -> bytes:
    image = random.choice(_images())
    return mutated(random, image) if random.random() < 0.3 else image


def _replace_by_oddity(random: Random, path: Path) -> None:
    """Put something into the place of a file that is no file with that content."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    elsewhere = path.parent.parent / "elsewhere"
    target = random.choice(("/dev/zero", "/etc/passwd", path.name, elsewhere))
    random.choice(
        (lambda: os.mkfifo(path), path.mkdir, lambda: path.symlink_to(target))
    )()


def _write_run(runs: Path) -> Path:
    turns = []
    for action in _ACTIONS:
        proposal = t.Proposal(action, "why", {"name": "x", "args": {"x": 1}})
        turns.append(act(proposal, text="words"))
    with agent_of(
        Settings(runs_dir=str(runs), watch=False),
        planner=ListPlanner([*turns, finished()]),
        judge=Says(),
        controller=PaintedController(),
        can_ask=False,
        test_id="a.py::b",
    ) as agent:
        path = agent.run("Open the basket", expect="it is open").run_dir
    directory = RunDirectory(path)
    sent = {"messages": [{"a": 1}]}
    directory.append(
        t.ModelExchange(
            "planner", 1, sent, {"b": 2}, 0.5, usage=t.Usage(3), dollars=0.1
        )
    )
    directory.append(
        t.ApprovalRequest(7, t.Proposal(t.Click(1, 1), "why"), t.Ruling("ask", "rule"))
    )
    return path


def _change_lines(random: Random, file: Path) -> None:
    lines = file.read_bytes().split(b"\n")
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines))
        try:
            lines[at] = json.dumps(mutated_json(random, json.loads(lines[at]))).encode()
        except (ValueError, RecursionError):
            lines[at] = mutated(random, lines[at])
    file.write_bytes(b"\n".join(lines))


def _change_image(random: Random, run: Path) -> None:
    """Put an image into the run, under a name that is right for it, in the place of
    another.
    """
    old = random.choice([*(run / "screens").iterdir()])
    new = _any_image(random)
    trace = run / "trace.jsonl"
    digest = hashlib.sha256(new).hexdigest()
    text = trace.read_text("utf-8", "replace").replace(old.stem, digest)
    if new[:4] == b"\x89PNG" and random.random() < 0.8:
        size = struct.unpack(">II", new[16:24].ljust(8, b"\0"))
        shown = '"width":{},"height":{}'
        text = text.replace(shown.format(*SIZE), shown.format(*size))
    trace.write_text(text)
    (run / "screens" / f"{digest}.png").write_bytes(new)


def _malform(random: Random, run: Path) -> None:
    file = run / random.choice(_READ)
    match random.randrange(6):
        case 0:
            file.write_bytes(mutated(random, file.read_bytes()))
        case 1:
            _change_image(random, run)
        case 2:
            _replace_by_oddity(random, random.choice((file, run / "screens")))
        case _:
            _change_lines(random, file)


@contextmanager
def _runs(directory: Path) -> Iterator[Try]:
    seed = _write_run(directory / "seed")

    def attempt(random: Random) -> None:
        with TemporaryDirectory(dir=directory) as place:
            run = Path(place, "run")
            shutil.copytree(seed, run)
            _malform(random, run)
            _read_run(random, run)

    yield attempt


def _read_run(random: Random, run: Path) -> None:
    line_of(run)
    figures_of(run)
    with suppress(RunDirectoryError):
        read_trace(run, [])
    with suppress(RunDirectoryError):
        list(read_exchanges(run))
    list(replay_rulings(load_policy("strict"), run))
    trace = read_trace(run)
    summary_of(trace)
    ast.parse(proposed_test(trace, "a_test"))
    if trace.steps:
        step = random.choice(trace.steps)
        mark_action(RunDirectory(run).load_png(step.frame_before), step.proposal.action)


@contextmanager
def _recordings(directory: Path) -> Iterator[Try]:
    seed = json.loads(_RECORDED.read_text("utf-8"))

    def attempt(random: Random) -> None:
        with TemporaryDirectory(dir=directory) as place:
            file = Path(place, "a", FILE)
            shutil.copytree(_RECORDED.parent, file.parent)
            _malform_recording(random, file, seed)
            recording = load(file)
            for screen in screens(recording) if recording else ():
                screen.pixels()
                for region in screen.dynamic:
                    for variant in region.variants:
                        variant.pixels()

    yield attempt


def _malform_recording(random: Random, file: Path, seed: object) -> None:
    text = json.dumps(seed)
    image = random.choice(sorted(file.parent.glob("*.webp")))
    match random.randrange(6):
        case 0 | 1:
            text = json.dumps(mutated_json(random, seed))
        case 2:
            text = mutated(random, text.encode()).decode("utf-8", "replace")
        case 3:
            new = _any_image(random)
            text = text.replace(_short_digest(image.read_bytes()), _short_digest(new))
            image.write_bytes(new)
        case 4:
            _replace_by_oddity(random, image)
        case _:
            name = str(hostile(random))[:300].replace('"', "").replace("\\", "")
            text = text.replace(image.name, name)
    file.write_bytes(text.encode("utf-8", "replace"))
    if random.random() < 0.03:
        _replace_by_oddity(random, file)


def _short_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


TARGETS = (
    Target("run directories", _runs, 150, most_s=20.0),
    Target("recordings", _recordings, 100, most_s=20.0),
)
