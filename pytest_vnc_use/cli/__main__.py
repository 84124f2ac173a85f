"""The entry point of `python -m pytest_vnc_use.cli`, which is `cua-vnc`."""

import sys

from pytest_vnc_use.cli import main

sys.exit(main())
