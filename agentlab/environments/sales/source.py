"""The data set that every run starts from, as the bytes of an SQLite database that is built once per process."""

import csv
import functools
import sqlite3
from pathlib import Path

DATA = Path(__file__).with_name("data")
MONEY = frozenset({"unit_price", "amount", "total"})
"""Fields in currency units; their columns hold whole cents and end in `_cents`."""

_SCHEMA = """
CREATE TABLE sales (
    sale_id TEXT PRIMARY KEY, receipt TEXT NOT NULL, sold_on TEXT NOT NULL, product_id TEXT NOT NULL,
    region TEXT NOT NULL, quantity INTEGER NOT NULL, unit_price_cents INTEGER NOT NULL, amount_cents INTEGER NOT NULL);
CREATE INDEX sales_by_date ON sales (sold_on);
CREATE TABLE products (
    product_id TEXT PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, unit_price_cents INTEGER NOT NULL,
    stock INTEGER NOT NULL);
CREATE TABLE ledger (month TEXT PRIMARY KEY, total_cents INTEGER NOT NULL, is_closed INTEGER NOT NULL DEFAULT 1);
CREATE TABLE teams (team TEXT PRIMARY KEY, address TEXT NOT NULL);
CREATE TABLE address_book (team TEXT PRIMARY KEY, address TEXT NOT NULL);
CREATE TABLE customers (customer_id TEXT PRIMARY KEY, name TEXT NOT NULL, address TEXT NOT NULL);
CREATE TABLE services (service TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY, request_id TEXT NOT NULL UNIQUE, customer_id TEXT NOT NULL, product_id TEXT NOT NULL,
    quantity INTEGER NOT NULL, total_cents INTEGER NOT NULL, status TEXT NOT NULL);
CREATE TABLE movements (
    movement_id INTEGER PRIMARY KEY, order_id TEXT NOT NULL, product_id TEXT NOT NULL, quantity INTEGER NOT NULL);
CREATE TABLE mails (
    mail_id INTEGER PRIMARY KEY, recipient TEXT NOT NULL, content TEXT NOT NULL, request_id TEXT NOT NULL DEFAULT '',
    mail_key TEXT NOT NULL DEFAULT '');
"""


@functools.cache
def database_image() -> bytes:
    """Return the database with the committed data and no order, movement or mail; immutable, so runs can share it."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(_SCHEMA)
        for name in ("sales", "products", "ledger", "teams", "customers"):
            _fill(connection, name)
        # What the mail program knows; at first the same as the staff directory.
        connection.execute("INSERT INTO address_book SELECT team, address FROM teams")
        connection.commit()
        return connection.serialize()
    finally:
        connection.close()


def column_of(field: str) -> str:
    """Return the column that holds a field."""
    return f"{field}_cents" if field in MONEY else field


def _fill(connection: sqlite3.Connection, table: str) -> None:
    with (DATA / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        fields = next(rows)
        marks = ", ".join("?" * len(fields))
        columns = ", ".join(column_of(field) for field in fields)
        values = (
            [round(float(value) * 100) if field in MONEY else value for field, value in zip(fields, row, strict=True)]
            for row in rows
        )
        connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)
