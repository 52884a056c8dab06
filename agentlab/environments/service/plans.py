"""The plans of the workflows of this suite as data, in the JSON form that a planner writes.

Source: REQUIREMENTS 002.3, 002.8, 002.12, 002.21. Two remarks:
002.8 calls the edge from 3.1 to 3.2 weak, so 3.2 never waits for 3.1 (settled in REQUIREMENTS 1.7).
A missed target in the verification is a result, no failure of a step: `on_error` does not hear of it. Where the
instruction says what follows, the plan says so with `only_if_passed`, `only_if_not_passed` or `on_not_passed`.
"""

from collections.abc import Sequence

from agentlab.records import JsonObject


def _step(
    id: str, description: str, tool: str, arguments: JsonObject, depends_on: Sequence[str] = (), **fields: object
) -> JsonObject:
    own = {"id": id, "description": description, "tool": tool, "arguments": arguments, "depends_on": list(depends_on)}
    return {**own, **fields}


def _finding(component: str, service: str) -> JsonObject:
    return {"service": service, "finding": f"steps.1.output.findings.{component}"}


def _design(step: str, service: str) -> JsonObject:
    return {"service": service, "design": f"steps.{step}.output.design"}


def _workflow() -> JsonObject:
    """Eight steps: analysis, three designs, three changes, and one verification that needs all changes."""
    on: JsonObject = {"service": "order-api"}
    name = "order-api"
    return {
        "goal": "Halve the response time of order-api without more errors or resources.",
        "steps": [
            _step("1", "Analyse the code", "analyse_code", on, priority="high", worker_type="code_analyser"),
            _step(
                "2.1", "Design the database", "design_database", _finding("database", name), ["1"],
                priority="high", worker_type="db",
            ),
            _step("2.2", "Design the cache", "design_cache", _finding("cache", name), ["1"], worker_type="cache"),
            _step(
                "2.3", "Design the algorithm", "design_algorithm", _finding("algorithm", name), ["1"],
                worker_type="algorithm",
            ),
            _step(
                "3.1", "Optimise the database", "optimise_database", _design("2.1", name), ["2.1"],
                priority="high", worker_type="db",
            ),
            _step(
                "3.2", "Implement the cache", "implement_cache", _design("2.2", name), ["2.2"],
                weak_depends_on=["3.1"], worker_type="cache", on_error="retry", max_retries=1,
            ),
            _step(
                "3.3", "Optimise the algorithm", "optimise_algorithm", _design("2.3", name), ["2.3"],
                worker_type="algorithm",
            ),
            _step(
                "4", "Verify the performance", "run_performance_test", on, ["3.1", "3.2", "3.3"],
                priority="high", worker_type="test", on_error="terminate",
            ),
        ],
    }  # fmt: skip


def _layered() -> JsonObject:
    """Thirteen steps in five layers, and one that is only needed when production does not hold.

    1 to 3 one after the other, 5 after 4, 6 after 3 and beside both.
    """
    on: JsonObject = {"service": "payment-api"}
    test, production = {**on, "environment": "test"}, {**on, "environment": "production"}
    analysis: JsonObject = {"layer": "analysis", "worker_type": "code_analyser"}
    verification: JsonObject = {"layer": "verification", "worker_type": "test", "priority": "high"}
    deployment: JsonObject = {"layer": "deployment", "worker_type": "deploy"}
    monitoring: JsonObject = {"layer": "monitoring", "worker_type": "test"}

    def change(component: str) -> JsonObject:
        return {"layer": "optimisation", "worker_type": component, "on_error": "rollback"}

    return {
        "goal": "Halve the response time of payment-api layer by layer, up to production.",
        "steps": [
            _step("1", "Observe production before any change", "observe", production, **analysis),
            _step("2", "Analyse the code", "analyse_code", on, ["1"], **analysis),
            _step(
                "3", "Keep a checkpoint", "create_checkpoint", {**on, "name": "before-optimisation"}, ["2"], **analysis
            ),
            _step(
                "4", "Optimise the database", "optimise_database", {**on, "design": "PAY-DB-1"}, ["3"], **change("db")
            ),
            _step(
                "5", "Implement the cache", "implement_cache", {**on, "design": "PAY-CACHE-1"}, ["4"], **change("cache")
            ),
            _step(
                "6", "Optimise the algorithm", "optimise_algorithm", {**on, "design": "PAY-ALGO-1"}, ["3"],
                **change("algorithm"),
            ),
            _step("7", "Run the regression test", "run_regression_test", on, ["5", "6"], **verification),
            _step(
                "8", "Run the performance test", "run_performance_test", on, ["7"], on_error="replan", **verification
            ),
            _step("9", "Deploy to test", "deploy", test, ["8"], **deployment),
            _step("10", "Observe test", "observe", test, ["9"], **deployment),
            _step("11", "Deploy to production", "deploy", production, ["10"], on_error="rollback", **deployment),
            _step("12", "Check the response time", "check_response_time", production, ["11"], **monitoring),
            _step("13", "Check the errors", "check_errors", production, ["11"], **monitoring),
            _step(
                "14", "Roll production back if it does not hold", "rollback_deployment", production, ["11"],
                only_if_not_passed=["12", "13"], layer="monitoring", worker_type="deploy",
            ),
        ],
    }  # fmt: skip


