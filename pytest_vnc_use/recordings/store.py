"""The files of a recording: their places and text, and how one process at a time reads and writes all of them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from pydantic import ValidationError

from pytest_vnc_use.deadline import acquire
from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.recordings import AGAIN
from pytest_vnc_use.recordings.format import (
    FORMAT,
    VERSION,
    Accepted,
    DynamicRegion,
    Evidence,
    RecordedRun,
    RecordedStep,
    Recording,
    Screen,
    Variant,
    is_part_of,
    screens,
    with_screens,
)
from pytest_vnc_use.recordings.gates import mask_of, surroundings
from pytest_vnc_use.recordings.images import Chain, Pixels, change, pixels_of, same_picture, size_of, webp_of
from pytest_vnc_use.runs.folder import write_atomically
from pytest_vnc_use.runs.json_lines import load_json
from pytest_vnc_use.types import JsonObject, Region
from pytest_vnc_use.types.actions import DEEPEST, is_shallow

FOLDER = "__vnc_recordings__"
_LONGEST_NAME = 100
_LOCK_S = 60.0
_LFS_POINTER = b"version https://git-lfs"
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)
_LONGEST_VALUE = 300
MAX_MASKED = 0.5
"""The largest share of a screen that masks may hide."""
ANEW = f"take it back from version control, or {AGAIN}"


@dataclass(frozen=True)
class Key:
    """The test that a recording belongs to, with its parameters and secrets.

    A recording also belongs to its tasks and its screen's size. `test` is pytest's name for the test; `module` is its
    file. The names of parameters and secrets are sorted.
    """

    module: Path
    test: str
    parameters: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The path of the recording, beside the module: `__vnc_recordings__/<module>/<test>.json`."""
        return self.module.parent / FOLDER / self.module.stem / f"{_file_name(self.test)}.json"

    @property
    def node_id(self) -> str:
        """The test as it is named on the command line, from the working directory."""
        module = self.module
        with suppress(ValueError):  # it is elsewhere
            module = module.relative_to(Path.cwd())
        return "::".join([str(module), *self.test.split("::")[1:]])

    def belongs(self, recording: Recording) -> bool:
        """Return whether a recording at this path has parameters and secrets of these names.

        It may have another test's name: that is how a renamed test keeps its recording.
        """
        return (recording.parameters, recording.secrets) == (self.parameters, self.secrets)


def _file_name(test: str) -> str:
    """Return the test's name in characters that every file system takes; with a digest where that changes the name."""
    name = test.partition("::")[2].replace("::", ".") or test
    safe = re.sub(r"[^A-Za-z0-9_.=,+\[\]-]", "_", name)[:_LONGEST_NAME]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def text_of(recording: Recording) -> str:
    """Return the text of a recording's file: JSON, with one line for each step and each claim."""
    content = recording.model_dump(mode="json", exclude_defaults=True)
    return _object({"format": FORMAT, "version": VERSION, **content}, "") + "\n"


def _object(fields: JsonObject, indent: str) -> str:
    inner = indent + "  "
    lines = [f'{inner}"{name}": {_value(name, value, inner)}' for name, value in fields.items()]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _value(name: str, value: Any, indent: str) -> str:
    if name not in ("runs", "steps", "claims", "history") or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + "  "
    items = [_object(item, inner) if name == "runs" else json.dumps(item, ensure_ascii=False) for item in value]
    return f"[\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}]"


def parse(text: str, where: str) -> Recording:
    """Return the recording in a file's text; `where` names the file. Raises RecordingError."""
    if _CONFLICT.search(text):
        raise RecordingError(
            f"{where} holds the conflict marks of a merge: take one side of it and of its pictures (git checkout "
            f"--ours or --theirs), or {AGAIN}"
        )
    try:
        data = load_json(text.encode())
    except (ValueError, RecursionError) as exc:
        raise RecordingError(f"{where} is cut off, or no JSON: {exc}; {ANEW}") from exc
    if not is_shallow(data, 2 * DEEPEST):  # a recorded value may be DEEPEST deep itself, and is nested in other levels
        raise RecordingError(f"{where} is damaged: it is more than {2 * DEEPEST} levels of JSON deep; {ANEW}")
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RecordingError(f'{where} is no recording: "format" must be {FORMAT!r}; {ANEW}')
    if type(version := data.get("version")) is not int:
        raise RecordingError(f'{where} is damaged: "version" must be a number, got {version!r}; {ANEW}')
    if version != VERSION:
        age, remedy = ("a newer", f"upgrade pytest-vnc-use, or {AGAIN}") if version > VERSION else ("an older", AGAIN)
        raise RecordingError(
            f"{where} was written by {age} pytest-vnc-use: its version is {version}, this one reads {VERSION}; {remedy}"
        )
    try:
        return Recording.model_validate(data)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        parts = "".join(f" {part + 1}" if isinstance(part, int) else f", {part}" for part in first["loc"])
        place = parts.removeprefix(", ") or "it"  # as `runs 1, steps 2, action`, counted from 1
        got = cut(repr(first["input"]), _LONGEST_VALUE)
        raise RecordingError(f"{where} is damaged: {place}: {first['msg']}, got {got}; {ANEW}") from exc


