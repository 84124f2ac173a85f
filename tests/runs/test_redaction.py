"""Secrets: found in every form, put back only on request, and in no file of a run
directory.
"""

from __future__ import annotations

import base64
import json
import re
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from pytest_vnc_use.errors import SettingsError
from pytest_vnc_use.runs.directory import RunDirectory
from pytest_vnc_use.runs.logger import RunLogger
from pytest_vnc_use.runs.redactor import Redactor, totp
from pytest_vnc_use.types import (
    ApprovalRequest,
    CallFunction,
    Click,
    Confirmation,
    Decision,
    FrameRef,
    InvalidAction,
    Judged,
    KeyCombo,
    ModelExchange,
    OpenUrl,
    Outcome,
    Proposal,
    Region,
    Ruling,
    RunEnded,
    RunStarted,
    Step,
    StepFinished,
    TurnDecided,
    TypeText,
    Verdict,
)
from pytest_vnc_use.types.actions import SecretText

PASSWORD = 'hunter2 "ö" \\ &/+\'<'
API_KEY = "AIzaSy-1234567890_abcdefgh"
PIN = "4711"
SECRETS = {"PASSWORD": PASSWORD, "API_KEY": API_KEY, "PIN": PIN}


def forms(value: str) -> dict[str, str]:
    raw = value.encode()
    basic = {
        f"basic {user!r}": base64.b64encode(user + b":" + raw + b"\n").decode()
        for user in (b"", b"a", b"ab")
    }
    return {
        "plain": value,
        "json": json.dumps(value)[1:-1],
        "json, not ascii": json.dumps(value, ensure_ascii=False)[1:-1],
        "repr": repr(value),
        "percent": quote(value, safe=""),
        "percent, lower case": (
            quote(value, safe="").lower() if "%" in quote(value, safe="") else value
        ),
        "form": quote_plus(value),
        "component": quote(value, safe="!'()*"),
        "base64, no padding": base64.b64encode(raw).decode().rstrip("="),
        "base64 for addresses": base64.urlsafe_b64encode(raw).decode(),
        **(basic if len(value) > 8 else {}),
    }


@pytest.mark.parametrize("name", SECRETS)
def test_every_form_is_hidden(name: str) -> None:
    value = SECRETS[name]
    redactor = Redactor({name: value})
    hidden = {
        kind: redactor.hide(f"before {form} after")
        for kind, form in forms(value).items()
    }
    pattern = re.compile(f"before .*<secret:{name}>.* after", re.DOTALL)
    assert [kind for kind, text in hidden.items() if not pattern.fullmatch(text)] == []
    assert [
        kind
        for kind, form in forms(value).items()
        if form in hidden[kind] or value in hidden[kind]
    ] == []


def test_hidden_values_can_be_revealed() -> None:
    redactor = Redactor(SECRETS)
    text = f"sign in with {PASSWORD}, then {PIN}{PIN}"
    hidden = redactor.hide(text)
    assert hidden == "sign in with <secret:PASSWORD>, then <secret:PIN><secret:PIN>"
    assert redactor.reveal(hidden) == text
    assert redactor.reveal("<secret:OTHER>") == "<secret:OTHER>"


def test_text_without_secret_stays() -> None:
    text = "hunter, 471, AIza, <secret:OTHER>, {PASSWORD}"
    assert Redactor(SECRETS).hide(text) == text
    assert Redactor({}).hide(text) == text
    assert Redactor({}).reveal(text) == text


@pytest.mark.parametrize(
    ("secrets", "text", "hidden"),
    [
        ({"secret": "secret"}, "a <secret:secret>", "a <secret:secret>"),
        ({"secret": "secret"}, "a secret", "a <secret:secret>"),
        (
            {"SHORT": "apple", "LONG": "apple pie"},
            "apple pie, apple",
            "<secret:LONG>, <secret:SHORT>",
        ),
        (
            {"PIN": "42"},
            "pin = '42', 42 is not 420, 4.2 or a42, NDI=",
            "pin = '<secret:PIN>', <secret:PIN> is not 420, 4.2 or a42, <secret:PIN>",
        ),
        (
            {"PASSWORD": SecretText.of("PASSWORD", PASSWORD)},
            f"{PASSWORD!r} {PASSWORD}",
            "'<secret:PASSWORD>' <secret:PASSWORD>",
        ),
    ],
)
def test_value_is_hidden_as_word(
    secrets: dict[str, str], text: str, hidden: str
) -> None:
    assert Redactor(secrets).hide(text) == hidden


