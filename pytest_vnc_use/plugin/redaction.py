"""The redaction of all that pytest reports: no report leaves its process with the value of a secret in it.

Each report of a test, of a subtest and of a collection passes through one hook
before anything prints, stores or sends it, and each warning through another. A worker of pytest-xdist redacts its
reports. A secret of one test is a secret in the whole session, because fixtures and logs are shared.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Generator, Mapping
from typing import Any

import pytest

from pytest_vnc_use.agent import build
from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.plugin.options import secret_sources
from pytest_vnc_use.plugin.state import ATTACHED, SCREENSHOTS, SECRETS, SETTINGS
from pytest_vnc_use.runs.redaction import SHORT, Redactor
from pytest_vnc_use.settings.variables import read_secret

_LOOKUP_FIELDS = frozenset({"$report_type", "nodeid", "location", "keywords", "outcome", "when", "type", "style"})
"""Fields that pytest and other plugins look things up by; they hold no text of a test but its id."""
_CLEAN = frozenset({ATTACHED, SCREENSHOTS})
"""Fields of this plugin, which are made without secrets."""
_PASSWORD = "VNC_PASSWORD"
"""The name of the password of the newest desktop."""
_SCREENSHOT = re.compile(r"(data:image/[^;]+;base64,[A-Za-z0-9+/=]+)")


class SessionSecrets:
    """The secrets of a session: of `--vnc-secret`, of all tests that were collected, of models and the desktop."""

    def __init__(self, from_options: Mapping[str, str]) -> None:
        self.from_options = from_options
        """Those of `--vnc-secret`, which every test may have typed."""
        self.declared: frozenset[tuple[str, str]] = frozenset()
        """The names and values that options and markers declare; a name may have several values."""
        self._values: frozenset[tuple[str, str]] = frozenset()
        self._hide: Callable[[str], str] = str
        self.hide_in_id: Callable[[str], str] = str
        """Takes secrets out of the id of a parameter. A short value may be there by chance."""
        self.declare(from_options)

    def declare(self, values: Mapping[str, str]) -> None:
        """Redact these values, which an option or a marker names, also in the runs of all tests from now on."""
        self.declared |= {(name, value) for name, value in values.items() if value}
        self.add(values)

    def add(self, values: Mapping[str, str]) -> None:
        """Redact these values, by name, from now on; empty values are ignored.

        A desktop's password replaces that of the desktop before, which has stopped: they would be as many as tests.
        """
        values_by_name = self._values
        if values.get(_PASSWORD):
            values_by_name = self.declared | {(name, value) for name, value in values_by_name if name != _PASSWORD}
        values_by_name |= {(name, value) for name, value in values.items() if value}
        if values_by_name != self._values:
            self._values = values_by_name
            self._hide = Redactor({}, others=sorted(values_by_name)).hide_pieces
            long = [(name, value) for name, value in sorted(values_by_name) if len(value) >= SHORT]
            self.hide_in_id = Redactor({}, others=long).hide

    def hide(self, text: str) -> str:
        """Return a text without secrets; screenshots in it stay. A text that cannot be redacted is withheld."""
        try:
            parts = _SCREENSHOT.split(text)
            return "".join(part if number % 2 else self._hide(part) for number, part in enumerate(parts))
        except Exception as exc:  # noqa: BLE001  # whatever breaks here must hide neither the failure nor show a secret
            return withheld(exc)


def withheld(error: Exception) -> str:
    """Return the sentence for a text that could not be redacted."""
    return f"This text is withheld, because its secrets could not be hidden: {type(error).__name__}."


def secrets_of(config: pytest.Config) -> SessionSecrets:
    """Return the secrets of the session. Raises UsageError if one cannot be read."""
    if SECRETS not in config.stash:
        try:
            option_values = dict(read_secret(*source) for source in secret_sources(config))
        except SettingsError as exc:
            raise pytest.UsageError(str(exc)) from exc
        config.stash[SECRETS] = SessionSecrets(option_values)
    return config.stash[SECRETS]


def pytest_configure(config: pytest.Config) -> None:
    """Learn the keys of models and the desktop's password."""
    secrets_of(config).add(build.ambient_secrets(config.stash[SETTINGS]))
    _redact_logs(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Redact the logs, which pytest opens after this plugin is configured."""
    _redact_logs(session.config)


def _redact_logs(config: pytest.Config) -> None:
    """Have pytest's live log and its log file redacted as they are written, if they are open."""
    logs = config.pluginmanager.get_plugin("logging-plugin")
    for handler in (getattr(logs, "log_file_handler", None), getattr(logs, "log_cli_handler", None)):
        if isinstance(handler, logging.Handler) and not isinstance(handler.formatter, _RedactingFormatter):
            formatter = handler.formatter or logging.Formatter()
            handler.setFormatter(_RedactingFormatter(formatter, secrets_of(config)))


class _RedactingFormatter(logging.Formatter):
    """A formatter of log records that formats as another one does, without secrets."""

    def __init__(self, formatter: logging.Formatter, secrets: SessionSecrets) -> None:
        super().__init__()
        self._formatter, self._secrets = formatter, secrets

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's text without secrets."""
        return self._secrets.hide(self._formatter.format(record))


class Redaction:
    """The hooks that redact, for one session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_make_parametrize_id(self, val: object) -> str | None:
        """Put a secret's name into the id of a test instead of its value, which is a parameter."""
        if not isinstance(val, (str, bytes)):
            return None
        text = val.decode("utf-8", "replace") if isinstance(val, bytes) else val
        hidden = secrets_of(self._config).hide_in_id(text)
        return None if hidden == text else hidden

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> Generator[None, None, None]:
        """Redact a report on a test, or on a collection, before any other plugin receives it."""
        self._redact(report)
        return (yield)

    pytest_collectreport = pytest_runtest_logreport

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        """Redact a warning's text and source line. The warning that was raised stays as it is."""
        hide = secrets_of(self._config).hide
        message = str(warning_message.message)
        if hide(message) != message:
            warning_message.message = UserWarning(hide(message))
        if warning_message.line:
            warning_message.line = hide(warning_message.line)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Redact the end of the session by Ctrl-C or `pytest.exit`, before the terminal shows it."""
        representation: Any = excinfo.getrepr(funcargs=True)
        report = pytest.TestReport("", ("", None, ""), {}, "failed", representation, "call")
        self._redact(report)
        if isinstance(report.longrepr, str):
            representation.reprcrash.message = report.longrepr
        else:
            representation = report.longrepr
        excinfo.getrepr = lambda **_: representation  # type: ignore[method-assign]  # for the terminal and all others

    def _redact(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Replace the report's texts by texts without secrets. If that fails, it keeps its outcome and no text.

        pytest's serialized form has all texts of a report, whatever class represents an error.
        """
        hook = self._config.hook
        try:
            sent = hook.pytest_report_to_serializable(config=self._config, report=report)
            clean = _redact_value(sent, secrets_of(self._config).hide)
            if clean != sent:
                redacted = vars(hook.pytest_report_from_serializable(config=self._config, data=clean))
                redacted.pop("result", None)  # the items of a collection, which are not sent
                vars(report).update(redacted)
        except Exception as exc:  # noqa: BLE001  # an error here would end the session, and the failure would be lost
            report.longrepr = withheld(exc) if report.longrepr else None
            report.sections = []
            if isinstance(report, pytest.TestReport):
                report.user_properties = []


def _redact_value(value: Any, hide: Callable[[str], str]) -> Any:
    """Return a value of a report's fields without secrets."""
    match value:
        case str():
            return hide(value)
        case dict():
            return {name: _redacted_field(name, item, hide) for name, item in value.items()}
        case list():
            return [_redact_value(item, hide) for item in value]
        case tuple():
            return tuple(_redact_value(item, hide) for item in value)
        case _:
            return value


def _redacted_field(name: str, value: Any, hide: Callable[[str], str]) -> Any:
    if name in _LOOKUP_FIELDS or name in _CLEAN:
        return value
    if name == "user_properties":  # a value that is another object becomes the text that reports show
        return [(hide(str(name)), value if hide(text := str(value)) == text else hide(text)) for name, value in value]
    if name == "lines" and value:  # a value may be on several lines
        if any(line.endswith("\n") for line in value):  # as in a traceback by Python
            return [hide("".join(value))]
        return hide("\n".join(value)).split("\n")
    return _redact_value(value, hide)
