"""What a plan for the sales suite must contain: the checks of the task, and nothing sent or taken before its ground."""

from agentlab.plan_rules import RequiredEdge, RulePack
from agentlab.records import JsonObject
from agentlab.tasks import Text

_CHECKS_FIRST = Text(
    zh="邮件发出后无法撤回：发送前必须完成全部检查。",
    en="A mail cannot be taken back: everything is checked before it is sent.",
)
_ORDER_FIRST = Text(zh="没有订单就不能扣减库存。", en="There is no stock to deduct without an order.")
_STOCK_FIRST = Text(zh="库存扣减之前不得确认订单。", en="An order is not confirmed before its stock is deducted.")
_DATA_CHECKS = ("check_totals", "check_duplicates", "check_products", "check_deduction")

RULES = RulePack(
    name="sales",
    required_edges=(
        RequiredEdge(later=("send_email",), earlier=("check_recipient",), reason=_CHECKS_FIRST),
        RequiredEdge(later=("send_email",), earlier=_DATA_CHECKS, reason=_CHECKS_FIRST),
        RequiredEdge(
            later=("send_email",), earlier=(*_DATA_CHECKS, "check_recipient"), every=True, reason=_CHECKS_FIRST
        ),
        RequiredEdge(later=("deduct_stock",), earlier=("create_order",), reason=_ORDER_FIRST),
        RequiredEdge(later=("send_confirmation",), earlier=("deduct_stock",), reason=_STOCK_FIRST),
        RequiredEdge(
            later=("send_confirmation",),
            earlier=("check_order_total", "check_deduction"),
            every=True,
            reason=_CHECKS_FIRST,
        ),
        RequiredEdge(later=("check_deduction",), earlier=("deduct_stock",)),
        RequiredEdge(
            later=("check_order_total", "check_fulfilment", "check_confirmation"),
            earlier=("create_order",),
            same="request_id",
        ),
    ),
    checks={
        "totals_match": ("check_totals",),
        "no_duplicates": ("check_duplicates",),
        "products_known": ("check_products",),
        "recipient_valid": ("check_recipient",),
        "total_valid": ("check_order_total",),
        "deduction_valid": ("check_deduction",),
        "order_fulfilled": ("check_fulfilment",),
        "confirmation_sent": ("check_confirmation",),
    },
    requires_description=True,
)

FAILURE_POLICY: JsonObject = {
    "name": "sales",
    "plan_decides": False,
    "rules": [
        {"name": "once more", "on_error": "retry", "attempts": 2},
        {"name": "order and stock", "when": {"tools": ["create_order", "deduct_stock"]}, "on_error": "rollback"},
        {"name": "rest", "on_error": "skip"},
        {
            "name": "wrong order or stock",
            "when": {"not_passed": True, "tools": ["check_order_total", "check_deduction"]},
            "on_error": "rollback",
        },
    ],
}
"""What a failed step leads to, whatever the plan says: order and stock are critical and undone together, also when a
check finds them wrong; a mail that cannot be sent is left out and reported."""