def load(path: Path) -> Recording | None:
    """Return the recording at `path`, its pictures checked; None where there is none. Raises RecordingError."""
    try:
        text = read_regular(path).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise RecordingError(f"{str(path)!r} cannot be read: {exc}; {ANEW}") from exc
    recording = parse(text, repr(str(path)))
    _check_pictures(recording, path)
    return _with_pixels(recording, path)


def load_of(key: Key) -> Recording | None:
    """Return the recording of a test; None where there is none.

    Raises RecordingError, also where the names of the test's parameters or secrets have changed.
    """
    recording = load(key.path)
    if recording and not key.belongs(recording):
        names = "{!r} with parameters {} and secrets {}".format
        theirs = names(recording.test, list(recording.parameters), list(recording.secrets))
        ours = names(key.test, list(key.parameters), list(key.secrets))
        raise RecordingError(f"{str(key.path)!r} belongs to {theirs}, but this test is {ours}; {AGAIN}")
    return recording


def former_of(key: Key) -> Recording | None:
    """Return the recording of a test that a new one replaces, if it can be read. Its masks and history outlive it."""
    try:
        return load(key.path)
    except RecordingError:
        return None


def _check_pictures(recording: Recording, path: Path) -> None:
    """Raise RecordingError where a picture is missing, damaged, or of the wrong size."""

    @lru_cache(None)
    def size(name: str) -> tuple[int, int]:
        try:
            return size_of(_load_picture(path, name))
        except ValueError as exc:
            raise RecordingError(f"{name!r} of {str(path)!r} is no picture: {exc}; {ANEW}") from exc

    def check(name: str, due: tuple[int, int]) -> None:
        if size(name) != due:
            raise RecordingError(f"{name!r} of {str(path)!r} must have {due[0]} x {due[1]} pixels; {ANEW}")

    for screen in screens(recording):
        if screen.image:
            (width, height), (left, top) = size(screen.image), screen.at
            if left + width > recording.screen_size[0] or top + height > recording.screen_size[1]:
                what = f"{width} x {height} pixels at {screen.at} are not on the screen"
                raise RecordingError(f"{screen.image!r} of {str(path)!r} does not fit: {what}; {ANEW}")
        for part in screen.dynamic:
            for variant in part.variants:
                check(variant.image, (part.right - part.left, part.bottom - part.top))
    shown = [step.near for run in recording.runs for step in run.steps] + [each.image for each in recording.history]
    for name in filter(None, shown):
        size(name)
    for run in recording.runs:
        if run.image:
            check(run.image, recording.screen_size)


def _load_picture(path: Path, name: str) -> bytes:
    source = path.with_suffix("") / name
    try:
        picture = read_regular(source)
    except OSError as exc:
        raise RecordingError(f"a picture of {str(path)!r} cannot be read: {exc}; {ANEW}") from exc
    if picture.startswith(_LFS_POINTER):
        raise RecordingError(f"{str(source)!r} is a pointer of Git LFS and no picture yet: run git lfs pull")
    if _digest(picture) not in name:
        raise RecordingError(f"{str(source)!r} is damaged: its digest is not in its name; {ANEW}")
    return picture


def _digest(picture: bytes) -> str:
    return hashlib.sha256(picture).hexdigest()[:12]