def _database_redesign() -> JsonObject:
    """002.12 a: the change of the database is critical; three retries, then roll back to its design and replan."""
    on: JsonObject = {"service": "inventory-api"}
    name = "inventory-api"
    return {
        "goal": "Optimise the database of inventory-api.",
        "steps": [
            _step("1", "Analyse the code", "analyse_code", on, worker_type="code_analyser"),
            _step("2.1", "Design the database", "design_database", _finding("database", name), ["1"], worker_type="db"),
            _step(
                "3.1", "Optimise the database", "optimise_database", _design("2.1", name), ["2.1"],
                priority="high", worker_type="db", on_error="rollback", back_to="2.1", restart=True, max_retries=3,
                is_critical=True,
            ),
            _step("4", "Verify the performance", "run_performance_test", on, ["3.1"], worker_type="test"),
        ],
    }  # fmt: skip


def _cache_fallback() -> JsonObject:
    """002.12 b: the cache is not critical; when it fails, go on without it. What follows depends on it weakly.

    Weak edges never wait, so the cache has no retries: the verification would not see a cache that comes late.
    """
    on: JsonObject = {"service": "catalog-api"}
    name = "catalog-api"
    return {
        "goal": "Optimise catalog-api, with a cache if it can be had.",
        "steps": [
            _step("1", "Analyse the code", "analyse_code", on, worker_type="code_analyser"),
            _step("2.2", "Design the cache", "design_cache", _finding("cache", name), ["1"], worker_type="cache"),
            _step(
                "3.2", "Implement the cache", "implement_cache", _design("2.2", name), ["2.2"],
                worker_type="cache", on_error="skip", max_retries=0, is_critical=False,
            ),
            _step(
                "2.3", "Design the algorithm", "design_algorithm", _finding("algorithm", name), ["1"],
                weak_depends_on=["3.2"], worker_type="algorithm",
            ),
            _step(
                "3.3", "Optimise the algorithm", "optimise_algorithm", _design("2.3", name), ["2.3"],
                weak_depends_on=["3.2"], worker_type="algorithm",
            ),
            _step(
                "4", "Verify the performance", "run_performance_test", on, ["3.3"],
                weak_depends_on=["3.2"], worker_type="test",
            ),
            _step("5", "Check the cache", "check_cache", on, ["4"], weak_depends_on=["3.2"], worker_type="test"),
        ],
    }  # fmt: skip


def _verification_stop() -> JsonObject:
    """002.12 c: the verification is critical; when it fails, the flow ends before the deployment."""
    on: JsonObject = {"service": "invoice-api"}
    test = {**on, "environment": "test"}
    stop: JsonObject = {"priority": "high", "worker_type": "test", "on_error": "terminate", "is_critical": True}
    return {
        "goal": "Implement the approved designs of invoice-api, and deploy them to test if they hold.",
        "steps": [
            _step("3.1", "Optimise the database", "optimise_database", {**on, "design": "INV-DB-1"}, worker_type="db"),
            _step(
                "3.2", "Implement the cache", "implement_cache", {**on, "design": "INV-CACHE-1"}, worker_type="cache"
            ),
            _step(
                "3.3", "Optimise the algorithm", "optimise_algorithm", {**on, "design": "INV-ALGO-1"},
                worker_type="algorithm",
            ),
            _step("4.1", "Run the regression test", "run_regression_test", on, ["3.1", "3.2", "3.3"], **stop),
            _step("4.2", "Run the performance test", "run_performance_test", on, ["4.1"], **stop),
            _step("5.1", "Deploy to test", "deploy", test, ["4.2"], worker_type="deploy"),
            _step("5.2", "Check the response time", "check_response_time", test, ["5.1"], worker_type="test"),
        ],
    }  # fmt: skip


PLANS: dict[str, JsonObject] = {
    "workflow": _workflow(),
    "layered": _layered(),
    "database-redesign": _database_redesign(),
    "cache-fallback": _cache_fallback(),
    "verification-stop": _verification_stop(),
}
"""Cluster of a flow -> its plan."""
