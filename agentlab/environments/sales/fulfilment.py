"""The tools that fulfil a customer's request: an order, the stock it takes, the confirmation, and how to undo them."""

from sqlite3 import Connection

from agentlab.environments.sales.mail import Mail, mail_key
from agentlab.environments.sales.reports import MAIL_TIMEOUT_S, ReportTools
from agentlab.errors import BadArguments
from agentlab.records import JsonObject, ToolResult
from agentlab.tools import tool

FIRST_ORDER = 5001
_ORDER = "SELECT * FROM orders WHERE {} = ?"
_DEDUCTED = "SELECT coalesce(-sum(quantity), 0) AS n FROM movements WHERE order_id = ?"
_ON_HAND = (
    "SELECT stock + (SELECT coalesce(sum(quantity), 0) FROM movements WHERE movements.product_id = products.product_id)"
    " AS n FROM products WHERE product_id = ?"
)


class SalesTools(ReportTools):
    """All tools of one run of the suite."""

    @tool(effect="write", compensate="cancel_order", timeout_s=None, zh="为客户的请求创建订单，返回订单编号和总价。")
    def create_order(self, request_id: str, customer_id: str, product_id: str, quantity: int) -> ToolResult:
        """Create the order for a customer's request; returns its id and total.

        Args:
            request_id: Id of the request.
            customer_id: Id of the customer.
            product_id: Id of the product.
            quantity: Number of pieces.
        """
        if quantity < 1:
            raise BadArguments(f"quantity must be at least 1, not {quantity}.")
        with self._state.transaction() as database:
            if database.execute(_ORDER.format("request_id"), (request_id,)).fetchone():
                return ToolResult(
                    False,
                    subject=request_id,
                    message=f"{request_id} has an order already.",
                    error_kind="already_ordered",
                )
            if not database.execute("SELECT 1 FROM customers WHERE customer_id = ?", (customer_id,)).fetchone():
                return _not_found("Customer", customer_id)
            product = database.execute("SELECT * FROM products WHERE product_id = ?", (product_id,)).fetchone()
            if product is None:
                return _not_found("Product", product_id)
            cents = product["unit_price_cents"] * quantity
            if _state_of(database, "pricing") == "wrong":
                cents = cents * 11 // 10
            number = database.execute("SELECT count(*) AS n FROM orders").fetchone()["n"]
            order_id = f"ORDER{FIRST_ORDER + number}"
            database.execute(
                "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, 'open')",
                (order_id, request_id, customer_id, product_id, quantity, cents),
            )
        data = {"order_id": order_id, "product_id": product_id, "quantity": quantity, "total": cents / 100}
        return ToolResult(True, subject=request_id, data=data, message=f"{order_id} is created.")

    @tool(effect="idempotent", timeout_s=None, zh="取消订单。不会退回已扣减的库存，请用 restore_stock。")
    def cancel_order(self, order_id: str) -> ToolResult:
        """Cancel an order. Stock that was deducted for it is put back by restore_stock, not by this.

        Args:
            order_id: Id of the order, from create_order.
        """
        with self._state.transaction() as database:
            order = database.execute(_ORDER.format("order_id"), (order_id,)).fetchone()
            if order is None:
                return _not_found("Order", order_id)
            database.execute("UPDATE orders SET status = 'cancelled' WHERE order_id = ?", (order_id,))
            return _cancelled(database, order)

    @tool(effect="write", compensate="restore_stock", timeout_s=None, zh="为订单扣减库存。")
    def deduct_stock(self, order_id: str, product_id: str, quantity: int) -> ToolResult:
        """Take the pieces of an order out of the stock.

        Args:
            order_id: Id of the order, from create_order.
            product_id: Id of the product.
            quantity: Number of pieces.
        """
        if quantity < 1:
            raise BadArguments(f"quantity must be at least 1, not {quantity}.")
        with self._state.transaction() as database:
            order = database.execute(_ORDER.format("order_id"), (order_id,)).fetchone()
            if order is None:
                return _not_found("Order", order_id)
            service = _state_of(database, "stock")
            if service == "fails_once":
                database.execute("UPDATE services SET state = 'up' WHERE service = 'stock'")
            if service in ("fails_once", "down"):
                return _no_stock_service(order["request_id"])
            left = database.execute(_ON_HAND, (product_id,)).fetchone()
            if left is None:
                return _not_found("Product", product_id)
            refusal = _refused_deduction(database, order, product_id, quantity, left["n"])
            if refusal is not None:
                return refusal
            taken = 2 * quantity if service == "deducts_twice" else quantity
            _move(database, order_id, product_id, -taken)
        data = {"order_id": order_id, "product_id": product_id, "quantity": quantity}
        return ToolResult(True, subject=order["request_id"], data=data, message=f"Stock is deducted for {order_id}.")

    @tool(effect="idempotent", timeout_s=None, zh="把为订单扣减的库存退回。")
    def restore_stock(self, order_id: str) -> ToolResult:
        """Put the stock back that was deducted for an order.

        Args:
            order_id: Id of the order, from create_order.
        """
        with self._state.transaction() as database:
            order = database.execute(_ORDER.format("order_id"), (order_id,)).fetchone()
            if order is None:
                return _not_found("Order", order_id)
            if _state_of(database, "stock") == "down":
                return _no_stock_service(order["request_id"])
            rows = database.execute(
                "SELECT product_id, -sum(quantity) AS n FROM movements WHERE order_id = ? GROUP BY product_id",
                (order_id,),
            ).fetchall()
            for row in rows:
                if row["n"]:
                    _move(database, order_id, row["product_id"], row["n"])
        restored = sum(row["n"] for row in rows)
        data = {"order_id": order_id, "restored": restored}
        return ToolResult(True, subject=order["request_id"], data=data, message=f"{restored} pieces are put back.")

    @tool(
        effect="irreversible",
        permission="ask",
        timeout_s=MAIL_TIMEOUT_S,
        zh="给客户发送订单确认邮件；发出后无法撤回。",
    )
    def send_confirmation(self, order_id: str) -> ToolResult:
        """Mail the customer the confirmation of an order; it cannot be taken back.

        Args:
            order_id: Id of the order, from create_order.
        """
        with self._state.transaction() as database:
            order = database.execute(_ORDER.format("order_id"), (order_id,)).fetchone()
            if order is None:
                return _not_found("Order", order_id)
            customer = database.execute(
                "SELECT * FROM customers WHERE customer_id = ?", (order["customer_id"],)
            ).fetchone()
        request_id = order["request_id"]
        if order["status"] != "open":
            message = f"{order_id} is cancelled, so there is nothing to confirm."
            return ToolResult(False, subject=request_id, message=message, error_kind="order_cancelled")
        content = f"Your request {request_id} is confirmed as {order_id}: {order['quantity']} x {order['product_id']}."
        key = mail_key("send_confirmation", {"order_id": order_id})
        return self._mail(Mail(key, customer["address"], f"Order {order_id}", content, request_id))

    @tool(timeout_s=None, zh="检查请求对应订单的总价是否等于数量乘以目录单价。")
    def check_order_total(self, request_id: str) -> ToolResult:
        """Check whether the total of a request's order is the quantity times the price in the catalogue.

        Args:
            request_id: Id of the request.
        """
        with self._state.transaction() as database:
            order = database.execute(
                "SELECT total_cents, quantity * unit_price_cents AS right_cents FROM orders JOIN products "
                "USING (product_id) WHERE request_id = ?",
                (request_id,),
            ).fetchone()
        if order is None:
            return _no_order(request_id)
        total, right = order["total_cents"], order["right_cents"]
        message = f"The total is {total / 100:.2f}; by the catalogue it is {right / 100:.2f}."
        return _check("total_valid", request_id, total == right, {"total": total / 100}, message)

    @tool(timeout_s=None, zh="检查为请求扣减的库存是否正好是订单的商品和数量。")
    def check_deduction(self, request_id: str) -> ToolResult:
        """Check whether exactly the pieces of a request's order were taken out of the stock.

        Args:
            request_id: Id of the request.
        """
        with self._state.transaction() as database:
            order = database.execute(_ORDER.format("request_id"), (request_id,)).fetchone()
            if order is None:
                return _no_order(request_id)
            taken = _taken(database, order)
        wanted = {order["product_id"]: order["quantity"]}
        message = f"Ordered: {_pieces(wanted)}; taken out: {_pieces(taken)}."
        return _check("deduction_valid", request_id, taken == wanted, {"ordered": wanted, "taken": taken}, message)

    @tool(timeout_s=None, zh="检查请求是否已履约：有一个未取消的订单，且库存已正好扣减。")
    def check_fulfilment(self, request_id: str) -> ToolResult:
        """Check whether a request is fulfilled: it has an open order whose pieces are out of the stock.

        Args:
            request_id: Id of the request.
        """
        with self._state.transaction() as database:
            order = database.execute(_ORDER.format("request_id"), (request_id,)).fetchone()
            if order is None:
                return _no_order(request_id)
            deducted = database.execute(_DEDUCTED, (order["order_id"],)).fetchone()["n"]
        passed = order["status"] == "open" and deducted == order["quantity"]
        data = {"order_id": order["order_id"], "status": order["status"], "deducted": deducted}
        message = f"{order['order_id']} is {order['status']}; {deducted} of {order['quantity']} pieces are deducted."
        return _check("order_fulfilled", request_id, passed, data, message)

    @tool(timeout_s=None, zh="检查请求的订单确认邮件是否已发给客户。")
    def check_confirmation(self, request_id: str) -> ToolResult:
        """Check whether the confirmation of a request's order was sent to the customer.

        Args:
            request_id: Id of the request.
        """
        with self._state.transaction() as database:
            if not database.execute(_ORDER.format("request_id"), (request_id,)).fetchone():
                return _no_order(request_id)
            count = database.execute("SELECT count(*) AS n FROM mails WHERE request_id = ?", (request_id,)).fetchone()[
                "n"
            ]
        message = f"{count} confirmations of {request_id} were sent."
        return _check("confirmation_sent", request_id, count > 0, {"sent": count}, message)


