"""Keysyms and the names of their keys."""

from __future__ import annotations

import pytest

from pytest_vnc_use.keyboard.keysyms import keysym_of, name_of


@pytest.mark.parametrize("character", ["a", "ä", "я", "你", "😀"])
def test_the_name_of_a_characters_key_is_the_character(character: str) -> None:
    assert name_of(keysym_of(character)) == character
