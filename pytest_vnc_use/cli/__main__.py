"""`python -m pytest_vnc_use.cli` is `cua-vnc`."""

import sys

from pytest_vnc_use.cli import main

sys.exit(main())
