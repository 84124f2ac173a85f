"""All targets, by name."""

from __future__ import annotations

from support.fuzzing import directories, files, models, names, screens
from support.fuzzing.trial import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (*files.TARGETS, *directories.TARGETS, *names.TARGETS, *models.TARGETS, *screens.TARGETS)
}
