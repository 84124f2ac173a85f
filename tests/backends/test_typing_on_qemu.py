"""Text for a guest of QEMU's, which has no clipboard to share, told by the guest itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vnc_use.backends.vnc import VNCController
from pytest_vnc_use.errors import ActionError
from support.stages.qemu import qemu
from support.stages.stage import Wish
from support.witness_programs import assert_becomes

pytestmark = pytest.mark.desktop


@pytest.mark.slow
def test_a_text_longer_than_the_queue_of_keys(connected: Callable[..., VNCController], tmp_path: Path) -> None:
    """QEMU takes a key event every 10 ms, queues about 340 and drops the rest."""
    text = "".join(map(chr, range(0x20, 0x7F))) + "the quick brown fox jumps over the lazy dog"
    with qemu(tmp_path, Wish()) as stage:
        hands = connected(stage.server)
        hands.type_text(text)
        assert_becomes(stage.heard, [f"key {character!r}" for character in text])
        with pytest.raises(ActionError, match=r"'é' \(U\+00E9\). Nothing was typed"):
            hands.type_text("café")
