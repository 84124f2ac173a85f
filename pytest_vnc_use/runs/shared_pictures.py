"""A picture of several runs of a session is on disk once: their files are hard links to it.

During a session, `runs/.screens/` has a link to each picture so far, for the runs of all its processes. At its end that
folder is removed. Each run folder can be read, copied and removed by itself.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

_FOLDER = ".screens"


def share_pictures(run_folder: Path) -> None:
    """Share the pictures of this run, and of all later ones beside it. Without hard links nothing is shared."""
    with suppress(OSError):
        (run_folder.parent / _FOLDER).mkdir(mode=0o700, exist_ok=True)
        for picture in (run_folder / "screens").glob("*.png"):
            add_shared(picture)


def add_shared(picture: Path) -> None:
    """Let later runs share a picture of a run, if a session shares its pictures."""
    shared = _shared(picture)
    with suppress(OSError):  # it is there already, nobody shares, or there are no hard links
        if not shared.parent.is_symlink():  # it may lead anywhere
            os.link(picture, shared)


def take_shared(picture: Path, content: bytes) -> bool:
    """Make the picture of a run a link to the same picture of an earlier run. Return whether there is one."""
    shared = _shared(picture)
    try:
        if shared.parent.is_symlink() or shared.is_symlink() or shared.read_bytes() != content:
            return False
        os.link(shared, picture)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def end_sharing(runs_dir: Path) -> None:
    """Remove the folder of shared links at the session's end. The runs keep their pictures."""
    shutil.rmtree(runs_dir / _FOLDER, ignore_errors=True)


def _shared(picture: Path) -> Path:
    return picture.parents[2] / _FOLDER / picture.name
