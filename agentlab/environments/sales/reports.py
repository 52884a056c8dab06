"""The tools for sales reports. A query reports what is there; only a check says whether it is right."""

import re
from collections.abc import Iterable
from typing import Any

from agentlab.environments.sales.mail import Mail, Mailer, mail_key, sent
from agentlab.environments.sales.state import SalesState
from agentlab.errors import BadArguments
from agentlab.records import JsonObject, ToolResult
from agentlab.tools import tool

MAIL_TIMEOUT_S = 45.0
ADDRESS = re.compile(r"[^@\s,;<>\"]+@[^@\s,;<>\"]+\.[^@\s,;<>\"]+", re.ASCII)
PRODUCT_ID = re.compile(r"\bP\d{3}\b", re.ASCII)
Rows = list[dict[str, Any]] | str
"""Rows, or the handle that stands for them: the session puts the rows in its place before the tool runs."""


class ReportTools:
    """The tools of one run that read sales, write a report and mail it.

    All but the mail run inline: a statement on the in-memory database takes a few milliseconds at most.
    """

    def __init__(self, state: SalesState, mailer: Mailer) -> None:
        self._state = state
        self._mailer = mailer

    @tool(timeout_s=None, zh="查询某个月的全部销售记录，每行是一种售出的商品。")
    def query_sales_data(self, month: str) -> ToolResult:
        """List all sales of a month, one row for each product sold.

        Args:
            month: Month as YYYY-MM; last_month and this_month count from the task's date.
        """
        month = self._month(month)
        with self._state.transaction() as database:
            rows = database.execute("SELECT * FROM sales WHERE sold_on LIKE ? ORDER BY sale_id", (f"{month}-%",))
            sales = [_in_currency(row) for row in rows]
        if not sales:
            return self._no_sales(month)
        return ToolResult(True, subject=month, data=sales, message=f"{len(sales)} rows.")

    @tool(timeout_s=None, zh="按商品汇总销售额，从高到低排序，返回前 limit 个商品。")
    def aggregate_and_sort(self, data: Rows, limit: int) -> ToolResult:
        """Add up the sales amount of each product, sort from high to low, and return the first ones.

        Args:
            data: Rows from query_sales_data, or their handle (for example "result_1").
            limit: How many products to return.
        """
        if limit < 1:
            raise BadArguments(f"limit must be at least 1, not {limit}.")
        totals: dict[str, list[int]] = {}
        for row in _rows("data", data, ("product_id", "quantity", "amount")):
            sums = totals.setdefault(str(row["product_id"]), [0, 0])
            sums[0] += round(row["amount"] * 100)
            sums[1] += row["quantity"]
        ranked = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))[:limit]
        top = [{"product_id": id, "amount": cents / 100, "quantity": quantity} for id, (cents, quantity) in ranked]
        return ToolResult(True, data=top, message=f"{len(top)} of {len(totals)} products.")

    @tool(timeout_s=None, zh="一次查询多个商品的信息：名称、类别、单价、库存。")
    def batch_get_product_info(self, ids: list[str] | str) -> ToolResult:
        """Look up several products at once: name, category, unit price and stock.

        Args:
            ids: Product ids, for example ["P001", "P002"].
        """
        if isinstance(ids, str) or not all(isinstance(id, str) for id in ids):
            raise BadArguments('ids must be a list of product ids such as ["P001", "P002"].')
        wanted = list(dict.fromkeys(ids))
        with self._state.transaction() as database:
            rows = [database.execute("SELECT * FROM products WHERE product_id = ?", (id,)).fetchone() for id in wanted]
        missing = [id for id, row in zip(wanted, rows, strict=True) if row is None]
        message = f"Not in the catalogue: {', '.join(missing)}." if missing else f"{len(wanted)} products."
        return ToolResult(True, data=[_in_currency(row) for row in rows if row is not None], message=message)

    @tool(timeout_s=None, zh="用排名和商品信息生成报告，返回报告内容。")
    def generate_report(self, top: Rows, details: Rows) -> ToolResult:
        """Write the report from a ranking and the products' details; returns its content.

        Args:
            top: Ranking from aggregate_and_sort, or its handle.
            details: Products from batch_get_product_info, or their handle.
        """
        ranking = _rows("top", top, ("product_id", "amount"))
        products = {row["product_id"]: row for row in _rows("details", details, ("product_id", "name"))}
        if not ranking:
            raise BadArguments("top is empty: there is nothing to report.")
        lines = [f"Sales report: the {len(ranking)} products with the highest sales"]
        for place, row in enumerate(ranking, 1):
            product = products.get(row["product_id"], {"name": "not in the details"})
            lines.append(f"{place}. {row['product_id']} {product['name']}: {row['amount']:.2f}")
        ids = [row["product_id"] for row in ranking]
        return ToolResult(True, data={"content": "\n".join(lines), "product_ids": ids})

    @tool(
        effect="irreversible",
        permission="ask",
        timeout_s=MAIL_TIMEOUT_S,
        zh="发送一封邮件；发出后无法撤回。",
    )
    def send_email(self, to: str, content: str) -> ToolResult:
        """Send one mail; it cannot be taken back.

        Args:
            to: Mail address of the recipient.
            content: Text of the mail, for example the content of a report.
        """
        if not ADDRESS.fullmatch(to):
            raise BadArguments(f"to must be one mail address such as name@shop.example, not {to[:80]!r}.")
        if not content.strip():
            raise BadArguments("content is empty: nothing was sent.")
        return self._mail(Mail(mail_key("send_email", {"to": to, "content": content}), to, "Sales report", content))

    @tool(timeout_s=None, zh="检查某个月的销售合计是否与总账一致。")
    def check_totals(self, month: str) -> ToolResult:
        """Check whether the sales of a month add up to the total in the ledger.

        Args:
            month: Month as YYYY-MM; last_month and this_month count from the task's date.
        """
        month = self._month(month)
        with self._state.transaction() as database:
            summed = database.execute(
                "SELECT sum(amount_cents) AS cents FROM sales WHERE sold_on LIKE ?", (f"{month}-%",)
            ).fetchone()["cents"]
            entry = database.execute("SELECT * FROM ledger WHERE month = ?", (month,)).fetchone()
        if summed is None or entry is None:
            return self._no_sales(month)
        if not entry["is_closed"]:
            message = f"The ledger of {month} is not closed yet, so there is no total to compare with."
            return ToolResult(False, subject=month, message=message, error_kind="not_closed")
        total = entry["total_cents"]
        data = {"month": month, "sum": summed / 100, "ledger": total / 100}
        message = f"The sales add up to {summed / 100:.2f}; the ledger has {total / 100:.2f}."
        return ToolResult(True, summed == total, check="totals_match", subject=month, data=data, message=message)

    @tool(timeout_s=None, zh="检查某个月的销售记录有没有重复：同一收据上的同一商品只能出现一次。")
    def check_duplicates(self, month: str) -> ToolResult:
        """Check that no sale of a month is recorded twice: a product stands once on a receipt.

        Args:
            month: Month as YYYY-MM; last_month and this_month count from the task's date.
        """
        month = self._month(month)
        with self._state.transaction() as database:
            rows = database.execute(
                "SELECT receipt, product_id, count(*) AS times FROM sales WHERE sold_on LIKE ? "
                "GROUP BY receipt, product_id",
                (f"{month}-%",),
            ).fetchall()
        if not rows:
            return self._no_sales(month)
        repeated = [row for row in rows if row["times"] > 1]
        data = {"month": month, "repeated": repeated}
        message = f"{len(repeated)} sales are recorded more than once."
        return ToolResult(True, not repeated, check="no_duplicates", subject=month, data=data, message=message)

    @tool(timeout_s=None, zh="检查某个月售出的商品是否都在商品目录中。")
    def check_products(self, month: str) -> ToolResult:
        """Check that every product sold in a month is in the catalogue.

        Args:
            month: Month as YYYY-MM; last_month and this_month count from the task's date.
        """
        month = self._month(month)
        with self._state.transaction() as database:
            rows = database.execute(
                "SELECT DISTINCT sales.product_id AS id, products.product_id IS NOT NULL AS is_known FROM sales "
                "LEFT JOIN products USING (product_id) WHERE sold_on LIKE ? ORDER BY id",
                (f"{month}-%",),
            ).fetchall()
        if not rows:
            return self._no_sales(month)
        unknown = [row["id"] for row in rows if not row["is_known"]]
        data = {"month": month, "sold": len(rows), "unknown": unknown}
        message = f"{len(unknown)} of {len(rows)} products are not in the catalogue."
        return ToolResult(True, not unknown, check="products_known", subject=month, data=data, message=message)

    @tool(timeout_s=None, zh="查询通讯录中某个团队的邮件地址，并与员工名录核对。")
    def check_recipient(self, team: str) -> ToolResult:
        """Look up a team's mail address in the address book and check it against the staff directory.

        Args:
            team: Name of the team, for example operations.
        """
        with self._state.transaction() as database:
            row = database.execute(
                "SELECT address_book.address AS address, teams.address AS official FROM address_book "
                "JOIN teams USING (team) WHERE team = ?",
                (team,),
            ).fetchone()
            known = [row["team"] for row in database.execute("SELECT team FROM teams ORDER BY team")]
        if row is None:
            message = f"There is no team {team[:80]}. Teams: {', '.join(known)}."
            return ToolResult(False, subject=team, message=message, error_kind="not_found")
        passed = row["address"] == row["official"]
        verb = "agrees with" if passed else "differs from"
        data = {"team": team, "address": row["address"]}
        message = f"The address {row['address']} {verb} the staff directory."
        return ToolResult(True, passed, check="recipient_valid", subject=team, data=data, message=message)

    def _mail(self, mail: Mail) -> ToolResult:
        """Deliver a mail and keep it in the run's database, or say why it was not sent."""
        with self._state.transaction() as database:
            service = database.execute("SELECT state FROM services WHERE service = 'mail'").fetchone()
        if service["state"] == "down":
            return _unsent(
                mail, "mail_server_down", "The mail server does not accept mail at the moment; nothing was sent."
            )
        if refusal := self._mailer.send(mail):
            return _unsent(mail, "recipient_refused", refusal)
        self._state.add_mail(mail, once=self._mailer.outbox is not None)
        return sent(mail.to, mail.request_id)

    def _month(self, text: str) -> str:
        """The month that an argument names, as YYYY-MM."""
        today = self._state.today
        words = text.strip().lower().replace(" ", "_").replace("-", "_")
        if words in ("this_month", "last_month"):
            number = today.year * 12 + today.month - 1 - (words == "last_month")
            return f"{number // 12}-{number % 12 + 1:02d}"
        if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", text.strip(), re.ASCII):
            raise BadArguments(f"month must be YYYY-MM such as 2026-02, last_month or this_month, not {text[:80]!r}.")
        return text.strip()

    def _no_sales(self, month: str) -> ToolResult:
        with self._state.transaction() as database:
            first, last = (
                database.execute("SELECT min(month) AS low, max(month) AS high FROM ledger").fetchone().values()
            )
        message = f"There are no sales of {month}; the data reach from {first} to {last}."
        return ToolResult(False, subject=month, message=message, error_kind="not_found")


