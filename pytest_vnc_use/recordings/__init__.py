"""Recordings of tests: what ran once is replayed with a check before every step and at
the end, and healed.

Read `format` and `gates` first, then `life`: the states of a segment in a session, and
what happens to it. A replay meets the other modules in this order: `record` has a test
with all of its runs, from its first task to its end; `keeping` knows which segment is
replayed, and writes what takes its place; `segment_run` has one segment with its run;
`replay` decides, `waiting` waits, `course` compares, and `closed` says what follows
where a gate stays closed; `evidence` has what was judged.

`store` has the files, `named` those that several tests share, `masks` what is not
compared, `values` the names that steps have in place of values. `build` makes a
segment of a live run, `manual` one of a run by hand, `rehearse` learns. `drift` has the
messages about a closed gate, `question` what a reviewer is asked about it, `reviewer`
their answers in a session, `accept` what is written of them, and `targets` finds what
moved. `images` and `same_text` compare pixels, and `moving` finds dynamic regions.

The modes of `--vnc-record` are in this module, because they need none of the libraries
for images.
"""

from __future__ import annotations

from typing import Literal, cast

Mode = Literal["auto", "replay", "rewrite", "manual", "off"]
ALWAYS_WRITES: tuple[Mode, ...] = ("rewrite", "manual")
"""The modes that are only asked for to get a recording."""
AGAIN = (
    "record the test again, with a planner (--vnc-record=rewrite) or by hand"
    " (--vnc-record=manual)"
)
RECORD_IT = (
    "run it once with --vnc-record=auto and a planner, such as --vnc-planner=gemini, or"
    " do it yourself with --vnc-record=manual, and keep what that writes under version"
    " control"
)
ANSWER_IT = "answer it yourself with --vnc-record=accept"
TAKE_OUT = (
    "leave it out of this session, as --vnc-record=replay overrules record='off' of its"
    " marker; or take that out, and "
)


def mode_of(asked: str, *, exists: bool, ci: bool, has_planner: bool) -> Mode:
    """Return the mode that `--vnc-record` and the circumstances give.

    Without the option, a test that has a recording uses it, in mode `replay` in
    a CI job, else `auto`; other tests have the mode `off`. Without a planner nothing can
    be healed, so `auto` becomes `replay`; so does `accept`, which is a replay with a
    review.
    """
    if asked == "accept":
        return "replay"
    if not asked and not exists:
        return "off"
    if asked in ("", "auto"):
        is_replay = not has_planner or (ci and not asked)
        return "replay" if is_replay else "auto"
    return cast("Mode", asked)  # checked as a setting
