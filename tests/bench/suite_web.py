"""A web program behind a login: fourteen tests of the suite's repository.

suite.py copies it there as test_web.py.
"""

from __future__ import annotations

import os
import shlex
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vnc_use.cli.target import browser_command

SHOP = """
CREATE TABLE products (name VARCHAR(20) PRIMARY KEY, cents INTEGER);
CREATE TABLE customers (name VARCHAR(20) PRIMARY KEY, city VARCHAR(20));
CREATE TABLE orders (customer VARCHAR(20) PRIMARY KEY, pieces INTEGER);
INSERT INTO products VALUES ('Tea', 320), ('Salt', 90), ('Milk', 140);
INSERT INTO customers VALUES ('Alice', 'Oslo'), ('Bob', 'Porto');
INSERT INTO orders VALUES ('Alice', 4), ('Bob', 1);
"""
START = "from sqlite_web.sqlite_web import main; main()"
START_S = 60

pytestmark = pytest.mark.vnc_task(
    "Sign in with the password <secret:SHOP_PASSWORD>",
    expect="the products are listed",
    recording="sign_in",
    secrets=["SHOP_PASSWORD"],
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SHOP)
    return path


@pytest.fixture
def vnc_app(shop: Path, program: Path) -> Iterator[list[str]]:
    port = free_port()
    command = [sys.executable, "-c", START, "--password", "--port", str(port)]
    paths = [str(program), os.environ["SUITE_LIBRARIES"]]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "SQLITE_WEB_PASSWORD": os.environ["SHOP_PASSWORD"],
    }
    with subprocess.Popen(
        [*command, str(shop)], env=environment, stderr=subprocess.DEVNULL
    ) as server:
        await_port(port)
        yield [
            *shlex.split(browser_command()),
            f"http://127.0.0.1:{port}/products/content/",
        ]
        server.terminate()


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


def await_port(port: int) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def rows(shop: Path, query: str) -> Sequence[object]:
    with closing(sqlite3.connect(shop)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.vnc_task("Sort by cents", expect="salt, the cheapest, is at the top")
def test_products_are_sorted() -> None:
    pass


@pytest.mark.parametrize(("name", "cents"), [("Coffee", "450")])
@pytest.mark.vnc_task("Add the product Coffee for <value:cents> cents", expect=None)
def test_product_is_added(
    name: str, cents: str, shop: Path, vnc_desktop: object
) -> None:
    assert (name, int(cents)) in rows(shop, "SELECT name, cents FROM products")


@pytest.mark.vnc_task("Set the price of salt to 95 cents", expect=None)
def test_price_is_changed(shop: Path, vnc_desktop: object) -> None:
    assert ("Salt", 95) in rows(shop, "SELECT name, cents FROM products")


@pytest.mark.vnc_task("Delete the milk", expect="tea and salt are left")
def test_product_is_deleted() -> None:
    pass


@pytest.mark.vnc_task("Query all below 200 cents", expect="there are 2 results")
def test_query_shows_results() -> None:
    pass


@pytest.mark.vnc_task("Execute a query for a table that is not there")
def test_wrong_query_is_reported() -> None:
    pass


@pytest.mark.vnc_task("Log out", expect="the login is shown")
def test_user_logs_out() -> None:
    pass


@pytest.mark.vnc_task("Show the customers", expect="Alice and Bob are listed")
def test_customers_are_listed() -> None:
    pass


@pytest.mark.vnc_task("Add the customer Carol", expect=None)
def test_customer_is_added(shop: Path, vnc_desktop: object) -> None:
    assert ("Carol",) in rows(shop, "SELECT name FROM customers")


@pytest.mark.vnc_task("Add an order of 7 pieces by Carol", expect=None)
def test_order_is_added(shop: Path, vnc_desktop: object) -> None:
    assert ("Carol", 7) in rows(shop, "SELECT customer, pieces FROM orders")


@pytest.mark.vnc_task("Search the tables for ers")
def test_tables_are_searched() -> None:
    pass


@pytest.mark.vnc_task("Show the columns of orders", expect="it has two columns")
def test_columns_are_listed() -> None:
    pass


@pytest.mark.vnc_task("Rename the column pieces to amount", expect=None)
def test_column_is_renamed(shop: Path, vnc_desktop: object) -> None:
    assert rows(shop, "SELECT sum(amount) FROM orders") == [(5,)]


@pytest.mark.vnc_task("Sort the orders by pieces", expect="1 piece is at the top")
def test_orders_are_sorted() -> None:
    pass
