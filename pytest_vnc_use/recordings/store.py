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
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from pydantic import ValidationError

from pytest_vnc_use.backends.pixels import box_of
from pytest_vnc_use.deadline import acquire
from pytest_vnc_use.errors import RecordingError
from pytest_vnc_use.files import read_regular
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.recordings import AGAIN
from pytest_vnc_use.recordings.format import (
    FORMAT,
    VERSION,
    Recording,
    Screen,
    named_screens,
    screens,
    with_screens,
)
from pytest_vnc_use.recordings.gates import mask_of, surroundings
from pytest_vnc_use.recordings.images import (
    Chain,
    Mask,
    Pixels,
    changed_tiles,
    pixels_of,
    same_image,
    size_of,
    webp_of,
)
from pytest_vnc_use.runs.directory import write_atomically
from pytest_vnc_use.runs.json_lines import load_json
from pytest_vnc_use.types import JsonObject, Region

DIRECTORY = "__vnc_recordings__"
BEFORE, AFTER = Path("proposed", "before.json"), Path("proposed", "after.json")
"""In a run directory: the text of the recording that was replayed, and the recording as a model has healed it in CI."""
_MAX_NAME = 100
_LOCK_S = 60.0
_LFS_POINTER = b"version https://git-lfs"
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)
_MAX_VALUE = 300
MAX_MASKED = 0.5
"""The largest share of a screen that masks may hide."""
RESTORE = f"take it back from version control, or {AGAIN}"


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
        return self.module.parent / DIRECTORY / self.module.stem / f"{_file_name(self.test)}.json"

    @property
    def node_id(self) -> str:
        """The test as it is named on the command line, from the working directory."""
        module = self.module
        with suppress(ValueError):  # it is elsewhere
            module = module.relative_to(Path.cwd())
        return "::".join([str(module), *self.test.split("::")[1:]])


def _file_name(test: str) -> str:
    """Return the test's name in characters that every file system takes; with a digest where that changes the name."""
    name = test.partition("::")[2].replace("::", ".") or test
    safe = re.sub(r"[^A-Za-z0-9_.=,+\[\]-]", "_", name)[:_MAX_NAME]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def text_of(recording: Recording) -> str:
    """Return the text of a recording's file: JSON, with one line for each step and each claim."""

    def object_of(fields: JsonObject, indent: str) -> str:
        lines = [f'\n{indent}  "{name}": {value_of(name, value, indent + "  ")}' for name, value in fields.items()]
        return "{" + ",".join(lines) + f"\n{indent}}}"

    def value_of(name: str, value: Any, indent: str) -> str:
        if name not in ("runs", "steps", "claims", "history") or not value:
            return json.dumps(value, ensure_ascii=False)
        inner = indent + "  "
        items = [object_of(item, inner) if name == "runs" else json.dumps(item, ensure_ascii=False) for item in value]
        return f"[\n{inner}" + f",\n{inner}".join(items) + f"\n{indent}]"

    content = recording.model_dump(mode="json", exclude_defaults=True)
    return object_of({"format": FORMAT, "version": VERSION, **content}, "") + "\n"


def parse(text: str, where: str) -> Recording:
    """Return the recording in a file's text; `where` names the file. Raises RecordingError."""
    if _CONFLICT.search(text):
        raise RecordingError(
            f"{where} holds the conflict marks of a merge: take one side of it and of its images (git checkout "
            f"--ours or --theirs), or {AGAIN}"
        )
    try:
        data = load_json(text.encode())
    except (ValueError, RecursionError) as exc:
        raise RecordingError(f"{where} is truncated or not JSON: {exc}; {RESTORE}") from exc
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RecordingError(f'{where} is not a recording: "format" must be {FORMAT!r}; {RESTORE}')
    if type(version := data.get("version")) is not int:
        raise RecordingError(f'{where} is damaged: "version" must be a number, got {version!r}; {RESTORE}')
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
        got = cut(repr(first["input"]), _MAX_VALUE)
        raise RecordingError(f"{where} is damaged: {place}: {first['msg']}, got {got}; {RESTORE}") from exc


def load(path: Path) -> Recording | None:
    """Return the recording at `path`, its images read and checked; None where there is none. Raises RecordingError."""
    try:
        text = read_regular(path).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise RecordingError(f"{str(path)!r} cannot be read: {exc}; {RESTORE}") from exc
    return _with_pixels(parse(text, repr(str(path))), path)


