"""The file of variables for `cua-vnc doctor`: the one that the environment names, else the ini file's."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_vnc_use.settings.env_file import VARIABLE, use_env_file


def use_env_file_of_ini() -> None:
    """Load the variables of the file that `vnc_env_file` names in this folder's ini file.

    VNC_USE_ENV_FILE comes first: if it names a file, this does nothing. Raises SettingsError.
    """
    from pytest_vnc_use.cli.init.ini_files import IniFile  # which imports the checks of the doctor

    if not os.environ.get(VARIABLE):
        use_env_file(IniFile.find(Path.cwd()).options.get("vnc_env_file"), Path.cwd())
