"""The exception tree of the package.

VncUseError
├── SettingsError             a setting, marker or file of the user is wrong; a usage error in pytest
│   ├── KeyMissing            no API key is set for a planner, or a judge, that needs one
│   ├── ProgramMissing        the program under test cannot be found, or cannot be run
│   │   └── CommandMissing    the program of a test's command cannot be found or run; a DesktopError too
│   └── RecordingError        a recording is missing, damaged, of a newer version or of another screen
├── RunDirectoryError         a run directory is missing, damaged, or of a newer version
│   └── RunDirectoryUnwritable it cannot be written: the disk is full, or read-only; an InfraError too
├── TaskFailed                a run did not end as done, or a claim about it was not confirmed
│   ├── ProductFailed         product: the screen, or the program, is not as the test requires
│   │   ├── FileMissing       a file that the program should have written is not there; a FileNotFoundError too
│   │   ├── FileUnreadable    a file that the program wrote cannot be read as text
│   │   └── ProgramCrashed    the program under test was ended by a signal, or failed at its start
│   ├── AgentFailed           agent: the planner gave up, or repeated its actions
│   ├── BudgetExceeded        budget: the steps, seconds, tokens or dollars were used up
│   ├── PolicyDenied          policy: an action was denied, and that ended the run
│   └── Inconclusive          inconclusive: the judge is unsure, or there is none
│       └── RecordingDrifted  the screen is not as recorded, and no model continued
├── ActionError               one action cannot be performed; the planner gets the message and continues
│   └── ActionInterrupted     the connection was lost before the action was answered; an InfraError too
└── InfraError                the tool or its surroundings failed; never the product under test
    ├── DesktopError          the desktop is missing or has failed
    │   ├── DesktopRefused    it cannot be reached, or did not answer in time
    │   ├── AuthenticationFailed   it needs a password, or a different one
    │   ├── ScreenFrozen      it answers, but no action changes its screen any more
    │   ├── ScreenBlank       it answers, but its screen stays in one colour
    │   ├── PageGone          the page or the browser behind `vnc_cdp` was closed, or cannot be reached
    │   ├── CommandRefused    DevTools does not perform a command; nothing was done
    │   └── ConnectionLost    the connection was lost
    │       └── DesktopSilent it is connected, but does not answer
    └── PlannerError          the model cannot be asked
        ├── KeyRejected       the API key is rejected
        ├── QuotaExhausted    a quota is exhausted, and does not renew in time
        ├── ModelUnavailable  no answer after all retries, or within the time limit
        └── AnswerRefused     the model's service blocked the prompt or the answer
"""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """Return the remedy where the libraries of an extra are missing."""
    return (
        f"Install the extra {extra!r}: pip install -e '.[{extra}]' in a clone of"
        " pytest-vnc-use"
    )


class VncUseError(Exception):
    """The root of every error that this package raises on purpose."""


class SettingsError(VncUseError):
    """A setting, a marker argument or a policy file is invalid; the message has the
    remedy.
    """


class KeyMissing(SettingsError):
    """No API key is set for a planner, or a judge, that needs one; no model was
    asked.
    """


class ProgramMissing(SettingsError):
    """The program under test cannot be found, or cannot be run: it never started."""


class RecordingError(SettingsError):
    """A recording is missing, damaged, of a newer version or of another screen; no
    action of it was performed.
    """


class RunDirectoryError(VncUseError):
    """A run directory is missing, damaged, or written by a newer version."""

    never_started = ""
    """Why the run ended before its first screen, such as that there is no recording; ""
    if that is not the error.
    """


class TaskFailed(VncUseError):
    """A run did not end as done, or a claim is not shown to hold; the message is for
    the reader of the log.
    """


class ProductFailed(TaskFailed):
    """The screen, or the program, is not as the test requires."""


class ProgramCrashed(ProductFailed):
    """The program under test ended by a signal, or ended before it showed anything with
    an exit code that is not 0.
    """


class AgentFailed(TaskFailed):
    """The planner gave up, or repeated its actions; this says nothing certain about the
    product under test.
    """


class BudgetExceeded(TaskFailed):
    """The steps, seconds, tokens or dollars that a test or a session may use were used
    up.
    """


class PolicyDenied(TaskFailed):
    """An action was denied, and that ended the run."""


class Inconclusive(TaskFailed):
    """The judge is unsure, or there was no judge: the claim is shown neither to hold
    nor to fail.
    """


class RecordingDrifted(Inconclusive):
    """The screen is not as recorded: the product changed or failed. Only a model or a
    reviewer can decide which.
    """

    at_end = False
    """True if all recorded steps were performed, and the screen then is not as at their
    end.
    """


class ActionError(VncUseError):
    """One action cannot be performed (unknown key, point off the screen, a character
    the server cannot take).
    """


class InfraError(VncUseError):
    """The tool or its surroundings failed; this does not concern the product under
    test.
    """


class RunDirectoryUnwritable(RunDirectoryError, InfraError):
    """A run directory cannot be made or written: the disk is full, or writing is not
    allowed there.
    """


class ActionInterrupted(ActionError, InfraError):
    """The connection was lost before an action was answered, and the watchdog
    reconnected.

    It is unknown whether the action took effect.
    """


class DesktopError(InfraError):
    """The desktop is not there, or went away."""


class DesktopRefused(DesktopError):
    """The desktop cannot be reached, or did not answer in time."""


class AuthenticationFailed(DesktopError):
    """The desktop wants a password, or another one than it got."""


class CommandMissing(ProgramMissing, DesktopError):
    """The program of a command that a test runs on the desktop cannot be found, or
    cannot be run.
    """


class FileMissing(ProductFailed, FileNotFoundError):
    """The program's working directory has no file of that name."""


class FileUnreadable(ProductFailed):
    """A file in the program's working directory is not UTF-8, no regular file, or too
    large to be read.

    The desktop itself answers. So this is about the product, and no retry helps.
    """


class ConnectionLost(DesktopError):
    """The connection was there and is gone."""


class ScreenFrozen(DesktopError):
    """The desktop answers, but no action changes its screen any more."""


class ScreenBlank(DesktopError):
    """The desktop answers, but its whole screen stays in one colour: no program draws
    on it.
    """


class PageGone(DesktopError):
    """The page or the browser behind `vnc_cdp` was closed, or cannot be reached."""


class CommandRefused(DesktopError):
    """DevTools does not perform a command; nothing was done."""


class DesktopSilent(ConnectionLost):
    """The desktop was connected, but did not answer in time."""


class PlannerError(InfraError):
    """The model cannot be asked."""


class KeyRejected(PlannerError):
    """The API key is rejected."""


class QuotaExhausted(PlannerError):
    """A quota is used up, and waiting does not refill it within the run's time."""


class ModelUnavailable(PlannerError):
    """The model gave no usable answer after all retries, or none within the time
    limit.
    """


class AnswerRefused(PlannerError):
    """The model's service blocked the prompt or its answer; this ends a run as
    `blocked`.
    """
