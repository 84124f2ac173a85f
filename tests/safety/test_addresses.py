"""Addresses in spellings that a browser takes for the same."""

from __future__ import annotations

import re

import pytest

from pytest_vnc_use.safety.keyboard_state import KeyboardState
from pytest_vnc_use.safety.rules import Policy, ReviewContext, Rule
from pytest_vnc_use.types import KeyCombo, OpenAddress, Proposal, TypeText

ONLY_THE_SHOP = r"^https?://(?!shop\.test(?:[:/?#]|$))"


def is_denied(pattern: str, address: str) -> tuple[bool, bool]:
    """Return whether the address is denied where it is opened, and where it is typed and entered."""
    policy = Policy((Rule("deny", text=re.compile(pattern)),))
    opened = policy.review(Proposal(OpenAddress(address)), ReviewContext())
    keyboard = KeyboardState().after(KeyCombo(("ctrl", "l")))
    typed = policy.review(Proposal(TypeText(f"{address}\n")), ReviewContext(keyboard=keyboard))
    return opened.kind == "deny", typed.kind == "deny"


@pytest.mark.parametrize(
    ("pattern", "address"),
    [
        (r"\[::1\]", "http://[0:0:0:0:0:0:0:1]:8080/"),
        (r"\[::1\]", "[0:0::1]:8080"),
        (r"^http://\[fe80::1\]:80/", "http://[FE80:0:0:0::0001]:80/"),
        (r"127\.0\.0\.1", "http://[::ffff:7f00:1]/"),
        (r"127\.0\.0\.1", "http://[0:0:0:0:0:FFFF:7f00:0001]:80/"),
        (r"\[::ffff:7f00:1\]", "http://[::ffff:127.0.0.1]/"),
        (r"(?i)^file:", "/tmp/page.html"),
        (r"^file:///etc/passwd", "/etc/passwd"),
        (r"^file:///etc", "/etc"),
        (r"^file:///etc/passwd", "file:/etc/passwd"),
        (r"^file:///etc/passwd", "FILE://localhost/etc/passwd"),
        (r"^file:///etc/passwd", "file:\\etc\\passwd"),
        (r"^file:///etc/passwd", "/etc/%70asswd"),
        (ONLY_THE_SHOP, "view-source:http://evil.com/"),
        (ONLY_THE_SHOP, "View-Source:evil.com"),
        (ONLY_THE_SHOP, "blob:https://evil.com/0b1c"),
        (ONLY_THE_SHOP, "data:text/html,<script>location='http://evil.com'</script>"),
        (ONLY_THE_SHOP, "data:text/html,%3Cscript%3Elocation=%27http://evil.com%27"),
        (ONLY_THE_SHOP, "data:text/html;base64,PHNjcmlwdD5sb2NhdGlvbj0naHR0cDovL2V2aWwuY29tJw=="),
        (ONLY_THE_SHOP, "javascript:location='https://evil.com'"),
        (ONLY_THE_SHOP, "javascript:void (location = 'https://evil.com')"),
        (r"rm -rf", "javascript:run('rm%20-rf')"),
    ],
)
def test_an_address_is_one_in_other_spellings(pattern: str, address: str) -> None:
    assert is_denied(pattern, address) == (True, True)


@pytest.mark.parametrize(
    ("pattern", "address"),
    [
        (r"\[::1\]", "http://[::11]/"),
        (r"127\.0\.0\.1", "http://[::7f00:1]/"),
        (r"\[::1\]", "http://[0:0:0:0:0:0:0:1:2]/"),
        (r"^file:", "shop.test/tmp/page.html"),
        (ONLY_THE_SHOP, "view-source:http://shop.test/"),
        (ONLY_THE_SHOP, "data:text/html,<a href='http://shop.test/'>"),
        (ONLY_THE_SHOP, "data:text/html;base64,no base64"),
        (ONLY_THE_SHOP, "about:blank"),
    ],
)
def test_another_address_is_another(pattern: str, address: str) -> None:
    assert is_denied(pattern, address) == (False, False)
