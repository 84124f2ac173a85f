"""The files of a recording: their places and text, and how one process at a time writes
all of them.

A recording is written as a new directory beside the old one, and takes its place by two
renames under a lock:

    test_basket.new~/    written completely
    test_basket/     ->  test_basket.old~/
    test_basket.new~/ -> test_basket/
    test_basket.old~/    removed

The next process that takes the lock completes what a killed one has left. A reader takes
the lock only if what it has read is not whole: then it waits for the writer, and reads
again.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from pydantic import ValidationError

from pytest_vnc_use.deadline import acquire
from pytest_vnc_use.errors import RecordingError, RunDirectoryUnwritable
from pytest_vnc_use.files import (
    check_out,
    explain_unreadable,
    read_regular,
    reason_of,
)
from pytest_vnc_use.plain_text import cut
from pytest_vnc_use.recordings import AGAIN
from pytest_vnc_use.recordings.format import (
    FORMAT,
    VERSION,
    Drawn,
    DynamicRegion,
    NamedScreen,
    Recording,
    Screen,
    Variant,
    drawn,
    named_screens,
    numbered,
    with_screens,
)
from pytest_vnc_use.recordings.images import Pixels, pixels_of, shows, size_of, webp_of
from pytest_vnc_use.recordings.masks import with_masks, with_values, without
from pytest_vnc_use.recordings.names import SHARED, name_in
from pytest_vnc_use.runs.directory import write_atomically
from pytest_vnc_use.runs.json_lines import load_json
from pytest_vnc_use.types import JsonObject, Region

DIRECTORY = "__vnc_recordings__"
FILE = "recording.json"
BEFORE = Path("proposed", "before.json")
"""In a run directory, the text of the recording that was replayed."""
AFTER = Path("proposed", "after", FILE)
"""Beside it, the recording as a model has healed it in CI."""
_MAX_NAME = 100
_PLAIN_NAME = re.compile(rf"[a-z0-9_.=,+\[\]-]{{1,{_MAX_NAME}}}(?<!\.)")
_DIGEST = re.compile(r"-[0-9a-f]{8}$")
_RESERVED_NAME = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)
"""Names that Windows gives to devices, with any suffix."""
_LISTS = ("segments", "steps", "claims")
"""The fields of a file that are lists with a line, or more, for each item."""
_DECODED = 4
"""The maximum recorded screens that stay decoded, so that memory is bounded."""
_LOCK_S = 60.0
_SWAPPED = "~"
"""The end of the names of directories that are being written. No recording's name has
it, and git ignores it for many users.
"""
_MAX_VALUE = 300
_RESTORE = f"take it back from version control, or {AGAIN}"


@dataclass(frozen=True)
class Key:
    """The test that a recording belongs to, with its parameters and secrets.

    A recording also belongs to its tasks and its screen's size. `test` is pytest's name
    for the test; `module` is its file. The names of parameters and secrets are sorted.

    A recording that several tests share has the test `shared::NAME`, and `shared` in
    the place of the file.
    """

    module: Path
    test: str
    parameters: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    @classmethod
    def of_name(cls, name: str, module: Path, root: Path) -> Key:
        """Return the key of the nearest recording of this name, from a test file's
        directory up to the root; where there is none, of one beside the test file.
        """
        beside = cls(module.parent / SHARED, f"{SHARED}::{name}")
        for directory in module.parents:
            key = replace(beside, module=directory / SHARED)
            if key.path.exists():
                return key
            if directory == root:
                break
        return beside

    @property
    def name(self) -> str:
        """The name that several tests know a recording by; "" for a test's own."""
        return name_in(self.test)

    @property
    def path(self) -> Path:
        """The file of the recording, beside the module:
        `__vnc_recordings__/<module>/<test>/recording.json`.
        """
        directory = self.module.parent / DIRECTORY / self.module.stem
        return directory / directory_name(self.test) / FILE

    @property
    def node_id(self) -> str:
        """The test as it is named on the command line, from the working directory."""
        module = self.module
        # A module outside the working directory keeps its whole path.
        with suppress(ValueError):
            module = module.relative_to(Path.cwd())
        return "::".join([str(module), *self.test.split("::")[1:]])


