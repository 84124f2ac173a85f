"""All targets, by name."""

from __future__ import annotations

from support.fuzzing import files, folders, models, names, screens
from support.fuzzing.trial import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (*files.TARGETS, *folders.TARGETS, *names.TARGETS, *models.TARGETS, *screens.TARGETS)
}
