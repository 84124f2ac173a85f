"""The file of variables for `cua-vnc`: the one that the environment names, and for `doctor` also the ini file's."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_vnc_use.settings.env_file import use_env_file

VARIABLE = "VNC_USE_ENV_FILE"


def use_named_env_file() -> None:
    """Take the variables of the file that the environment names, if it names one. Raises SettingsError."""
    use_env_file(os.environ.get(VARIABLE), Path.cwd())


def use_env_file_of_ini() -> None:
    """Take those of the file that pytest would read in this folder, if the environment names none.

    Raises SettingsError.
    """
    from pytest_vnc_use.cli.init.ini_files import IniFile  # which imports the checks of the doctor

    if not os.environ.get(VARIABLE):
        use_env_file(IniFile.find(Path.cwd()).options.get("vnc_env_file"), Path.cwd())
