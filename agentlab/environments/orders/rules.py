"""What a plan for the orders suite must contain (requirement 000.14): the checks of the task, after the query."""

from agentlab.plan_rules import RequiredEdge, RulePack
from agentlab.tasks import Text

_AFTER_QUERY = Text(
    zh="金额和状态检查必须依赖查询：订单查不到时不得执行检查。",
    en="The checks of amount and status depend on the query: they must not run when there is no such order.",
)

RULES = RulePack(
    name="orders",
    required_edges=(
        RequiredEdge(
            later=("check_order_amount", "check_order_status"),
            earlier=("query_order_detail", "query_user_orders", "query_order_with_token"),
            same="order_id",
            reason=_AFTER_QUERY,
        ),
    ),
    checks={
        "amount_valid": ("check_order_amount", "check_amount_with_token"),
        "status_valid": ("check_order_status",),
        "owner_valid": ("check_order_owner",),
        "refund_valid": ("check_refund_amount",),
        "same_amount": ("check_same_amount",),
        "user_valid": ("check_user_valid",),
        "login_valid": ("login",),
        "login_refused": ("login",),
        "access_refused": ("query_order_with_token", "check_amount_with_token"),
    },
    requires_description=True,
)
