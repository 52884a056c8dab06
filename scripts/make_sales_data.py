"""Write the data of the suite `sales` (`agentlab/environments/sales/data/*.csv`): invented, the same on every run.

Only `Random.random` is used: its values are the same in every Python version, those of `choice` and `shuffle` are not.
A test compares the committed files with what this script makes.
"""

import calendar
import csv
import datetime
import io
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

TARGET = Path(__file__).parent.parent / "agentlab" / "environments" / "sales" / "data"
SEED = 20260309
FIRST_YEAR, N_MONTHS = 2025, 18
ROWS_PER_MONTH = (285, 320)
RETURN_SHARE, DISCOUNT_SHARE = 0.02, 0.08
REGIONS = ("north", "east", "south", "west")
QUANTITIES = (1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8, 10, 12)

# name, category, price
PRODUCTS = (
    ("Desk lamp", "lighting", 45.0),
    ("Floor lamp", "lighting", 89.0),
    ("LED panel", "lighting", 129.0),
    ("Reading light", "lighting", 24.5),
    ("Office chair", "furniture", 219.0),
    ("Standing desk", "furniture", 489.0),
    ("Side table", "furniture", 75.0),
    ("Bookshelf", "furniture", 149.0),
    ("Filing cabinet", "furniture", 179.0),
    ("Whiteboard", "furniture", 99.0),
    ("Mechanical keyboard", "computing", 119.0),
    ("Wireless mouse", "computing", 39.0),
    ("Monitor 27 inch", "computing", 299.0),
    ("Monitor arm", "computing", 69.0),
    ("USB-C dock", "computing", 159.0),
    ("Webcam", "computing", 59.0),
    ("Headset", "computing", 79.0),
    ("External drive", "computing", 94.0),
    ("Laser printer", "printing", 249.0),
    ("Label printer", "printing", 109.0),
    ("Toner black", "printing", 64.0),
    ("Toner colour", "printing", 84.0),
    ("Printer paper box", "printing", 27.5),
    ("Label roll", "printing", 8.9),
    ("Notebook A5", "stationery", 6.5),
    ("Gel pen set", "stationery", 11.9),
    ("Stapler", "stationery", 14.5),
    ("Desk organiser", "stationery", 22.0),
    ("Sticky notes pack", "stationery", 7.8),
    ("Marker set", "stationery", 16.4),
    ("Coffee machine", "kitchen", 349.0),
    ("Electric kettle", "kitchen", 42.0),
    ("Water filter", "kitchen", 34.0),
    ("Mug set", "kitchen", 19.9),
    ("Air purifier", "climate", 199.0),
    ("Desk fan", "climate", 32.0),
    ("Heater", "climate", 85.0),
    ("Humidifier", "climate", 54.0),
    ("Shredder", "security", 139.0),
    ("Cable lock", "security", 29.0),
)
TEAMS = ("operations", "finance", "management", "purchasing", "marketing", "warehouse")
CUSTOMERS = (
    "Aspen Books", "Birch Legal", "Cedar Clinic", "Dune Travel", "Elm Studio", "Fjord Foods",
    "Grove School", "Harbor Labs", "Iris Florist", "Juniper Hotel", "Kelp Diving", "Linden Press",
)  # fmt: skip

Item = TypeVar("Item")
Row = dict[str, object]


class Draw:
    """Random decisions from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, count: int) -> int:
        """Return an integer from 0 to count - 1."""
        return int(self._random.random() * count)

    def hit(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability

    def between(self, low: float, high: float) -> float:
        """Return a number from low to high."""
        return low + (high - low) * self._random.random()

    def one_of(self, items: Sequence[Item], weights: Sequence[float]) -> Item:
        """Return one item, drawn by weight."""
        place = self._random.random() * sum(weights)
        for item, weight in zip(items, weights, strict=True):
            place -= weight
            if place < 0:
                return item
        return items[-1]


def tables() -> dict[str, list[Row]]:
    """Return the rows of every file by its name without ending."""
    draw = Draw(SEED)
    products: list[Row] = [
        {
            "product_id": f"P{n:03d}",
            "name": name,
            "category": category,
            "unit_price": price,
            "stock": 20 + draw.below(180),
        }
        for n, (name, category, price) in enumerate(PRODUCTS, 1)
    ]
    sales: list[Row] = []
    for number in range(N_MONTHS):
        year, month = FIRST_YEAR + number // 12, number % 12 + 1
        sales += _month(draw, products, year, month, len(sales))
    months = sorted({str(row["sold_on"])[:7] for row in sales})
    totals = {month: sum(_cents(row) for row in sales if str(row["sold_on"]).startswith(month)) for month in months}
    return {
        "products": products,
        "sales": sales,
        "ledger": [{"month": month, "total": cents / 100} for month, cents in totals.items()],
        "teams": [{"team": team, "address": f"{team}@shop.example"} for team in TEAMS],
        "customers": [
            {"customer_id": f"C{n:03d}", "name": name, "address": f"orders@{name.split()[0].lower()}.example"}
            for n, name in enumerate(CUSTOMERS, 1)
        ],
    }


def files() -> dict[str, str]:
    """Return the text of every CSV file by its name."""
    written = {}
    for name, rows in tables().items():
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        written[f"{name}.csv"] = text.getvalue()
    return written


def _month(draw: Draw, products: list[Row], year: int, month: int, n_before: int) -> list[Row]:
    """The sales of one month by day; what is in demand shifts from month to month."""
    demand = [draw.between(0.2, 1.0) ** 2 / float(str(p["unit_price"])) ** 0.35 for p in products]
    days = [datetime.date(year, month, day + 1) for day in range(calendar.monthrange(year, month)[1])]
    day_weights = [0.4 if day.weekday() >= 5 else 1.0 for day in days]
    n_rows = ROWS_PER_MONTH[0] + draw.below(ROWS_PER_MONTH[1] - ROWS_PER_MONTH[0] + 1)
    lines: list[tuple[datetime.date, str, Row]] = []
    n_receipts = 0
    while len(lines) < n_rows:
        n_receipts += 1
        receipt = f"R{year % 100}{month:02d}{n_receipts:04d}"
        day, region = draw.one_of(days, day_weights), draw.one_of(REGIONS, (3, 4, 2, 3))
        chosen: list[Row] = []
        for _ in range(1 + draw.below(3)):
            product = draw.one_of(products, demand)
            if product not in chosen:
                chosen.append(product)
        lines += [(day, receipt, _line(draw, product, region)) for product in chosen]
    lines.sort(key=lambda line: line[:2])
    return [
        {"sale_id": f"S{n_before + n:05d}", "receipt": receipt, "sold_on": day.isoformat(), **line}
        for n, (day, receipt, line) in enumerate(lines[:n_rows], 1)
    ]


def _line(draw: Draw, product: Row, region: str) -> Row:
    price = float(str(product["unit_price"]))
    if draw.hit(DISCOUNT_SHARE):
        price = round(price * 0.9, 2)
    quantity = QUANTITIES[draw.below(len(QUANTITIES))]
    if price > 150:
        quantity = 1 + quantity // 4
    if draw.hit(RETURN_SHARE):
        quantity = -1
    amount = round(round(price * 100) * quantity / 100, 2)
    return {
        "product_id": product["product_id"],
        "region": region,
        "quantity": quantity,
        "unit_price": price,
        "amount": amount,
    }


def _cents(row: Row) -> int:
    return round(float(str(row["amount"])) * 100)


if __name__ == "__main__":
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (TARGET / name).write_text(text, encoding="utf-8", newline="\n")