@pytest.mark.parametrize(
    ("secrets", "complaint"),
    [
        ({"PASSWORD": ""}, "the secret 'PASSWORD' must have a value, got ''"),
        (
            {"MY-PASSWORD": "x"},
            "a secret's name must be letters, digits and underscores, got"
            " 'MY-PASSWORD'",
        ),
    ],
)
def test_invalid_secret_is_rejected(secrets: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        Redactor(secrets)


def test_other_secrets_are_hidden_and_typed_where_written() -> None:
    redactor = Redactor(
        {"OWN": "own-value"},
        others=[("OTHER", "other-value"), ("THIRD", "third-value")],
        acts=True,
    )
    assert redactor.reveal("<secret:OWN> <secret:OTHER>") == "own-value <secret:OTHER>"
    assert redactor.hide("type other-value") == "type <secret:OTHER>"
    assert (
        redactor.reveal("<secret:OTHER> <secret:THIRD>") == "other-value <secret:THIRD>"
    )


def test_json_is_hidden_at_every_depth() -> None:
    screenshot = f"sha256:{PIN * 16}"
    args = [{PASSWORD: [PASSWORD, 4711, 4712, True, None, 1.5]}]
    images = [
        screenshot,
        f"see {screenshot}",
    ]
    assert Redactor(SECRETS).hide_json({"args": args, "images": images}) == {
        "args": [
            {
                "<secret:PASSWORD>": [
                    "<secret:PASSWORD>",
                    "<secret:PIN>",
                    4712,
                    True,
                    None,
                    1.5,
                ]
            }
        ],
        "images": [screenshot, "see sha256:" + "<secret:PIN>" * 16],
    }


WORDS = f"I type {PASSWORD} and {PIN}."
SCREEN = FrameRef(PIN * 16, 4711, 4711)
ARGUMENTS: dict[str, Any] = {
    "user": {"name": "alice", "passwords": [PASSWORD, {PIN: API_KEY}]},
    "pin": 4711,
}
RULING = Ruling("allow", WORDS, WORDS, "user")
ACTIONS = [
    TypeText(WORDS, 4711, 4711, press_enter=True),
    OpenUrl(f"https://example.org/?p={quote(PASSWORD)}&key={API_KEY}"),
    CallFunction(API_KEY, ARGUMENTS),
    InvalidAction(WORDS, WORDS),
    KeyCombo(("ctrl", PASSWORD)),
    Click(4711, 4711),
]
PROPOSALS = tuple(
    Proposal(
        action, WORDS, {"name": WORDS, "args": ARGUMENTS}, Confirmation(WORDS, WORDS)
    )
    for action in ACTIONS
)
DECISION = Decision(
    "act", WORDS, PROPOSALS, WORDS, provider_details={"parts": [{"args": ARGUMENTS}]}
)
STEPS = [
    Step(
        number,
        1,
        proposal,
        RULING,
        SCREEN,
        SCREEN,
        WORDS,
        WORDS,
        WORDS,
        "settled",
        text=WORDS,
        model=WORDS,
    )
    for number, proposal in enumerate(PROPOSALS, start=1)
]
BASIC = base64.b64encode(f"alice:{PASSWORD}".encode()).decode()
EVENTS = [
    RunStarted("run", WORDS, "now", WORDS, SCREEN, WORDS, WORDS),
    ModelExchange(
        "planner",
        1,
        {"contents": [WORDS, ARGUMENTS], "basic": BASIC},
        {"text": repr(WORDS)},
        1.0,
        WORDS,
    ),
    TurnDecided(1, DECISION, 1.0),
    *(StepFinished(step) for step in STEPS),
    ApprovalRequest(9, PROPOSALS[0], RULING),
    Judged(Verdict(WORDS, "fails", WORDS, Region(1, 2, 3, 4), SCREEN, WORDS)),
    RunEnded(Outcome.GAVE_UP, WORDS, WORDS),
]


def test_no_form_of_secret_is_in_any_file(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path, "run")
    logger = RunLogger(directory, Redactor(SECRETS))
    for event in EVENTS:
        logger.observe(event)
    written = "\n".join(
        path.read_text(encoding="utf-8")
        for path in directory.path.rglob("*")
        if path.is_file()
    )
    assert written.count("<secret:PASSWORD>") > 100
    for number in (SCREEN.digest, '"width":4711,"height":4711', '"x":4711,"y":4711'):
        written = written.replace(number, "")
    every_form = [
        *chain.from_iterable(forms(value).items() for value in SECRETS.values())
    ]
    assert [kind for kind, form in every_form if form in written] == []
    assert BASIC not in written


LONG = "correct horse 'battery' staple-0451"
PEM = (
    "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END"
    " KEY-----\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "correct horse\n'battery' staple-0451",
        "E     'correct horse '\nE      \"'battery' \"\nE      'staple-0451'",
        json.dumps(json.dumps(json.dumps(LONG))),
        base64.encodebytes(f"alice and bob: {LONG} {LONG} {LONG}".encode()).decode(),
        "… " + LONG[-8:] + " and " + LONG[:8] + " …",
        "'correct horse '\n  \"'batt...",
        (
            "Skipping 24 identical leading characters in diff\n  - orse 'battery'"
            " stap!\n  + orse 'battery' stap?"
        ),
        f"value: <secret:LONG>\n{LONG}",
        "\x1b[31mcorrect horse\x1b[0m 'battery' staple-0451",
        "correct hor\u200bse 'batt\xadery' staple-0451",
        (
            "Skipping 24 identical leading characters in diff\n\x1b[1m\x1b[31mE "
            " \x1b[91m- orse 'ba\x1b[39;49;00mttery'"
            " stap!\x1b[39;49;00m\n\x1b[1m\x1b[31mE  \x1b[92m+ orse\x1b[39;49;00m"
            " 'battery' stap?"
        ),
    ],
)
def test_no_piece_of_value_is_left_for_reader(text: str) -> None:
    hidden = Redactor({"LONG": LONG}).hide_pieces(text)
    assert "<secret:LONG>" in hidden
    pieces = ["corr", "orse", "batt", "ttery", "stap", "0451"]
    assert [piece for piece in pieces if piece in hidden] == []
    encoded = base64.b64encode(LONG.encode()).decode()
    assert encoded[4:20] not in hidden.replace("\n", "")