def directory_name(test: str) -> str:
    """Return the name of a test's recording: no two tests of a file share it, also on a
    disk that ignores case.

    A name of other characters than small letters ends in a digest of the test's.
    """
    name = test.partition("::")[2]
    path, bracket, parameters = name.partition("[")
    dotted = path.replace("::", ".") + bracket + parameters
    # a dot of the author's would look like the one between class and function
    is_plain = "." not in path and _PLAIN_NAME.fullmatch(dotted)
    if is_plain and not (_DIGEST.search(dotted) or _RESERVED_NAME.match(dotted)):
        return dotted
    safe = re.sub(r"[^A-Za-z0-9_.=,+\[\]-]", "_", dotted)[:_MAX_NAME]
    prefix = "_" if _RESERVED_NAME.match(safe) else ""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{prefix}{safe}-{digest[:8]}"


def without_digest(name: str) -> str:
    """Return a name that `directory_name` gave without its digest."""
    return _DIGEST.sub("", name)


def text_of(recording: Recording) -> str:
    """Return the text of a recording's file: JSON, with one line for each step and each
    claim.

    An empty line separates two of them, so that git merges changes of both. For the same
    reason the last ids are only there if none of the parts has them.
    """
    content = recording.model_dump(mode="json", exclude_defaults=True)
    last_ids = {"last_segment": recording.segments, "last_step": recording.steps}
    for name, parts in last_ids.items():
        highest = max((part.number for part in parts), default=0)
        if content.get(name) == highest:
            del content[name]
    fields = {"format": FORMAT, "version": VERSION, **content}
    return _object_text(fields, "") + "\n"


def _object_text(fields: JsonObject, indent: str) -> str:
    """Return an object with a line for each field; `indent` is that of its braces."""
    inner = indent + "  "
    lines = []
    for name, value in fields.items():
        is_list = name in _LISTS and bool(value)
        text = _list_text(name, value, inner) if is_list else _line_of(value)
        lines.append(f'\n{inner}"{name}": {text}')
    return "{" + ",".join(lines) + f"\n{indent}}}"


def _list_text(name: str, items: Sequence[Any], indent: str) -> str:
    """Return a list with a line for each item, but for tasks, which have more."""
    inner = indent + "  "
    texts = []
    for item in items:
        is_task = name == "segments"
        texts.append(_object_text(item, inner) if is_task else _line_of(item))
    separator = f",\n\n{inner}"
    return f"[\n{inner}{separator.join(texts)}\n{indent}]"