def load_of(key: Key) -> Recording | None:
    """Return the recording of a test; None where there is none.

    Raises RecordingError, also where the names of the test's parameters or secrets have changed.
    """
    recording = load(key.path)
    # it may have another test's name: that is how a renamed test keeps its recording
    if recording and (recording.parameters, recording.secrets) != (key.parameters, key.secrets):
        names = "{!r} with parameters {} and secrets {}".format
        recorded_names = names(recording.test, list(recording.parameters), list(recording.secrets))
        test_names = names(key.test, list(key.parameters), list(key.secrets))
        raise RecordingError(f"{str(key.path)!r} belongs to {recorded_names}, but this test is {test_names}; {AGAIN}")
    return recording


def _with_pixels(recording: Recording, path: Path) -> Recording:
    """Return the recording whose screens decode their images when asked; all images are read and checked at once."""
    for run in recording.runs:
        for image in filter(None, (*(step.target for step in run.steps), run.image)):  # these are for readers only
            _read_image(path, image)

    def read(image: str, box: Region | None, at: tuple[int, int] = (0, 0)) -> bytes:
        """Return an image that must have the size of a box, or lie on the screen."""
        content = _read_image(path, image)
        try:
            width, height = size_of(content)
        except ValueError as exc:
            raise RecordingError(f"{image!r} of {str(path)!r} is not an image: {exc}; {RESTORE}") from exc
        due = (box.right - box.left, box.bottom - box.top) if box else recording.screen_size
        if (width, height) != due if box else at[0] + width > due[0] or at[1] + height > due[1]:
            what = f"{width} x {height} pixels at {at} are not {'what its region has' if box else 'on the screen'}"
            raise RecordingError(f"{image!r} of {str(path)!r} does not fit: {what}; {RESTORE}")
        return content

    def with_pixels(screen: Screen) -> Screen:
        parts = []
        for part in screen.dynamic:
            loads = [lru_cache(1)(partial(pixels_of, read(variant.image, part.region))) for variant in part.variants]
            variants = (v.model_copy(update={"pixels": load}) for v, load in zip(part.variants, loads, strict=True))
            parts.append(part.model_copy(update={"variants": tuple(variants)}))
        return screen.model_copy(update={"dynamic": tuple(parts), "pixels": partial(chain.pixels, next(numbers))})

    stored = [(screen.image, screen.at) for screen in screens(recording)]
    changes = [(read(image, None, at) if image else b"", at) for image, at in stored]
    chain, numbers = Chain(recording.screen_size, changes), count()
    return with_screens(recording, with_pixels)


def _read_image(path: Path, image: str) -> bytes:
    source = path.with_suffix("") / image
    try:
        content = read_regular(source)
    except OSError as exc:
        raise RecordingError(f"an image of {str(path)!r} cannot be read: {exc}; {RESTORE}") from exc
    if content.startswith(_LFS_POINTER):
        raise RecordingError(f"{str(source)!r} is a pointer of Git LFS, not an image. Run git lfs pull")
    if _digest(content) not in image:
        raise RecordingError(f"{str(source)!r} is damaged: its digest is not in its name; {RESTORE}")
    return content


def _digest(image: bytes) -> str:
    return hashlib.sha256(image).hexdigest()[:12]


def check_writable(path: Path) -> None:
    """Raise RecordingError where no recording can be written at `path`; make nothing."""
    for directory in (path.parent, path.with_suffix("")):
        nearest = next(parent for parent in (directory, *directory.parents) if os.path.lexists(parent))
        try:
            tempfile.TemporaryFile(dir=nearest).close()
        except OSError as exc:
            raise RecordingError(
                f"the recording {str(path)!r} cannot be written, so nothing is done: {exc}; {str(nearest)!r} must be a "
                "directory in which you may make files"
            ) from exc