def test_multiline_value_is_hidden_line_by_line() -> None:
    redactor = Redactor({"KEY": PEM})
    _, first, second, _ = PEM.splitlines()
    hidden = redactor.hide_pieces(f"  - {first}\n?   ^^\n  + {second}")
    assert hidden.count("<secret:KEY>") == 2
    assert "MIIE" not in redactor.hide_pieces(repr(PEM))
    assert "MIIE" not in redactor.hide_pieces(PEM.replace("\n", "\n    "))


@pytest.mark.parametrize(
    "text",
    [
        "a horse and a battery",
        "wait...",
        "E   assert 471 == 12\n",
        "C:\\new\\table",
        "",
        "...",
        "\n\n",
    ],
)
def test_text_without_piece_of_secret_stays(text: str) -> None:
    assert Redactor({"LONG": LONG, "PIN": "4711"}).hide_pieces(text) == text


SHARED = base64.b32encode(b"12345678901234567890").decode()


# of appendix B of RFC 6238
@pytest.mark.parametrize(
    ("moment_s", "code"), [(59, "94287082"), (1111111109, "07081804")]
)
def test_code_is_of_time(moment_s: int, code: str) -> None:
    assert totp(SHARED, digits=8, now=lambda: moment_s) == code
    assert totp(SHARED, now=lambda: moment_s + 0.9) == code[2:]


def test_placeholder_becomes_code() -> None:
    redactor = Redactor({"SHOP_2FA": SHARED})
    before = redactor.reveal("<totp:SHOP_2FA>")
    text = redactor.reveal("<totp:SHOP_2FA> <secret:SHOP_2FA>")
    after = redactor.reveal("<totp:SHOP_2FA>")
    assert text in (f"{before} {SHARED}", f"{after} {SHARED}")
    assert SHARED not in repr(text)
    assert redactor.reveal("<totp:OTHER>") == "<totp:OTHER>"


def test_placeholder_invalid_key_raises_without_it() -> None:
    redactor = Redactor({"PIN": "no-key-1890"})
    with pytest.raises(SettingsError, match=r"'PIN' must be a key in base32") as raised:
        redactor.reveal("<totp:PIN>")
    assert "1890" not in str(raised.value)