def _line_of(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def read_recording(path: Path) -> Recording:
    """Return the recording at `path` without its images. Raises RecordingError, and
    FileNotFoundError if there is none.
    """
    where = repr(str(path))
    try:
        content = read_regular(path)
    except FileNotFoundError as exc:
        older = _older_file(path)
        if older.exists():
            raise RecordingError(
                f"{str(older)!r} was written by an older pytest-vnc-use: this one reads"
                f" {str(path)!r}; {AGAIN}"
            ) from exc
        raise
    except OSError as exc:
        problem = reason_of(exc)
        raise RecordingError(f"{where} cannot be read: {problem}; {_RESTORE}") from exc
    try:
        data = load_json(content)
    except (ValueError, RecursionError) as exc:
        problem = explain_unreadable(content, "a recording", check_out(path))
        problem = problem or f"is not JSON: {exc}. {check_out(path)}"
        raise RecordingError(f"{where} {problem}, or {AGAIN}") from exc
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RecordingError(
            f'{where} is not a recording: "format" must be {FORMAT!r}; {_RESTORE}'
        )
    _check_version(where, data.get("version"))
    try:
        return numbered(Recording.model_validate(data))
    except ValidationError as exc:
        raise RecordingError(f"{where} is damaged: {_damage(exc)}; {_RESTORE}") from exc


def _older_file(path: Path) -> Path:
    """Return the file that had the recording before version 6, beside its images."""
    return path.parent.with_name(f"{path.parent.name}.json")


def _check_version(where: str, version: object) -> None:
    """Raise RecordingError for a file of another version of this format."""
    if type(version) is not int:
        raise RecordingError(
            f'{where} is damaged: "version" must be a number, got {version!r};'
            f" {_RESTORE}"
        )
    if version == VERSION:
        return
    if version > VERSION:
        age = "a newer"
        remedy = f"upgrade pytest-vnc-use, or {AGAIN}"
    else:
        age = "an older"
        remedy = AGAIN
    raise RecordingError(
        f"{where} was written by {age} pytest-vnc-use: its version is {version}, this"
        f" one reads {VERSION}; {remedy}"
    )


def _damage(error: ValidationError) -> str:
    """Return the first error of a file, with its place in words, such as `segments 1,
    steps 2, action`, counted from 1.
    """
    first = error.errors(include_url=False)[0]
    place = ""
    for part in first["loc"]:
        place += f" {part + 1}" if isinstance(part, int) else f", {part}"
    place = place.removeprefix(", ") or "it"
    got = cut(repr(first["input"]), _MAX_VALUE)
    return f"{place}: {first['msg']}, got {got}"


def load(path: Path) -> Recording | None:
    """Return the recording at `path`, its images read and checked; None where there is
    none. Raises RecordingError, and OSError as `save` does.
    """
    try:
        return _read_whole(path)
    except (RecordingError, FileNotFoundError):
        # Another process may be writing it: then it is read again, once that is done.
        with _locked(path), suppress(FileNotFoundError):
            return _read_whole(path)
    return None


def _read_whole(path: Path) -> Recording:
    """Return a recording with its images. Raises RecordingError, and FileNotFoundError
    if there is none.
    """
    recording = read_recording(path)
    return with_screens(recording, _ReadImages(recording, path).loaded)


def load_of(key: Key) -> Recording | None:
    """Return the recording of a test; None where there is none.

    Raises RecordingError, also where the names of the test's parameters or secrets have
    changed.
    """
    recording = load(key.path)
    if recording is None:
        return None
    # It may have another test's name: that is how a renamed test keeps its recording.
    recorded = (recording.parameters, recording.secrets)
    if recorded != (key.parameters, key.secrets):
        raise RecordingError(
            f"{str(key.path)!r} belongs to {_format_test(recording)}, but this test is"
            f" {_format_test(key)}; {AGAIN}"
        )
    return recording


def _format_test(owner: Recording | Key) -> str:
    parameters = list(owner.parameters)
    secrets = list(owner.secrets)
    return f"{owner.test!r} with parameters {parameters} and secrets {secrets}"


class _ReadImages:
    """The images of a recording: read and checked at once, decoded when asked. Raises
    RecordingError.
    """

    def __init__(self, recording: Recording, path: Path) -> None:
        self._path = path
        width, height = recording.screen_size
        self._whole = Region(0, 0, width, height)
        self._content = {
            part.image: self._read(part) for part in drawn(recording) if part.digest
        }

    def loaded(self, screen: Screen) -> Screen:
        """Return a screen whose `pixels` decode its image."""
        if not screen.image:
            raise RecordingError(
                f"{str(self._path)!r} is damaged: a screen has no image; {_RESTORE}"
            )
        pixels = partial(_decoded, self._checked(screen, self._whole))
        parts = [self._loaded_part(part, pixels) for part in screen.dynamic]
        return screen.model_copy(update={"dynamic": tuple(parts), "pixels": pixels})

    def _loaded_part(
        self, part: DynamicRegion, screen: Callable[[], Pixels]
    ) -> DynamicRegion:
        variants = []
        for variant in part.variants:
            shown = partial(_crop, screen, part.region)
            if variant.image:
                shown = partial(pixels_of, self._checked(variant, part.region))
            once = lru_cache(1)(shown)
            variants.append(variant.model_copy(update={"pixels": once}))
        return part.model_copy(update={"variants": tuple(variants)})

    def _checked(self, part: Drawn, region: Region) -> bytes:
        """Return an image, which must have the size of its region."""
        content = self._content[part.image]
        source = str(self._path.with_name(part.image))
        try:
            width, height = size_of(content)
        except ValueError as exc:
            raise RecordingError(
                f"{source!r} is not an image: {exc}; {_RESTORE}"
            ) from exc
        if (width, height) != (region.width, region.height):
            raise RecordingError(
                f"{source!r} does not fit: it has {width} x {height} pixels, its region"
                f" has {region.width} x {region.height}; {_RESTORE}"
            )
        return content

    def _read(self, part: Drawn) -> bytes:
        source = self._path.with_name(part.image)
        try:
            content = read_regular(source)
        except OSError as exc:
            raise RecordingError(
                f"an image of {str(self._path)!r} cannot be read: {exc}; {_RESTORE}"
            ) from exc
        if _digest(content) != part.digest:
            problem = _damage_of(content, part, self._path.parent)
            raise RecordingError(f"{str(source)!r} {problem}, or {AGAIN}")
        return content


_decoded = lru_cache(_DECODED)(pixels_of)


def _crop(screen: Callable[[], Pixels], region: Region) -> Pixels:
    """Return a copy of a region, which does not keep the whole screen."""
    pixels: Pixels = region.part_of(screen()).copy()
    return pixels


def _damage_of(image: bytes, part: Drawn, directory: Path) -> str:
    """Return what is wrong with the image of another digest than the part's, with the
    remedy.
    """
    restore = check_out(directory)
    if not image.startswith(b"RIFF"):
        known = explain_unreadable(image, "an image", restore)
        return known or f"is not a WebP image. {restore}"
    # RIFF has the number of the bytes that follow it
    if len(image) < 8 + int.from_bytes(image[4:8], "little"):
        return f"is truncated. {restore}"
    # After a merge, the index may hold the mixture too.
    command = f"git checkout HEAD -- {shlex.quote(str(directory))}"
    return (
        f"is not of the same version as {FILE} beside it, which names the digest"
        f" {part.digest}, but it has {_digest(image)}. Take the whole directory from one"
        f" commit: {command}"
    )


def _digest(image: bytes) -> str:
    return hashlib.sha256(image).hexdigest()[:12]


def check_writable(path: Path) -> None:
    """Raise RecordingError where no recording can be written at `path`; make
    nothing.
    """
    nearest = next(filter(os.path.lexists, path.parent.parents))
    try:
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as exc:
        raise RecordingError(
            f"the recording {str(path)!r} cannot be written, so nothing is done:"
            f" {exc}; {str(nearest)!r} must be a directory in which you may make files"
        ) from exc


def save(path: Path, recording: Recording) -> bool:
    """Write a recording as a whole, and remove other files of its directory; return
    whether `path` changed.

    What has no id yet gets one. An image stays as it is, byte for byte, where only
    invisible differences are new. Raises RunDirectoryUnwritable; OSError if the files
    that are there cannot be read, or if another process holds the lock for 60 s.
    """
    directory = path.parent
    with _locked(path):
        former = {}
        if directory.is_dir():
            files = [file for file in directory.iterdir() if file.is_file()]
            former = {file.name: file.read_bytes() for file in files}
        images = _WrittenImages(former)
        text = text_of(images.named(numbered(recording))).encode()
        content = {FILE: text, **images.content}
        if content != former:
            _write_directory(directory, content)
            _older_file(path).unlink(missing_ok=True)
        return former.get(FILE) != text


class _WrittenImages:
    """The images of a recording that is written, in `content` by their names.

    An image that is there already stays as it is, also where another libwebp would
    encode it differently.
    """

    def __init__(self, former: Mapping[str, bytes]) -> None:
        self.content: dict[str, bytes] = {}
        self._former = former
        self._files: dict[tuple[object, ...], str] = {}
        """The first file with some pixels, by their shape and digest."""

    def named(self, recording: Recording) -> Recording:
        """Return the recording with the names and digests of its images."""
        screens = [*named_screens(recording)]
        # Claims come last: one that was judged on another screen has that one's image.
        written: dict[str, Screen] = {}
        for named in sorted(screens, key=lambda screen: screen.kind == "claim"):
            written[named.name] = self._written(named)
        in_order = iter([written[named.name] for named in screens])
        return with_screens(recording, lambda _: next(in_order))

    def _written(self, named: NamedScreen) -> Screen:
        pixels = named.screen.pixels()
        parts = []
        for number, part in enumerate(named.screen.dynamic, 1):
            recorded = part.region.part_of(pixels)
            variants = tuple(self._variants(named, number, part, recorded))
            parts.append(part.model_copy(update={"variants": variants}))
        image = self._add(named.name, pixels, named)
        return named.screen.model_copy(update={"dynamic": tuple(parts), **image})

    def _variants(
        self, named: NamedScreen, number: int, part: DynamicRegion, recorded: Pixels
    ) -> Iterator[Variant]:
        """Yield the variants of a region with their images. The one that is `recorded`
        on the screen itself has none.
        """
        for at, variant in enumerate(part.variants, 1):
            pixels = variant.pixels()
            image = {"image": "", "digest": ""}
            if not np.array_equal(pixels, recorded):
                name = f"{named.name}-part{number}-variant{at}"
                image = self._add(name, pixels, named)
            yield variant.model_copy(update=image)

    def _add(self, name: str, pixels: Pixels, screen: NamedScreen) -> dict[str, str]:
        """Return the file and the digest of an image, which is encoded if it is new."""
        key = (pixels.shape, hashlib.sha256(pixels.tobytes()).digest())
        same = self._files.get(key)
        if same and screen.kind == "claim":
            return {"image": same, "digest": ""}
        file = f"{name}.webp"
        content = self._former.get(file, b"")
        if not shows(content, pixels):
            content = self.content[same] if same else webp_of(pixels)
        self.content[file] = content
        self._files.setdefault(key, file)
        return {"image": file, "digest": _digest(content)}


def _write_directory(directory: Path, files: Mapping[str, bytes]) -> None:
    """Put a directory with these files in the place of the one that is there. Raises
    RunDirectoryUnwritable; then the former one stays.
    """
    new = _beside(directory, "new")
    try:
        new.mkdir(parents=True)
        for name, content in files.items():
            (new / name).write_bytes(content)
        if directory.exists():
            directory.rename(_beside(directory, "old"))
        new.rename(directory)
    except OSError as exc:
        raise RunDirectoryUnwritable(
            f"cannot write {str(directory)!r}: {reason_of(exc)}"
        ) from exc
    finally:
        _recover(directory)


def _recover(directory: Path) -> None:
    """Complete a swap of directories that was interrupted, and remove what it has left.
    Raises OSError.
    """
    new = _beside(directory, "new")
    old = _beside(directory, "old")
    if old.exists() and not directory.exists():
        # The new directory is whole, or the old one would not have been moved.
        newest = new if new.exists() else old
        newest.rename(directory)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)