def save(path: Path, recording: Recording) -> bool:
    """Write a recording, images first, and remove other images; return whether its file changed.

    Raises RunDirectoryUnwritable; OSError if the directory cannot be made or read, or if another process holds the lock
    for 60 s.
    """
    with _locked(path):
        directory = path.with_suffix("")
        recording, images = _with_images(recording, directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in images.items():
            if not (directory / name).exists():
                write_atomically(directory / name, content, opener=None)
        text = text_of(recording).encode()
        is_other = not path.exists() or path.read_bytes() != text
        if is_other:
            write_atomically(path, text, opener=None)
        kept = {directory / name for name in (*images, *(change.image for change in recording.history))}
        for stale in set(directory.glob("*.webp")) - kept:
            stale.unlink(missing_ok=True)
        return is_other


def _with_images(recording: Recording, directory: Path) -> tuple[Recording, dict[str, bytes]]:
    """Return the recording with the names of its images, and these by name.

    An image that is in the directory already stays as it is, also where another libwebp would encode it differently.
    """
    former = {file.name.rpartition("-")[0]: file.read_bytes() for file in directory.glob("*.webp")}
    images: dict[str, bytes] = {}
    before = np.zeros(recording.screen_size[::-1], np.uint32)
    names = (name for name, _ in named_screens(recording))

    def add(name: str, pixels: Pixels, visible: Mask | None = None) -> str:
        content = webp_of(pixels, visible)
        if former.get(name, content) != content and same_image(former[name], content):
            content = former[name]
        image = f"{name}-{_digest(content)}.webp"
        images[image] = content
        return image

    def with_image(screen: Screen) -> Screen:
        nonlocal before
        name, now, parts = next(names), screen.pixels(), []
        for number, part in enumerate(screen.dynamic, 1):
            variants = []
            for place, variant in enumerate(part.variants, 1):
                image = add(f"{name}-part{number}-variant{place}", variant.pixels())
                variants.append(variant.model_copy(update={"image": image}))
            parts.append(part.model_copy(update={"variants": tuple(variants)}))
        visible, before = changed_tiles(before, now), now
        image, at = "", (0, 0)
        if visible.any():
            box = box_of(visible)
            image, at = add(name, box.part_of(now), box.part_of(visible)), (box.left, box.top)
        return screen.model_copy(update={"dynamic": tuple(parts), "image": image, "at": at})

    recording, runs, history = with_screens(recording, with_image), [], []
    for number, run in enumerate(recording.runs, 1):
        steps = []
        for place, step in enumerate(run.steps, 1):
            boxes = surroundings(step.action, recording.screen_size)[:1]
            target = [add(f"{number}-{place:02}-target", box.part_of(step.screen.pixels())) for box in boxes]
            steps.append(step.model_copy(update={"target": "".join(target)}))
        image = add(f"{number}-end", run.end.pixels())
        runs.append(run.model_copy(update={"steps": tuple(steps), "image": image}))
    for change in recording.history:
        pixels = change.pixels()
        history.append(change.model_copy(update={"image": add("accepted", pixels)}) if pixels.size else change)
    return recording.model_copy(update={"runs": tuple(runs), "history": tuple(history)}), images


def add_masks(path: Path, masks: Sequence[Region]) -> bool:
    """Add masks to a recording's file, whose images stay; return whether it changed. Raises as `load` and `save` do."""
    with _locked(path):
        recording = load(path)
        if recording is None:
            raise RecordingError(f"there is no recording at {str(path)!r}")
        width, height = recording.screen_size
        for mask in masks:
            if not mask.is_part_of(Region(0, 0, width, height)):
                raise RecordingError(
                    f"the region {mask} is not on the screen of {str(path)!r}, which is {width}x{height}"
                )
        new = [mask for mask in masks if mask not in recording.masks]
        share = float(mask_of((*recording.masks, *new), (height, width)).mean())
        if new and share > MAX_MASKED:
            raise RecordingError(
                f"the masks of {str(path)!r} would hide {share:.0%} of the screen, the maximum is {MAX_MASKED:.0%}: "
                "mask only what changes on its own"
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
    paths, wanted = sorted((module_path.parent / DIRECTORY / module_path.stem).glob("*.json")), []
    for path in paths if name else ():
        recorded, called = parse(path.read_text(encoding="utf-8"), repr(str(path))).test, f"{module_path.name}::{name}"
        if path.stem == _file_name(called) or f"{recorded}[".startswith((f"{called}[", f"{called}::")):
            wanted.append(path)
    if not (selected := wanted if name else paths):
        have = ", ".join(path.stem for path in paths) or "nothing"
        raise RecordingError(f"there is no recording of {test!r} beside {str(module_path)!r}; recorded there: {have}")
    return selected


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
