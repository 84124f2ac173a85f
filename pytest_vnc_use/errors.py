"""The exception tree of the package.

VncUseError
├── SettingsError             a setting, marker or file of the user's is wrong; a usage error in pytest
├── RunFolderError            a run folder is missing, damaged, or of a newer version
├── TaskFailed                a run did not end as done, or a claim about it is not shown to hold
├── ActionError               one action cannot be carried out; the planner is told and goes on
└── InfraError                the tool or its surroundings broke; never a fault of the product under test
    ├── DesktopError          the desktop is not there, or went away
    │   ├── DesktopRefused    it cannot be reached, or did not answer in time
    │   ├── AuthenticationFailed   it wants a password, or another one
    │   └── ConnectionLost    it was there and is gone
    └── PlannerError          the model cannot be asked
        ├── KeyRejected       the API key is missing or refused
        ├── QuotaExhausted    a quota that waiting will not refill in time
        ├── ModelUnavailable  no answer after all retries, or within the time limit
        └── AnswerRefused     the model's service blocked the prompt or the answer
"""

from __future__ import annotations


class VncUseError(Exception):
    """Root of everything this package raises on purpose."""


class SettingsError(VncUseError):
    """A setting, a marker argument or a policy file is wrong; the message says what would be right."""


class RunFolderError(VncUseError):
    """A run folder is missing, damaged, or written by a newer version."""


class TaskFailed(VncUseError):
    """A run did not end as done, or a claim is not shown to hold; the message is for the person who reads the log."""


class ActionError(VncUseError):
    """One action cannot be carried out (unknown key, point off the screen, a character the server cannot take)."""


class InfraError(VncUseError):
    """The tool or its surroundings broke; says nothing about the product under test."""


class DesktopError(InfraError):
    """The desktop is not there, or went away."""


class DesktopRefused(DesktopError):
    """The desktop cannot be reached, or did not answer within the time given."""


class AuthenticationFailed(DesktopError):
    """The desktop wants a password, or another one than it was given."""


class ConnectionLost(DesktopError):
    """The connection was there and is gone."""


class PlannerError(InfraError):
    """The model cannot be asked."""


class KeyRejected(PlannerError):
    """The API key is missing or refused."""


class QuotaExhausted(PlannerError):
    """A quota is used up that waiting does not refill within the run's time."""


class ModelUnavailable(PlannerError):
    """No usable answer after all retries, or none within the time limit."""


class AnswerRefused(PlannerError):
    """The model's service blocked the prompt or its own answer; ends a run as `blocked`."""