def fulfilment_facts(database: Connection) -> JsonObject:
    """Return what is true of orders, stock and confirmations, from a transaction's database."""
    orders = database.execute("SELECT * FROM orders ORDER BY request_id").fetchall()
    moved = database.execute("SELECT product_id, sum(quantity) AS n FROM movements GROUP BY product_id").fetchall()
    confirmed = database.execute("SELECT request_id FROM mails WHERE request_id != '' ORDER BY request_id").fetchall()
    open_orders = [order for order in orders if order["status"] == "open"]
    return {
        "open_orders": [order["request_id"] for order in open_orders],
        "cancelled_orders": [order["request_id"] for order in orders if order["status"] == "cancelled"],
        "stock_changes": {row["product_id"]: row["n"] for row in moved if row["n"]},
        "orders_without_stock": [
            order["request_id"]
            for order in open_orders
            if _sums(database, order["order_id"]) != {order["product_id"]: order["quantity"]}
        ],
        "confirmations": [row["request_id"] for row in confirmed],
    }


def _state_of(database: Connection, service: str) -> str:
    return str(database.execute("SELECT state FROM services WHERE service = ?", (service,)).fetchone()["state"])


def _move(database: Connection, order_id: str, product_id: str, quantity: int) -> None:
    database.execute(
        "INSERT INTO movements (order_id, product_id, quantity) VALUES (?, ?, ?)", (order_id, product_id, quantity)
    )