def _with_pixels(recording: Recording, path: Path) -> Recording:
    """Return the recording with screens that load their pixels."""
    changes = [(screen.image, screen.at) for screen in screens(recording)]
    chain = Chain(recording.screen_size, partial(_load_picture, path), changes)
    numbers = iter(range(len(changes)))

    def with_pixels(screen: Screen) -> Screen:
        parts = tuple(_with_variants(part, path) for part in screen.dynamic)
        return screen.model_copy(update={"dynamic": parts, "pixels": partial(_pixels, chain, next(numbers), path)})

    return with_screens(recording, with_pixels)


def _with_variants(part: DynamicRegion, path: Path) -> DynamicRegion:
    if not part.variants:
        return part
    variants = [
        variant.model_copy(update={"pixels": lru_cache(1)(partial(_variant, variant, path))})
        for variant in part.variants
    ]
    return part.model_copy(update={"variants": tuple(variants)})


def _variant(variant: Variant, path: Path) -> Pixels:
    try:
        return pixels_of(_load_picture(path, variant.image))
    except OSError as exc:  # Pillow raises it for a file that is no picture
        raise RecordingError(f"a picture of {str(path)!r} does not fit: {exc}; {ANEW}") from exc


def _pixels(chain: Chain, number: int, path: Path) -> Pixels:
    try:
        return chain.pixels(number)
    except (ValueError, OSError) as exc:  # Pillow raises OSError for a file that is no picture
        raise RecordingError(f"a picture of {str(path)!r} does not fit: {exc}; {ANEW}") from exc


def check_writable(path: Path) -> None:
    """Raise RecordingError where no recording can be written at `path`; make nothing."""
    for folder in (path.parent, path.with_suffix("")):
        nearest = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
        try:
            tempfile.TemporaryFile(dir=nearest).close()
        except OSError as exc:
            raise RecordingError(
                f"the recording {str(path)!r} cannot be written, so nothing is done: {exc}; {str(nearest)!r} must be a "
                "folder in which you may make files"
            ) from exc


def save(path: Path, recording: Recording) -> bool:
    """Write a recording, pictures first, and remove other pictures; return whether its file changed.

    Raises RunFolderUnwritable; OSError if the folder cannot be made or read, or if another process holds the lock for
    60 s.
    """
    with _locked(path):
        return _save(path, recording)


def add_masks(path: Path, masks: Sequence[Region]) -> bool:
    """Add masks to a recording's file, whose images stay; return whether it changed. Raises as `load` and `save` do."""
    with _locked(path):
        recording = load(path)
        if recording is None:
            raise RecordingError(f"there is no recording at {str(path)!r}")
        width, height = recording.screen_size
        for mask in masks:
            if not is_part_of(mask, Region(0, 0, width, height)):
                raise RecordingError(f"{mask} is not on the screen of {str(path)!r}, which is {width}x{height}")
        new = [mask for mask in masks if mask not in recording.masks]
        share = float(mask_of((*recording.masks, *new), (height, width)).mean())
        if new and share > MAX_MASKED:
            raise RecordingError(
                f"the masks of {str(path)!r} would hide {share:.0%} of the screen, the maximum is {MAX_MASKED:.0%}: "
                "mask only what changes by itself"
            )
        if not new:
            return False
        text = text_of(recording.model_copy(update={"masks": (*recording.masks, *new)}))
        write_atomically(path, text.encode(), opener=None)
        return True


def recordings_of(test: str) -> list[Path]:
    """Return the recordings that a node ID names: of a test, all its parameters, a class or a file; or one file's path.

    Raises RecordingError if there are none.
    """
    if test.endswith(".json"):
        return [Path(test)]
    module, _, name = test.partition("::")
    module_path = Path(module).resolve()
    found = [
        path
        for path in sorted((module_path.parent / FOLDER / module_path.stem).glob("*.json"))
        if not name or _is_of(path, f"{module_path.name}::{name}")
    ]
    if not found:
        raise RecordingError(f"there is no recording of {test!r} beside {str(module_path)!r}")
    return found