def _beside(directory: Path, kind: str) -> Path:
    """Return the name of a directory during a swap, which no test's recording has."""
    return directory.with_name(f"{directory.name}.{kind}{_SWAPPED}")


def add_masks(path: Path, masks: Sequence[Region], gate: str = "") -> bool:
    """Add masks to a recording's file, of all its screens or of those of one gate; its
    images stay. Return whether it changed. Raises as `load` and `save` do.
    """
    return _rewrite(path, partial(with_masks, masks=masks, gate=gate))


def add_values(path: Path, name: str, regions: Sequence[Region], gate: str) -> bool:
    """Add regions that show a value to one gate of a recording's file, as `add_masks`
    adds masks.
    """
    return _rewrite(path, partial(with_values, name=name, regions=regions, gate=gate))


def remove_regions(
    path: Path, regions: Sequence[Region], gate: str = "", value: str = ""
) -> bool:
    """Remove what `add_masks`, or with a `value`, `add_values` has added. Return whether
    it was there.
    """
    removed = partial(without, regions=regions, gate=gate, value=value)
    return _rewrite(path, removed)


def _rewrite(path: Path, change: Callable[[Recording], Recording]) -> bool:
    """Change the text of a recording, not its images; return whether it changed."""
    with _locked(path):
        try:
            recording = read_recording(path)
        except FileNotFoundError as exc:
            raise RecordingError(f"there is no recording at {str(path)!r}") from exc
        changed = change(recording)
        if changed == recording:
            return False
        write_atomically(path, text_of(changed).encode(), opener=None)
        return True


