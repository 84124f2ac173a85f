"""The file of variables for `cua-vnc doctor`: the one that the environment names, else the ini file's."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_vnc_use.settings.env_file import VARIABLE, use_env_file


def use_env_file_of_ini() -> None:
    """Take those of the file that pytest would read in this folder, if the environment names none.

    Raises SettingsError.
    """
    from pytest_vnc_use.cli.init.ini_files import IniFile  # which imports the checks of the doctor

    if not os.environ.get(VARIABLE):
        use_env_file(IniFile.find(Path.cwd()).options.get("vnc_env_file"), Path.cwd())
