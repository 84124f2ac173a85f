"""The preset "strict": rules for a program that must not be left, whatever its screen says.

It allows the keys that type, edit and move, and plain addresses in a list. It denies the known ways out: other keys,
other buttons, drags, and texts that a terminal, a file dialog or a launcher takes for an order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from pytest_vnc_use.safety.addresses import Addresses, Elsewhere
from pytest_vnc_use.safety.rules import OnDeny, Policy, ReviewContext, Rule
from pytest_vnc_use.safety.sight import Sight
from pytest_vnc_use.types import (
    Action,
    CallFunction,
    KeyCombo,
    KeyDown,
    KeyUp,
    MouseUp,
    OpenAddress,
    Proposal,
    RulingKind,
    TakeScreenshot,
    TraverseHistory,
    TypeText,
    Wait,
)

See = Callable[[], Sight]
Keys = frozenset[str]

# --- addresses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PageRule:
    """The rule that the browser is at an address of the list, if DevTools know its address.

    Elsewhere only waiting, releasing keys, and the way back are allowed.
    """

    addresses: Addresses
    name: str = "strict: the page is in the list of addresses"
    decision: RulingKind = "deny"
    on_deny: OnDeny | None = None

    @property
    def sentence(self) -> str:
        """Return the rule in words."""
        return f"only the way back is allowed while DevTools report a page outside the list ({self.addresses})"

    def matches(self, proposal: Proposal, context: ReviewContext, see: See | None = None) -> bool:
        """Return whether the browser is elsewhere, and the action does not lead back."""
        return not self._leads_back(proposal.action) and not self.addresses.holds_page(context.page_url())

    def _leads_back(self, action: Action) -> bool:
        if isinstance(action, OpenAddress):
            return self.addresses.holds(action.address) or _opens_empty_window(action)
        return isinstance(action, (TraverseHistory, KeyUp, MouseUp, Wait, TakeScreenshot))


@dataclass(frozen=True)
class AddressRule:
    """The rule that no address outside the list is opened, or typed, in one piece or in many."""

    addresses: Addresses
    name: str = "strict: no address outside the list"
    decision: RulingKind = "deny"
    on_deny: OnDeny | None = None

    @property
    def sentence(self) -> str:
        """Return the rule in words."""
        return f"only addresses of these hosts are opened or typed: {self.addresses}"

    def matches(self, proposal: Proposal, context: ReviewContext, see: See | None = None) -> bool:
        """Return whether the action leads out of the list. Raises NotReviewed."""
        action = proposal.action
        if isinstance(action, OpenAddress):
            return not (self.addresses.holds(action.address) or _opens_empty_window(action))
        if not isinstance(action, (TypeText, KeyCombo, KeyDown, CallFunction)):
            return False
        sight = see() if see else context.sight_of(action)
        elsewhere = Elsewhere(self.addresses, explicit=isinstance(action, CallFunction))
        return any(map(elsewhere.find, chain(sight.own, sight.spellings))) or any(
            joined.shows(elsewhere) for joined in sight.joined
        )


def _opens_empty_window(action: OpenAddress) -> bool:
    return action == OpenAddress("about:blank", in_new_window=True)


# --- keys ------------------------------------------------------------------------------------------------------------

_MOVING = frozenset({"left", "right", "up", "down", "home", "end", "pageup", "pagedown"})
_PLAIN = _MOVING | {"enter", "tab", "space", "backspace", "delete"}
_EDITING = frozenset({"a", "c", "x", "z", "left", "right", "home", "end", "backspace", "delete"})
_SELECTING = frozenset({"z", "left", "right", "home", "end"})
_PASTE, _ADDRESS_BAR = frozenset({"shift", "insert"}), frozenset({"ctrl", "l"})
_HISTORY = frozenset({frozenset({"alt", "left"}), frozenset({"alt", "right"})})


@dataclass(frozen=True)
class KeyRule:
    """The rule that an action presses only keys that type, edit or move the caret, and the chords that it needs."""

    name: str = "strict: only keys that type, edit and move"
    decision: RulingKind = "deny"
    on_deny: OnDeny | None = None

    @property
    def sentence(self) -> str:
        """Return the rule in words."""
        chords = ", ".join(f"ctrl+{key}" for key in sorted(_EDITING))
        more = ", ".join(f"ctrl+shift+{key}" for key in sorted(_SELECTING))
        return (
            f"no keys but characters, {', '.join(sorted(_PLAIN))} (all of these with shift too), escape, {chords}, "
            f"{more}, alt+left, alt+right"
        )

    def matches(self, proposal: Proposal, context: ReviewContext, see: See | None = None) -> bool:
        """Return whether the action presses other keys, or keys that a program may take for others."""
        sight = see() if see else context.sight_of(proposal.action)
        own = _own_chords(proposal.action)
        return not all(keys in own or _is_allowed(keys) for keys in (*sight.keys, *sight.alike))


def _own_chords(action: Action) -> frozenset[Keys]:
    """Return the chords that an action needs: to paste its own text, or to open its own address."""
    match action:
        case TypeText():
            return frozenset({_PASTE})
        case OpenAddress():
            return frozenset({_PASTE, _ADDRESS_BAR})
        case _:
            return _HISTORY


def _is_allowed(keys: Keys) -> bool:
    rest = keys - {"shift", "ctrl"}
    if "ctrl" in keys:
        return rest <= (_SELECTING if "shift" in keys else _EDITING)
    return keys == {"escape"} or all(key in _PLAIN or len(key) == 1 for key in rest)


# --- texts -----------------------------------------------------------------------------------------------------------

_TERMINALS = (
    r"(?:ux|lx|x|ml|a|e)term|u?rxvt|terminal|[\w-]+-terminal|konsole|alacritty|wezterm|tilix|terminator|guake|yakuake|"
    r"xfce4-terminal|iterm2?|cmd|powershell|pwsh|wt|bash|zsh|ksh|csh|tcsh|sh"
)
_COMMANDS = (
    r"sudo|curl|wget|ssh|scp|sftp|rsync|ncat|netcat|telnet|rm|chmod|chown|mkfs\S*|killall|nohup|crontab|systemctl|"
    r"apt-get|dnf|yum|pacman|pip3?|npm|npx|docker|podman|python[\d.]*|perl|php|powershell|pwsh|bash|sh|zsh|certutil|"
    r"mshta|rundll32|xdg-open|gsettings|dconf|xfconf-query"
)
_BEFORE = r"env|exec|command|builtin|eval|time|timeout|nice|nohup|setsid|xargs|doas|then|do|else|if|while|until"
_START = (
    r"(?:^|[;&|({])\s*"  # a command begins a line, or follows another one
    rf"(?:(?:{_BEFORE}|[^\W\d]\w*=\S*)[^\S\n]+(?:(?:-\S+|\d\S*)[^\S\n]+)*)*"
    r"[\"']*(?:[^\s;&|({]*[/\\])?"
)
_NO_TERMINAL = re.compile(
    rf"(?im){_START}(?:{_TERMINALS})(?:\.exe|\.app)?[\"']*(?:\s+[-/].*)?\s*(?:$|[;&|])"
    rf"|{_START}(?:{_COMMANDS})(?:\.exe)?[\"']*\s+\S"
    r"|\$\(|\$\{|\$IFS|`[^`\n]+`|/dev/(?:tcp|udp)/|/bin/|\|\s*(?:ba|z|k|da)?sh\b|\|\s*python|&&\s*\S|>>?\s*[~/]\S"
)
_NO_FILE = re.compile(
    r"(?im)^\s*[\"']?(?:file:|~(?:[a-z_][\w.-]*)?(?:/|\s*$)|/\S|\.{1,2}[/\\]|[a-z]:[/\\]|\\\\\S|[$%]\w+%?[/\\])"
)
_NO_SETTINGS = re.compile(
    r"(?im)^\s*@(?:tabs|history|bookmarks|gemini|aimode|page)\b|^\s*(?:[\w.-]*control-center|[\w.-]*-settings\S*|systemsettings\d?|kcmshell\d?|regedit|control\s+panel|"
    r"control\.exe|msconfig|\w+\.(?:msc|cpl)|system\s+(?:preferences|settings))(?:\.exe)?\s*$"
)


@dataclass(frozen=True)
class PlainRule:
    """A rule of the preset that an ordinary rule decides."""

    name: str
    sentence: str
    rule: Rule
    decision: RulingKind = "deny"
    on_deny: OnDeny | None = None

    def matches(self, proposal: Proposal, context: ReviewContext, see: See | None = None) -> bool:
        """Return whether the ordinary rule applies. Raises NotReviewed."""
        return self.rule.matches(proposal, context, see)


_PLAIN_RULES = (
    PlainRule(
        "strict: no right button",
        "no click of the right button: its menu leads out",
        Rule("deny", action="right_click"),
    ),
    PlainRule(
        "strict: no middle button", "no click of the middle button: it pastes", Rule("deny", action="middle_click")
    ),
    PlainRule("strict: no drag", "nothing is dragged and dropped", Rule("deny", action="drag")),
    PlainRule(
        "strict: no held button", "no button is pressed by itself, as for a drag", Rule("deny", action="mouse_down")
    ),
    PlainRule(
        "strict: no terminal",
        "no text is typed that names a terminal, or that a shell takes for a command, in the usual spellings",
        Rule("deny", text=_NO_TERMINAL),
    ),
    PlainRule("strict: no file", "no path of a file is typed, as for an upload", Rule("deny", text=_NO_FILE)),
    PlainRule(
        "strict: no settings",
        "no name of a program for settings is typed, nor of a browser's own pages",
        Rule("deny", text=_NO_SETTINGS),
    ),
)


def strict_policy(addresses: Addresses | None = None) -> Policy:
    """Return the preset, with a list of addresses; without one, no address is in it."""
    known = addresses or Addresses()
    return Policy(first=(PageRule(known), AddressRule(known)), last=(KeyRule(), *_PLAIN_RULES))
