"""The tools of the orders suite. A query reports what is there; only a check says whether it is right."""

import hashlib

from agentlab.environments.orders.state import OrdersState
from agentlab.records import JsonObject, ToolResult
from agentlab.tools import tool

ALLOWED_STATUSES = ("paid", "pending", "cancelled")


class OrderTools:
    """The tools of one run, over its state. Session and token ids follow from the seed alone."""

    def __init__(self, state: OrdersState) -> None:
        self._state = state
        self.seed = 0
        self.was_refused = False
        """A login with the right password was refused."""
        self.is_detour = False
        """An order was looked at after such a refusal, past the login that the flow begins with."""

    @tool(zh="查询订单的详细信息：金额、状态和下单用户。")
    def query_order_detail(self, order_id: str) -> ToolResult:
        """Look up an order: its amount, its status and the user who placed it.

        Args:
            order_id: Id of the order.
        """
        order, refusal = self._open_order(order_id)
        return refusal or ToolResult(True, subject=order_id, data=_shown(order))

    @tool(zh="检查订单金额是否有效：金额不能为负数。")
    def check_order_amount(self, order_id: str) -> ToolResult:
        """Check whether the amount of an order is valid, that is, not negative.

        Args:
            order_id: Id of the order.
        """
        order, refusal = self._open_order(order_id)
        return refusal or _amount_check(order)

    @tool(zh="检查订单状态是否有效：只允许 paid、pending、cancelled。")
    def check_order_status(self, order_id: str) -> ToolResult:
        """Check whether the status of an order is one of the allowed ones: paid, pending, cancelled.

        Args:
            order_id: Id of the order.
        """
        order, refusal = self._open_order(order_id)
        if refusal:
            return refusal
        status = order["status"]
        passed = status in ALLOWED_STATUSES
        verb = "is" if passed else "is not"
        message = f"The status {status} {verb} one of {', '.join(ALLOWED_STATUSES)}."
        return _check("status_valid", order_id, passed, {"order_id": order_id, "status": status}, message)

    @tool(zh="检查订单是否属于指定的用户。")
    def check_order_owner(self, order_id: str, user_id: str) -> ToolResult:
        """Check whether an order is booked to the given user.

        Args:
            order_id: Id of the order.
            user_id: Id of the user it should belong to.
        """
        order, refusal = self._open_order(order_id)
        if refusal:
            return refusal
        passed = order["user_id"] == user_id
        data = {"order_id": order_id, "user_id": order["user_id"], "expected_user_id": user_id}
        message = f"{order_id} is booked to {order['user_id']}, expected {user_id}."
        return _check("owner_valid", order_id, passed, data, message)

    @tool(zh="检查订单的退款是否正确：退款总额不超过订单金额；已取消的订单必须全额退款。")
    def check_refund_amount(self, order_id: str) -> ToolResult:
        """Check the refunds of an order: never more than its amount, and the whole amount once it is cancelled.

        Args:
            order_id: Id of the order.
        """
        order, refusal = self._open_order(order_id)
        if refusal:
            return refusal
        amount = order["amount"]
        refunds = [refund["amount"] for refund in self._state.find_all("refunds", "order_id", order_id)]
        refunded = round(sum(refunds), 2)
        passed = refunded == amount if order["status"] == "cancelled" else refunded <= amount
        data = {
            "order_id": order_id,
            "amount": amount,
            "status": order["status"],
            "refunds": refunds,
            "refunded": refunded,
        }
        message = f"{refunded:.2f} of {amount:.2f} is refunded; the order is {order['status']}."
        return _check("refund_valid", order_id, passed, data, message)

    @tool(zh="检查两个订单的金额是否相同。")
    def check_same_amount(self, order_id: str, other_order_id: str) -> ToolResult:
        """Check whether two orders have the same amount, for example an order and its replacement.

        Args:
            order_id: Id of the first order.
            other_order_id: Id of the second order.
        """
        pair = []
        for id in (order_id, other_order_id):
            order, refusal = self._open_order(id)
            if refusal:
                return refusal
            pair.append(order["amount"])
        passed = pair[0] == pair[1]
        status = "passed" if passed else "failed"
        return ToolResult(
            True,
            passed,
            check="same_amount",
            subject=order_id,
            data={order_id: pair[0], other_order_id: pair[1]},
            message=f"The amounts are {pair[0]:.2f} and {pair[1]:.2f}.",
            visible={f"same_amount@{id}": status for id in (order_id, other_order_id)},
        )

    @tool(zh="查询用户信息：姓名和状态。")
    def query_user(self, user_id: str) -> ToolResult:
        """Look up a user: name and state.

        Args:
            user_id: Id of the user.
        """
        user = self._state.find("users", user_id)
        if user is None:
            return _not_found("User", user_id)
        return ToolResult(True, subject=user_id, data={name: user[name] for name in ("user_id", "name", "state")})

    @tool(zh="检查用户是否有效，即状态正常、未被冻结。")
    def check_user_valid(self, user_id: str) -> ToolResult:
        """Check whether a user is valid, that is, active and not frozen.

        Args:
            user_id: Id of the user.
        """
        user = self._state.find("users", user_id)
        if user is None:
            return _not_found("User", user_id)
        state = user["state"]
        data = {"user_id": user_id, "state": state}
        return _check("user_valid", user_id, state == "active", data, f"The user is {state}.")

    @tool(zh="查询用户的全部订单。")
    def query_user_orders(self, user_id: str) -> ToolResult:
        """List the orders of a user; the list may be empty.

        Args:
            user_id: Id of the user.
        """
        if self._state.find("users", user_id) is None:
            return _not_found("User", user_id)
        orders = [
            {"order_id": order["order_id"], "needs_token": True} if order["is_protected"] else _shown(order)
            for order in self._state.find_all("orders", "user_id", user_id)
        ]
        return ToolResult(True, subject=user_id, data={"user_id": user_id, "orders": orders})

    @tool(effect="idempotent", zh="用户登录，成功时返回会话编号，用于获取令牌。")
    def login(self, user_id: str, password: str) -> ToolResult:
        """Log a user in; returns a session id, with which get_token gives a token.

        Args:
            user_id: Id of the user.
            password: Password of the user.
        """
        user = self._state.find("users", user_id) or {"state": "active", "password": "", "login_rule": "strict"}
        knows_password = password != "" and password == user["password"]
        is_right = knows_password and user["state"] == "active"
        is_accepted = {
            "strict": is_right,
            "refuses_all": False,
            "accepts_any_password": user["state"] == "active",
            "accepts_frozen": knows_password,
        }[user["login_rule"]]
        criterion = "login_valid" if is_right else "login_refused"
        visible = {f"{criterion}@{user_id}": "passed" if is_accepted == is_right else "failed"}
        if not is_accepted:
            self.was_refused = self.was_refused or is_right
            frozen = knows_password and user["state"] == "frozen"
            reason = "The user is frozen." if frozen else "Wrong user id or password."
            message = f"Login refused. {reason}"
            return ToolResult(False, subject=user_id, message=message, error_kind="login_refused", visible=visible)
        data = {"user_id": user_id, "session_id": self._open_session(user_id)}
        return ToolResult(True, subject=user_id, data=data, message="Logged in.", visible=visible)

    @tool(effect="idempotent", zh="用登录返回的会话编号获取访问令牌。")
    def get_token(self, session_id: str) -> ToolResult:
        """Get the access token of a session that login returned.

        Args:
            session_id: Session id from login.
        """
        session = self._state.find("sessions", session_id)
        if session is None:
            return _not_found("Session", session_id)
        data = {"user_id": session["user_id"], "token": session["token"]}
        return ToolResult(True, subject=session_id, data=data)

    @tool(zh="凭令牌查询订单的详细信息，适用于受保护的订单。")
    def query_order_with_token(self, order_id: str, token: str) -> ToolResult:
        """Look up an order as the user of a token; works for protected orders too.

        Args:
            order_id: Id of the order.
            token: Token from get_token.
        """
        order, visible, refusal = self._order_for_token(order_id, token)
        return refusal or ToolResult(True, subject=order_id, data=_shown(order), visible=visible)

    @tool(zh="凭令牌检查订单金额是否有效（不能为负数），适用于受保护的订单。")
    def check_amount_with_token(self, order_id: str, token: str) -> ToolResult:
        """Check, as the user of a token, whether the amount of an order is valid, that is, not negative.

        Args:
            order_id: Id of the order.
            token: Token from get_token.
        """
        order, visible, refusal = self._order_for_token(order_id, token)
        return refusal or _amount_check(order, visible)

    def _open_order(self, order_id: str) -> tuple[JsonObject, ToolResult | None]:
        """The order, or why it is not shown without a token."""
        order = self._state.find("orders", order_id)
        if order is None:
            return {}, _not_found("Order", order_id)
        if order["is_protected"]:
            message = (
                f"{order_id} is protected: log in, get a token, and use query_order_with_token or "
                "check_amount_with_token."
            )
            return {}, ToolResult(False, subject=order_id, message=message, error_kind="token_required")
        self.is_detour = self.is_detour or self.was_refused
        return order, None

    def _order_for_token(self, order_id: str, token: str) -> tuple[JsonObject, dict[str, str], ToolResult | None]:
        """The order and what the answer shows about access control, or why the order is not shown."""
        order = self._state.find("orders", order_id)
        if order is None:
            return {}, {}, _not_found("Order", order_id)
        sessions = self._state.find_all("sessions", "token", token)
        if not sessions:
            return {}, {}, _refused(order_id, "token_invalid", "This is not a token of this system.", {})
        session = sessions[0]
        user = self._state.find("users", session["user_id"]) or {"token_rule": "strict"}
        is_owner = session["user_id"] == order["user_id"]
        is_expired = {"strict": session["is_expired"], "expires_at_once": True, "never_expires": False}[
            user["token_rule"]
        ]
        is_shown = not is_expired and (is_owner or order["access_rule"] == "open_to_all")
        visible = {}
        if session["is_expired"] or not is_owner:
            visible = {f"access_refused@{order_id}": "failed" if is_shown else "passed"}
        if is_shown:
            return order, visible, None
        if is_expired:
            return {}, {}, _refused(order_id, "token_expired", "The token has expired.", visible)
        return {}, {}, _refused(order_id, "forbidden", "The order belongs to another user.", visible)

    def _open_session(self, user_id: str) -> str:
        """The id of the user's session, the same in every run with this seed."""
        digest = hashlib.sha256(f"{self.seed}:{user_id}".encode()).hexdigest()
        session_id = f"SESSION-{digest[:12]}"
        if self._state.find("sessions", session_id) is None:
            self._state.add("sessions", session_id, {"user_id": user_id, "token": f"TOKEN-{digest[12:32]}"})
        return session_id


def _shown(order: JsonObject) -> JsonObject:
    return {name: order[name] for name in ("order_id", "amount", "status", "user_id")}


def _check(name: str, subject: str, passed: bool, data: JsonObject, message: str) -> ToolResult:
    return ToolResult(True, passed, check=name, subject=subject, data=data, message=message)


def _amount_check(order: JsonObject, visible: dict[str, str] | None = None) -> ToolResult:
    order_id, amount = order["order_id"], order["amount"]
    message = f"The amount {amount:.2f} is {'negative' if amount < 0 else 'not negative'}."
    return ToolResult(
        True,
        amount >= 0,
        check="amount_valid",
        subject=order_id,
        data={"order_id": order_id, "amount": amount},
        message=message,
        visible=visible or {},
    )


def _not_found(what: str, id: str) -> ToolResult:
    return ToolResult(False, subject=id, message=f"{what} {id} does not exist.", error_kind="not_found")


def _refused(order_id: str, error_kind: str, message: str, visible: dict[str, str]) -> ToolResult:
    return ToolResult(False, subject=order_id, message=message, error_kind=error_kind, visible=visible)