def recordings_of(test: str) -> list[Path]:
    """Return the recordings that a node ID names: of a test, all its parameters, a
    class or a file; or one recording's directory or file.

    Raises RecordingError if there are none.
    """
    path = Path(test)
    if path.name == FILE:
        return [path]
    if path.parent.parent.name == DIRECTORY:
        return [path / FILE]
    module, _, name = test.partition("::")
    module_path = Path(module).resolve()
    directory = module_path.parent / DIRECTORY
    paths = recordings_in(directory, glob.escape(module_path.stem))
    full_name = f"{module_path.name}::{name}"
    selected = [path for path in paths if not name or _is_of(path, full_name)]
    if not selected:
        # One recording serves all sets of parameters that have a value.
        shared = directory_name(full_name.partition("[")[0])
        selected = [path for path in paths if path.parent.name == shared]
    if not selected:
        have = ", ".join(path.parent.name for path in paths) or "nothing"
        raise RecordingError(
            f"there is no recording of {test!r} beside {str(module_path)!r}; recorded"
            f" there: {have}"
        )
    return selected


def gates_of(test: str) -> list[str]:
    """Return the names of the gates of a test's recording in order, such as `s1` and
    `end1`. Raises RecordingError, FileNotFoundError.
    """
    path = recordings_of(test)[0]
    gates: list[str] = []
    for segment in read_recording(path).segments:
        gates += [screen.gate for screen in segment.screens]
    if not gates:
        raise RecordingError(f"{str(path)!r} has no task whose steps could be edited")
    return gates


