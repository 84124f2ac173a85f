"""Changes of what is right into what nobody expects, by a Random, so that a seed makes the same case again."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

DEEP = 12_000
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**400, 1e308, -1e308, 1e-320, 0.5, float("nan")),
    *(float("inf"), float("-inf")),
    *("", " ", "\0", "\ud800", "\x1b[2J\x1b]0;owned\x07", "\u202e", "a" * 5000, "😀" * 300, "../../../../etc/passwd"),
    *("/dev/zero", "/etc/passwd", "..", ".", "C:\\x", "@args.txt", "-x", "nan", "1e999", "9" * 5000, "true", "null"),
    *("{}", "%s%n", "{0.__class__}", "{{7*7}}", "<script>", "'; drop", "${HOME}", "$(id)"),
    *([], {}, [[]], {"": ""}, [None], [1e308, -5], ["x"] * 50, {"x": {"x": {}}}),
)
TOKENS: tuple[bytes, ...] = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\n", b"[", b"]", b"{", b"}", b'"', b"'"),
    *(b'"""', b"\\", b"\\u0000", b"=", b",", b":", b"#", b"nan", b"inf", b"-1", b"1e999", b"9" * 5000),
    *(b"0x" + b"f" * 5000, b"[" * DEEP, b'{"a":' * DEEP, b"x.y." * 500, b"[[rule]]\n", b"[[test]]\n"),
    *(b"[[price]]\n", b"1979-05-27T07:32:00Z", b"0000-00-00", b"25:61:61", b"(" * 5000, b"(?:" * 2000),
    *(b"a{4294967296}", b"(a+)+$", b"(?<=a*)", b"../", b"/dev/zero", b"strict", b"[" * 300),
)


def mutated(random: Random, data: bytes) -> bytes:
    """Return the bytes with one to four changes; now and then, bytes of pure chance."""
    if random.random() < 0.02:
        return random.randbytes(random.choice((0, 1, 10, 300)))
    for _ in range(random.randint(1, 4)):
        data = _changed(random, data)
    return data


def _changed(random: Random, data: bytes) -> bytes:
    at = random.randint(0, len(data))
    end = min(len(data), at + random.choice((1, 1, 2, 8, 64, 1000)))
    match random.randrange(7):
        case 0:
            return data[:at] + random.randbytes(end - at) + data[end:]
        case 1:
            return data[:at] + data[end:]
        case 2:
            return data[:end] + data[at:end] * random.choice((1, 2, 30)) + data[end:]
        case 3:
            return data[:at] + random.choice(TOKENS) + data[at:]
        case 4:
            return data[:at] + random.choice(TOKENS) + data[end:]
        case 5:
            lines = data.split(b"\n")
            random.shuffle(lines)
            return b"\n".join(lines)
        case _:
            return data[:at] if random.random() < 0.3 else data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]


def mutated_json(random: Random, value: Any) -> Any:
    """Return a copy of a JSON value with one to three of its places changed."""
    value = copy.deepcopy(value)
    for _ in range(random.randint(1, 3)):
        value = _with_change(random, value)
    return value


def _with_change(random: Random, value: Any) -> Any:
    holder = [value]
    container, key = random.choice([*_places(holder)])
    match random.randrange(8):
        case 0 | 1 | 2 | 3:
            container[key] = hostile(random)
        case 4 if container is not holder:
            del container[key]
        case 5:
            container[key] = _nested(container[key], random.choice((1, 30, 150)))
        case 6 if isinstance(container[key], list):
            container[key] = container[key] * random.choice((0, 2, 20))
        case 7 if isinstance(container[key], dict):
            container[key][random.choice(("x", "", "kind", "name", "\0"))] = hostile(random)
        case _:
            container[key] = [container[key]]
    return holder[0]


def _places(holder: list[Any]) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    left: list[Any] = [holder]
    while left:
        container = left.pop()
        for key in list(container) if isinstance(container, dict) else range(len(container)):
            found.append((container, key))
            if isinstance(container[key], (dict, list)):
                left.append(container[key])
    return found


def hostile(random: Random) -> Any:
    """Return a value that nobody expects."""
    return copy.deepcopy(random.choice(HOSTILE))


def _nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def text_of(random: Random, value: Any) -> bytes:
    """Return a value as JSON, in a tenth of the cases with changed bytes."""
    text = json.dumps(value).encode()
    return mutated(random, text) if random.random() < 0.1 else text
