"""The variables in which settings, keys and secrets are looked up: the environment's, then those of `vnc_env_file`.

The file's stay out of the environment, so no program that is started here inherits them.
"""

from __future__ import annotations

import os
from collections import ChainMap

from_file: dict[str, str] = {}
"""The variables of the file; `env_file.py` fills it."""
VARIABLES = ChainMap[str, str](os.environ, from_file)
"""The variables to read. One of the environment is stronger than one of the file, even if it is empty."""
