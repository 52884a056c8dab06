"""What a plan for the service suite must contain: the tests of the task, after every change that they are to judge."""

from agentlab.plan_rules import Exclusive, RequiredEdge, RulePack
from agentlab.tasks import Text

_CHANGES = ("optimise_database", "implement_cache", "optimise_algorithm")
_TESTS = ("run_performance_test", "run_regression_test")
_ANALYSIS_FIRST = Text(
    zh="设计必须依据代码分析的结果。", en="A design answers a finding, which the code analysis has to bring first."
)
_CHANGE_FIRST = Text(zh="未改动的构建没有可测试的内容。", en="A test of an unchanged build shows nothing.")
_NOT_BESIDE = Text(
    zh="不能一边改动构建，一边测试或部署它。", en="The build must not change while it is tested or deployed."
)

RULES = RulePack(
    name="service",
    required_edges=(
        RequiredEdge(
            later=("design_database", "design_cache", "design_algorithm"),
            earlier=("analyse_code",),
            same="service",
            reason=_ANALYSIS_FIRST,
        ),
        RequiredEdge(later=_TESTS, earlier=_CHANGES, same="service", reason=_CHANGE_FIRST),
    ),
    # Not for the cache: a change that is not critical may be a weak dependency of what follows.
    exclusive=tuple(
        Exclusive(names=(change, other), reason=_NOT_BESIDE)
        for change in ("optimise_database", "optimise_algorithm")
        for other in (*_TESTS, "deploy")
    ),
    checks={
        "response_time_halved": ("run_performance_test",),
        "errors_not_up": ("run_performance_test",),
        "resources_not_up": ("run_performance_test",),
        "functions_kept": ("run_regression_test",),
        "cache_active": ("check_cache",),
        **{f"response_time_halved_in_{place}": ("check_response_time",) for place in ("test", "production")},
        **{f"errors_not_up_in_{place}": ("check_errors",) for place in ("test", "production")},
        **{f"resources_not_up_in_{place}": ("check_resources",) for place in ("test", "production")},
    },
    requires_description=True,
    requires_recovery=True,
)
