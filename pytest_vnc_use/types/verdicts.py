"""What a judge says of the screen, whether a claim holds and what stands there, and the tokens that it took."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from pytest_vnc_use.errors import Inconclusive
from pytest_vnc_use.plain_text import line
from pytest_vnc_use.types.frames import FrameRef, Region

VerdictKind = Literal["holds", "fails", "unsure"]


@dataclass(frozen=True)
class Usage:
    """Tokens of one model call, or a sum of them; `input` includes the cached ones."""

    input: int = 0
    cached: int = 0
    output: int = 0
    thinking: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.cached + other.cached,
            self.output + other.output,
            self.thinking + other.thinking,
        )


@dataclass(frozen=True, repr=False)
class Verdict:
    """What a judge says of a claim about a frame: reason first. True where it holds, false where it fails.

    One that is unsure is neither: its `bool()` raises Inconclusive, so that neither `assert` nor `assert not` passes
    for it. Who wants to go on asks whether it `holds`, or for its `kind`.

    `votes` is what each vote said, in order. `looks` is on how many screens, one after the other, it was judged; the
    last one decides. `usage` is that of all of them.
    """

    claim: str
    kind: VerdictKind
    reason: str
    region: Region | None = None
    frame: FrameRef | None = None
    model: str = ""
    usage: Usage = Usage()
    votes: tuple[VerdictKind, ...] = ()
    looks: int = 1

    @property
    def holds(self) -> bool:
        return self.kind == "holds"

    def __bool__(self) -> bool:
        if self.kind == "unsure":
            raise Inconclusive(str(self))
        return self.holds

    def __str__(self) -> str:
        votes = f" (votes: {', '.join(self.votes)})" if len(self.votes) > 1 else ""
        looks = f" (asked on {self.looks} screens)" if self.looks > 1 else ""
        return f"{self.kind}{votes}{looks}: {self.claim!r}: {line(self.reason)}"

    def __repr__(self) -> str:
        return f"<Verdict {self}>"


class AskedVerdict(Verdict):
    """A verdict in the hands of a test, which notices whether it is `asked` for its truth: its `holds` or `kind`."""

    asked = False

    @classmethod
    def of(cls, verdict: Verdict) -> AskedVerdict:
        return cls(**{each.name: vars(verdict)[each.name] for each in fields(verdict)})

    @property
    def plain(self) -> Verdict:
        """The same; looking at that asks nothing."""
        return Verdict(**{each.name: vars(self)[each.name] for each in fields(self)})

    def __getattribute__(self, name: str) -> Any:
        if name in ("kind", "holds"):
            object.__setattr__(self, "asked", True)
        return super().__getattribute__(name)

    def __eq__(self, other: object) -> bool:
        return self.plain == (other.plain if isinstance(other, AskedVerdict) else other)

    def __hash__(self) -> int:
        return hash(self.plain)

    def __str__(self) -> str:
        return str(self.plain)


@dataclass(frozen=True)
class Reading:
    """What was read off a frame in answer to a question: reason first, then the value, as JSON, and where it stands.

    `value` is None where it is not on the screen.
    """

    question: str
    value: Any
    reason: str
    region: Region | None = None
    frame: FrameRef | None = None
    model: str = ""
    usage: Usage = Usage()