def recordings_in(directory: Path, module: str = "*") -> list[Path]:
    """Return the recordings in a `__vnc_recordings__`, by default of all test files; also
    those that an older version wrote.
    """
    paths = {path.parent for path in directory.glob(f"{module}/*/{FILE}")}
    paths |= {path.with_suffix("") for path in directory.glob(f"{module}/*.json")}
    return sorted(path / FILE for path in paths if not path.name.endswith(_SWAPPED))


def _is_of(path: Path, name: str) -> bool:
    """Return whether a recording is of a test, or of one that a class or a function
    with parameters has, by their name in pytest.
    """
    recorded = read_recording(path).test
    # the bracket ends the recorded name: test_pay_all is no test of test_pay
    is_below = f"{recorded}[".startswith((f"{name}[", f"{name}::"))
    return path.parent.name == directory_name(name) or is_below


def writer_lock(path: Path) -> FileLock:
    """Return the lock of the process that makes the recording at `path`. A test may
    end in another thread than the one that ran its task.
    """
    return FileLock(_lock_file(path, "made"), mode=0o600, thread_local=False)


def _lock_file(path: Path, what: str) -> Path:
    # A path that cannot be encoded is no error here: whoever reads it reports that.
    encoded = str(path.absolute()).encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(encoded).hexdigest()[:16]
    return Path(tempfile.gettempdir(), f"vnc-use-recording-{digest}-{what}.lock")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = _lock_file(path, "written")
    with acquire(FileLock(lock, mode=0o600), _LOCK_S):
        try:
            _recover(path.parent)
            yield
        finally:
            # Windows removes no open file. There the lock removes it on release.
            with suppress(OSError):
                lock.unlink()