def _taken(database: Connection, order: JsonObject) -> dict[str, int]:
    """Pieces that were taken out of the stock for an order, those included that were put back later."""
    return _sums(database, order["order_id"], "AND quantity < 0")


def _cancelled(database: Connection, order: JsonObject) -> ToolResult:
    """The result of cancelling an order, which shows which criteria are not met for good."""
    request_id, taken = order["request_id"], _taken(database, order)
    confirmed = database.execute("SELECT 1 FROM mails WHERE request_id = ?", (request_id,)).fetchone() is not None
    visible = {f"order_fulfilled@{request_id}": "failed"}
    if taken != {order["product_id"]: order["quantity"]}:
        visible[f"deduction_valid@{request_id}"] = "failed"
    if not confirmed:
        visible[f"confirmation_sent@{request_id}"] = "failed"
    message = (
        f"{order['order_id']} is cancelled, so {request_id} is not fulfilled. Taken out of the stock for it: "
        f"{_pieces(taken)} of {order['quantity']} x {order['product_id']}; a confirmation was "
        f"{'sent' if confirmed else 'not sent'}."
    )
    return ToolResult(True, subject=request_id, message=message, visible=visible)


def _sums(database: Connection, order_id: str, condition: str = "") -> dict[str, int]:
    """Pieces taken out of the stock for an order, by product."""
    rows = database.execute(
        f"SELECT product_id, -sum(quantity) AS n FROM movements WHERE order_id = ? {condition} GROUP BY product_id",
        (order_id,),
    )
    return {row["product_id"]: row["n"] for row in rows if row["n"]}


def _refused_deduction(
    database: Connection, order: JsonObject, product_id: str, quantity: int, left: int
) -> ToolResult | None:
    request_id = order["request_id"]
    if order["status"] != "open":
        message = f"{order['order_id']} is cancelled; nothing was deducted."
        return ToolResult(False, subject=request_id, message=message, error_kind="order_cancelled")
    if _sums(database, order["order_id"]):
        message = f"Stock was deducted for {order['order_id']} before; nothing more was deducted."
        return ToolResult(False, subject=request_id, message=message, error_kind="already_deducted")
    if left < quantity:
        message = f"{left} pieces of {product_id} are left, {quantity} are wanted; nothing was deducted."
        return ToolResult(False, subject=request_id, message=message, error_kind="out_of_stock")
    return None


def _no_stock_service(request_id: str) -> ToolResult:
    message = "The stock service answered 503 (unavailable); no stock was changed."
    return ToolResult(False, subject=request_id, message=message, error_kind="service_unavailable")


def _not_found(what: str, id: str) -> ToolResult:
    return ToolResult(False, subject=id, message=f"{what} {id} does not exist.", error_kind="not_found")


def _no_order(request_id: str) -> ToolResult:
    return ToolResult(False, subject=request_id, message=f"There is no order for {request_id}.", error_kind="not_found")


def _check(name: str, subject: str, passed: bool, data: JsonObject, message: str) -> ToolResult:
    return ToolResult(True, passed, check=name, subject=subject, data=data, message=message)


def _pieces(pieces: dict[str, int]) -> str:
    return ", ".join(f"{n} x {id}" for id, n in pieces.items()) or "nothing"
