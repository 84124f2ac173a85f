"""The names of known functions and modules: those without a look, and those that return nothing useful."""

from __future__ import annotations

RUNS = frozenset({"run", "reenact", "approve", "deny", "resume"})
"""Methods of an agent that carry out a task."""
SILENT = frozenset(
    "click type_text key scroll drag perform check unmet close stop reset write write_text write_bytes write_file "
    "writelines mkdir touch append add update extend setattr setitem setenv sleep debug info warning log "
    "is_alive".split()
)
"""Methods that do something and return nothing about the product."""
PUTS = frozenset({"append", "extend", "add", "update"})
"""Methods that put a value into a collection."""
UNTELLING = frozenset("isinstance issubclass hasattr callable id type print dir vars locals globals".split())
"""Built-in functions whose results say nothing about the product."""
PURE = frozenset(
    "time datetime random secrets uuid json re math decimal fractions operator itertools functools copy string "
    "textwrap collections dataclasses pprint types typing enum io base64 hashlib statistics numbers pytest _pytest "
    "unittest numpy pandas PIL platform logging threading asyncio inspect locale sys warnings contextlib getpass gc "
    "weakref concurrent multiprocessing shutil tempfile tomllib tomli yaml csv calendar shlex difflib html zlib "
    "struct binascii unicodedata bisect heapq ipaddress zoneinfo array".split()
)
"""Modules whose functions depend only on their arguments, unless they read a file."""
READS = ("load", "read", "open", "from", "genfrom", "memmap")
OS_MODULES = frozenset({"os", "posix", "nt", "posixpath", "ntpath", "genericpath"})
OS_LOOKS = frozenset(
    "exists lexists isfile isdir islink getsize getmtime listdir scandir walk stat lstat read popen system".split()
)
PATH_LOOKS = frozenset(
    "read_text read_bytes open exists is_file is_dir is_symlink stat lstat iterdir glob rglob samefile".split()
)
OF_THE_PLACE = frozenset({"exists", "is_dir", "isdir", "lexists", "stat", "lstat"})
"""Calls that say that a folder is there, and nothing about its content."""
CONNECTED = frozenset(
    "sqlite3 _sqlite3 psycopg psycopg2 pymysql MySQLdb mysql asyncpg aiosqlite sqlalchemy peewee pymongo redis "
    "requests httpx aiohttp urllib3 playwright selenium paramiko fabric asyncssh serial pexpect ptyprocess imaplib "
    "poplib ftplib socket _socket ssl http Xlib docker kubernetes boto3 botocore pika kafka confluent_kafka grpc zmq "
    "paho websocket websockets win32com comtypes dbus gi jeepney pytest_vnc vncdotool asyncvnc".split()
)
"""Packages whose objects answer over connections that may have been made before the test."""
OF_TEXT = frozenset(name for name in dir(str) if not name.startswith("_")) - {
    "count",
    "find",
    "format",
    "index",
    "join",
}
"""Methods of a text, which depend on the text only. Names that other objects have too are left out."""
OF_A_VERDICT = frozenset({"kind", "reason", "claim"})
ASSERTING = frozenset(
    "assert_equal assert_array_equal assert_allclose assert_almost_equal assert_approx_equal assert_array_almost_equal "
    "assert_array_less assert_string_equal assert_array_max_ulp assert_array_almost_equal_nulp assert_raises "
    "assert_raises_regex assert_frame_equal assert_series_equal assert_index_equal assert_extension_array_equal "
    "assert_called assert_called_once assert_called_with assert_called_once_with assert_any_call assert_has_calls "
    "assert_not_called assert_awaited assert_awaited_once assert_that assert_".split()
)
"""Names by which numpy, pandas, unittest and its mocks assert; names like assertEqual are known by their form."""
MAY_BE_NONE = frozenset(
    "fetchone get search match fullmatch find first one_or_none scalar scalar_one_or_none getenv which poll next pop "
    "find_element query_selector getattr loads load group setdefault getbbox".split()
)
"""Calls of other packages that may return None; all others never do."""
