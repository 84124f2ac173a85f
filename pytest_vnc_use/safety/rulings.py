"""Rulings: their words, the blocks of the model's service, and the changes by a person's answer."""

from __future__ import annotations

from dataclasses import replace

from pytest_vnc_use.types import Confirmation, Proposal, Ruling, RulingKind

BLOCKED = "blocked by the model's service"
"""The rule named in a ruling where the model's service blocked the action."""

CONSEQUENCE: dict[RulingKind, str] = {
    "allow": "the action is allowed",
    "deny": "the action is denied",
    "ask": "a person must say yes first",
}


def wish_in_words(confirmation: Confirmation | None) -> str:
    """Return the end of a ruling's explanation: why the model's service wants the action confirmed."""
    if confirmation is None:
        return ""
    wish = "the model's service blocks it" if confirmation.blocks else "the model asks for confirmation"
    return f"; {wish} because {confirmation.explanation!r}"


def is_blocked(proposal: Proposal) -> bool:
    """Return whether the model's service forbids the action, whatever a rule or a person says."""
    return proposal.confirmation is not None and proposal.confirmation.blocks


# --- the answer to an "ask" ------------------------------------------------------------------------------------------


def approve(asked: Ruling) -> Ruling:
    """Return the ruling after a person's yes."""
    return replace(asked, kind="allow", by="person", explanation=f"a person said yes ({asked.explanation})")


def deny(asked: Ruling) -> Ruling:
    """Return the ruling after a person's no."""
    return replace(asked, kind="deny", by="person", explanation=f"a person said no ({asked.explanation})")


def final_ruling(proposal: Proposal, ruling: Ruling) -> Ruling:
    """Return the ruling; a denial where the model's service blocks the action, whatever a rule or a person said."""
    if ruling.kind != "allow" or not is_blocked(proposal):
        return ruling
    explanation = f"{BLOCKED}: the action is denied{wish_in_words(proposal.confirmation)}"
    return replace(ruling, kind="deny", rule=BLOCKED, explanation=explanation)


def deny_unasked(asked: Ruling) -> Ruling:
    """Return the ruling where there is nobody to ask: a denial."""
    return replace(asked, kind="deny", explanation=f"there is nobody to ask, so the answer is no ({asked.explanation})")