def _is_of(path: Path, test: str) -> bool:
    recorded = parse(path.read_text(encoding="utf-8"), repr(str(path))).test
    return path.stem == _file_name(test) or recorded == test or recorded.startswith((f"{test}[", f"{test}::"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:16]
    lock = Path(tempfile.gettempdir(), f"vnc-use-recording-{name}.lock")
    with acquire(FileLock(lock, mode=0o600), _LOCK_S):
        try:
            yield
        finally:
            with suppress(OSError):  # Windows removes no open file: there the lock removes it on release
                lock.unlink()


def _save(path: Path, recording: Recording) -> bool:
    album = _Album(path.with_suffix(""))
    text = text_of(album.packed(recording))
    folder = path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in album.pictures.items():
        if not (folder / name).exists():
            write_atomically(folder / name, picture, opener=None)
    is_other = not path.exists() or path.read_bytes() != text.encode()
    if is_other:
        write_atomically(path, text.encode(), opener=None)
    kept = {folder / name for name in (*album.pictures, *(each.image for each in recording.history))}
    for stale in set(folder.glob("*.webp")) - kept:
        stale.unlink(missing_ok=True)
    return is_other


class _Album:
    """The pictures of a recording by name, made one after the other, each from the difference to the screen before.

    A picture that is in the directory already stays as it is, also where another libwebp would encode it another way.
    """

    def __init__(self, folder: Path) -> None:
        self.pictures: dict[str, bytes] = {}
        self._former = {file.name.rpartition("-")[0]: file for file in folder.glob("*.webp")}
        self._before: Pixels | None = None

    def packed(self, recording: Recording) -> Recording:
        """Return the recording with the names of its pictures. `pictures` holds them then."""
        claims = tuple(self._claim(each, f"0-claim{number}") for number, each in enumerate(recording.claims, 1))
        runs = tuple(self._run(run, number) for number, run in enumerate(recording.runs, 1))
        history = tuple(map(self._accepted, recording.history))
        return recording.model_copy(update={"claims": claims, "runs": runs, "history": history})

    def _accepted(self, change: Accepted) -> Accepted:
        pixels = change.pixels()
        image = self._add("accepted", webp_of(pixels)) if pixels.size else change.image
        return change.model_copy(update={"image": image})

    def _run(self, run: RecordedRun, number: int) -> RecordedRun:
        steps = tuple(self._step(step, f"{number}-{place:02}") for place, step in enumerate(run.steps, 1))
        end = self._screen(run.end, f"{number}-last")
        picture = self._add(f"{number}-end", webp_of(run.end.pixels()))
        claims = tuple(self._claim(each, f"{number}-claim{place}") for place, each in enumerate(run.claims, 1))
        return run.model_copy(update={"steps": steps, "end": end, "image": picture, "claims": claims})

    def _step(self, step: RecordedStep, name: str) -> RecordedStep:
        screen, pixels = self._screen(step.screen, f"{name}-screen"), step.screen.pixels()
        transient_screens = enumerate(step.transients, 1)
        transients = tuple(self._screen(each, f"{name}-transient{place}") for place, each in transient_screens)
        boxes = surroundings(step.action, (pixels.shape[1], pixels.shape[0]))
        near = webp_of(pixels[boxes[0].top : boxes[0].bottom, boxes[0].left : boxes[0].right]) if boxes else b""
        named = self._add(f"{name}-near", near) if near else ""
        return step.model_copy(update={"screen": screen, "near": named, "transients": transients})

    def _claim(self, evidence: Evidence, name: str) -> Evidence:
        return evidence.model_copy(update={"screen": self._screen(evidence.screen, name)})

    def _screen(self, screen: Screen, name: str) -> Screen:
        now = screen.pixels()
        parts = tuple(self._dynamic(part, f"{name}-part{place}") for place, part in enumerate(screen.dynamic, 1))
        screen = screen.model_copy(update={"dynamic": parts})
        before = np.zeros_like(now) if self._before is None else self._before
        self._before = now
        changed = change(before, now)
        if changed is None:
            return screen.model_copy(update={"image": "", "at": (0, 0)})
        picture, at = changed
        return screen.model_copy(update={"image": self._add(name, picture), "at": at})

    def _dynamic(self, part: DynamicRegion, name: str) -> DynamicRegion:
        variants = tuple(
            variant.model_copy(update={"image": self._add(f"{name}-variant{place}", webp_of(variant.pixels()))})
            for place, variant in enumerate(part.variants, 1)
        )
        return part.model_copy(update={"variants": variants})

    def _add(self, name: str, picture: bytes) -> str:
        former = self._former.get(name)
        if former and _digest(picture) not in former.name and same_picture(former.read_bytes(), picture):
            picture = former.read_bytes()
        named = f"{name}-{_digest(picture)}.webp"
        self.pictures[named] = picture
        return named
