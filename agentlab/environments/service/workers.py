"""The six worker types of the service workflow, as data: what each knows, and the only tools it may use."""

from agentlab.environments.base import WorkerType
from agentlab.tasks import Text

_UNDO = ("discard_design", "rollback_change")
_CHECKPOINTS = ("create_checkpoint", "restore_checkpoint")

WORKERS: dict[str, WorkerType] = {
    "code_analyser": WorkerType(
        ("analyse_code", "observe", *_CHECKPOINTS),
        Text(
            zh="代码分析：找出性能瓶颈，记录优化前的状态。",
            en="Code analysis: finds the bottlenecks and records what is before any change.",
        ),
    ),
    "db": WorkerType(
        ("design_database", "optimise_database", *_UNDO),
        Text(zh="数据库：索引、查询和表结构的优化。", en="Databases: indexes, queries and table structure."),
    ),
    "cache": WorkerType(
        ("design_cache", "implement_cache", "check_cache", *_UNDO),
        Text(zh="缓存：缓存策略、失效和容量。", en="Caches: what to keep, for how long, and how much."),
    ),
    "algorithm": WorkerType(
        ("design_algorithm", "optimise_algorithm", *_UNDO),
        Text(zh="算法：复杂度和数据结构。", en="Algorithms: complexity and data structures."),
    ),
    "test": WorkerType(
        (
            "run_performance_test",
            "run_regression_test",
            "check_cache",
            "check_response_time",
            "check_errors",
            "check_resources",
        ),
        Text(
            zh="测试：性能测试、回归测试和上线后的检查。",
            en="Testing: performance and regression tests, and checks after a deployment.",
        ),
    ),
    "deploy": WorkerType(
        ("deploy", "observe", "rollback_deployment", *_CHECKPOINTS),
        Text(zh="部署：发布、观察和回滚。", en="Deployment: releases, observes, rolls back."),
    ),
}
"""Worker type -> its tools and expertise; together they hold every tool of the suite."""