def mentioned_products(texts: Iterable[str]) -> list[str]:
    """Return the product ids that texts name, each once, in the order of their first mention."""
    return list(dict.fromkeys(id for text in texts for id in PRODUCT_ID.findall(text)))


def _unsent(mail: Mail, error_kind: str, message: str) -> ToolResult:
    visible = {f"confirmation_sent@{mail.request_id}": "failed"} if mail.request_id else {}
    return ToolResult(
        False, subject=mail.request_id or mail.to, message=message, error_kind=error_kind, visible=visible
    )


def _in_currency(row: JsonObject) -> JsonObject:
    """A row of the database with amounts in currency units."""
    return {
        name.removesuffix("_cents"): value / 100 if name.endswith("_cents") else value for name, value in row.items()
    }


def _rows(name: str, value: Rows, needed: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of an argument, each with the needed fields.

    Raises:
        BadArguments: a handle that stands for nothing, or a row without a field.
    """
    if isinstance(value, str):
        raise BadArguments(f"{name} is {value[:80]!r}, which is no handle of an earlier result. Pass it, or the rows.")
    for number, row in enumerate(value):
        if not isinstance(row, dict):
            raise BadArguments(f"{name}[{number}] is no row.")
        if missing := [field for field in needed if field not in row]:
            raise BadArguments(f"{name}[{number}] has no {missing[0]}. Needed: {', '.join(needed)}.")
        if wrong := [f for f in ("amount", "quantity") if f in needed and not _is_number(row[f])]:
            raise BadArguments(f"{name}[{number}].{wrong[0]} is no number.")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
