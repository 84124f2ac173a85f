"""Hostile input: how it is made, and what is tried with it."""

from support.fuzzing import directories, models
from support.fuzzing.trial import Target

TARGETS: dict[str, Target] = {
    target.name: target for target in (*directories.TARGETS, *models.TARGETS)
}
