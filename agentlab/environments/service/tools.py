"""The tools of the service suite, each in the hands of one or more worker types (`workers.py`).

A tool that cannot do its work changes nothing and says so. Doing again what is done already changes nothing
either, so a repeated call is harmless. Delays come before effects.
"""

import asyncio
from typing import Literal

from agentlab.environments.service.criteria import RULES, measured
from agentlab.environments.service.state import COMPONENTS, Component, Place, ServiceState
from agentlab.records import JsonObject, ToolResult
from agentlab.tools import tool

_WORK: dict[str, JsonObject] = {
    "analysis": {"seconds": 2, "cpu_percent": 25, "memory_mb": 300},
    "database": {"seconds": 3, "cpu_percent": 40, "memory_mb": 500},
    "cache": {"seconds": 2, "cpu_percent": 20, "memory_mb": 250},
    "algorithm": {"seconds": 4, "cpu_percent": 55, "memory_mb": 400},
    "test": {"seconds": 5, "cpu_percent": 80, "memory_mb": 700},
}
"""Simulated seconds of a call (before `delay_scale`) and what its worker uses meanwhile."""
_HOSTS = {"database": "database", "cache": "cache server", "algorithm": "build server"}


class ServiceTools:
    """The tools of one run, over its state.

    Args:
        state: the services.
        delay_scale: real seconds per simulated second of work; 0 never waits.
    """

    def __init__(self, state: ServiceState, delay_scale: float = 0.0) -> None:
        self._state = state
        self._delay_scale = delay_scale

    @tool(zh="分析服务的代码，返回数据库、缓存、算法三处瓶颈的编号（设计时需要）以及优化前的指标。")
    async def analyse_code(self, service: str) -> ToolResult:
        """Analyse the code of a service: findings, whose ids the design tools need, and its metrics before any change.

        Args:
            service: Name of the service.
        """
        work = await self._work("analysis")
        if service not in self._state.names():
            return _not_found("Service", service)
        findings = {part: self._state.finding_id(service, part) for part in COMPONENTS}
        data = {"findings": findings, "baseline": self._state.baseline(service), "work": work}
        return ToolResult(True, subject=service, data=data)

    @tool(effect="write", repeatable=True, compensate="discard_design", zh="针对数据库瓶颈设计优化方案，返回方案编号。")
    async def design_database(self, service: str, finding: str) -> ToolResult:
        """Design a database optimisation for a finding of the code analysis; returns the design's id.

        Args:
            service: Name of the service.
            finding: Id of the finding on the database.
        """
        return await self._design("database", service, finding)

    @tool(effect="write", repeatable=True, compensate="discard_design", zh="针对缓存瓶颈设计缓存方案，返回方案编号。")
    async def design_cache(self, service: str, finding: str) -> ToolResult:
        """Design a cache for a finding of the code analysis; returns the design's id.

        Args:
            service: Name of the service.
            finding: Id of the finding on the cache.
        """
        return await self._design("cache", service, finding)

    @tool(effect="write", repeatable=True, compensate="discard_design", zh="针对算法瓶颈设计优化方案，返回方案编号。")
    async def design_algorithm(self, service: str, finding: str) -> ToolResult:
        """Design a better algorithm for a finding of the code analysis; returns the design's id.

        Args:
            service: Name of the service.
            finding: Id of the finding on the algorithm.
        """
        return await self._design("algorithm", service, finding)

    @tool(effect="idempotent", zh="作废某个瓶颈的当前方案；已实施的方案须先回滚。")
    async def discard_design(self, service: str, finding: str) -> ToolResult:
        """Discard the current design for a finding; one that is implemented must be rolled back first.

        Args:
            service: Name of the service.
            finding: Id of the finding that the design is for.
        """
        if service not in self._state.names():
            return _not_found("Service", service)
        component = self._state.component_of_finding(service, finding)
        if component is None:
            return _not_found("Finding", finding)
        if self._state.is_in_use(service, component):
            return _refused(service, "in_use", f"The {component} design is implemented: roll that change back first.")
        was_there = self._state.discard(service, component)
        return ToolResult(True, subject=service, message="Discarded." if was_there else "There was no design.")

    @tool(effect="write", repeatable=True, compensate="rollback_change", zh="按方案在构建中实施数据库优化。")
    async def optimise_database(self, service: str, design: str) -> ToolResult:
        """Implement a database design in the build of a service.

        Args:
            service: Name of the service.
            design: Id of the database design.
        """
        return await self._implement("database", service, design)

    @tool(effect="write", repeatable=True, compensate="rollback_change", zh="按方案在构建中实施缓存。")
    async def implement_cache(self, service: str, design: str) -> ToolResult:
        """Implement a cache design in the build of a service.

        Args:
            service: Name of the service.
            design: Id of the cache design.
        """
        return await self._implement("cache", service, design)

    @tool(effect="write", repeatable=True, compensate="rollback_change", zh="按方案在构建中实施算法优化。")
    async def optimise_algorithm(self, service: str, design: str) -> ToolResult:
        """Implement an algorithm design in the build of a service.

        Args:
            service: Name of the service.
            design: Id of the algorithm design.
        """
        return await self._implement("algorithm", service, design)

    @tool(effect="idempotent", zh="把某个方案的改动从构建中回滚；已部署的版本不受影响。")
    async def rollback_change(self, service: str, design: str) -> ToolResult:
        """Take the change of a design out of the build again; what is deployed stays as it is.

        Args:
            service: Name of the service.
            design: Id of the design whose change is rolled back.
        """
        if service not in self._state.names():
            return _not_found("Service", service)
        component = self._state.component_of_design(service, design)
        if component is None:
            return _not_found("Design", design)
        was_in = self._state.take_out(service, component, design)
        return ToolResult(True, subject=service, message="Rolled back." if was_in else "It was not in the build.")

    @tool(effect="idempotent", zh="为服务的构建和方案创建一个命名检查点。")
    async def create_checkpoint(self, service: str, name: str) -> ToolResult:
        """Keep the build and the designs of a service as a named checkpoint.

        Args:
            service: Name of the service.
            name: Name of the checkpoint.
        """
        if service not in self._state.names():
            return _not_found("Service", service)
        kept = self._state.checkpoint(service, name)
        if kept is None:
            self._state.keep(service, name)
        elif kept != self._state.work(service):
            message = f"Checkpoint {name} holds an earlier state: choose another name. Nothing was changed."
            return ToolResult(False, subject=service, message=message, error_kind="exists")
        return ToolResult(True, subject=service, message=f"Checkpoint {name} is kept.")

    @tool(effect="idempotent", zh="把服务的构建和方案恢复到检查点；已部署的版本不受影响。")
    async def restore_checkpoint(self, service: str, name: str) -> ToolResult:
        """Bring the build and the designs of a service back to a checkpoint; what is deployed stays as it is.

        Args:
            service: Name of the service.
            name: Name of the checkpoint.
        """
        if service not in self._state.names():
            return _not_found("Service", service)
        kept = self._state.checkpoint(service, name)
        if kept is None:
            return _not_found("Checkpoint", name)
        if kept != self._state.work(service):
            self._state.bring_back(service, name)
        return ToolResult(True, subject=service, message=f"The build is as it was at {name}.")

    @tool(zh="在实验环境（lab）对当前构建做性能测试，并与优化前比较：响应时间、错误率、资源占用。")
    async def run_performance_test(self, service: str) -> ToolResult:
        """Run the performance test on the build in the lab: response time, errors and resources, compared with before.

        Args:
            service: Name of the service.
        """
        work = await self._work("test")
        if service not in self._state.names():
            return _not_found("Service", service)
        before, build = self._state.baseline(service), self._state.build(service)
        after = self._state.metrics(service, build)
        data: JsonObject = {"before": before, "after": after, "changed": sorted(build), "work": work}
        if not build:
            message = "Nothing in the build is changed, so there is nothing to compare yet."
            return ToolResult(True, subject=service, data=data, message=message)
        shown = {name: "passed" if rule(before, after) else "failed" for name, rule in RULES.items()}
        message = "; ".join(f"{name} {measured(name, before, after)}" for name in shown)
        visible = {f"{name}@{service}": status for name, status in shown.items()}
        return ToolResult(True, subject=service, data={**data, "criteria": shown}, message=message, visible=visible)

    @tool(zh="在实验环境（lab）对当前构建做回归测试，检查原有功能是否完好。")
    async def run_regression_test(self, service: str) -> ToolResult:
        """Run the regression test on the build in the lab: do all functions still work?

        Args:
            service: Name of the service.
        """
        work = await self._work("test")
        if service not in self._state.names():
            return _not_found("Service", service)
        if not self._state.build(service):
            message = "Nothing in the build is changed, so there is nothing to test yet."
            return ToolResult(True, subject=service, data={"work": work}, message=message)
        broken = self._state.broken_tests(service)
        data = {"tests": 120, "broken": broken, "work": work}
        message = f"{broken} of 120 regression tests fail."
        return _check("functions_kept", service, broken == 0, data, message)

    @tool(zh="检查当前构建中缓存是否已启用。")
    async def check_cache(self, service: str) -> ToolResult:
        """Check whether a cache is active in the build in the lab.

        Args:
            service: Name of the service.
        """
        if service not in self._state.names():
            return _not_found("Service", service)
        is_active = "cache" in self._state.build(service)
        message = "The cache is active." if is_active else "There is no cache; the database answers in its place."
        return _check("cache_active", service, is_active, {"cache": is_active}, message)

    @tool(
        effect="write",
        permission="ask",
        repeatable=True,
        compensate="rollback_deployment",
        zh="把当前构建部署到环境 test 或 production；生产环境只接受已在测试环境运行的构建。需要批准。",
    )
    async def deploy(self, service: str, environment: Literal["test", "production"]) -> ToolResult:
        """Deploy the build to an environment; production only takes what test runs. Needs an approval.

        Args:
            service: Name of the service.
            environment: test or production.
        """
        if service not in self._state.names():
            return _not_found("Service", service)
        build = self._state.build(service)
        if not build:
            return _refused(service, "nothing_to_deploy", "Nothing in the build is changed.")
        if environment == "production" and self._state.deployed(service, "test") != build:
            return _refused(service, "not_in_test", "The test environment does not run this build: deploy it there.")
        is_new = self._state.deployed(service, environment) != build
        if is_new:
            self._state.deploy(service, environment)
        message = f"{environment} {'now' if is_new else 'already'} runs this build."
        data = {"environment": environment, "changed": sorted(build)}
        return ToolResult(True, subject=service, data=data, message=message)

    @tool(zh="观察环境 test 或 production 中正在运行的版本和当前指标。")
    async def observe(self, service: str, environment: Literal["test", "production"]) -> ToolResult:
        """Observe what an environment runs, and its metrics now.

        Args:
            service: Name of the service.
            environment: test or production.
        """
        if service not in self._state.names():
            return _not_found("Service", service)
        build = self._state.deployed(service, environment)
        metrics = self._state.metrics(service, build, environment)
        data = {"environment": environment, "changed": sorted(build), "metrics": metrics}
        return ToolResult(True, subject=service, data=data)

    @tool(effect="idempotent", zh="把环境 test 或 production 恢复到优化前的版本。")
    async def rollback_deployment(self, service: str, environment: Literal["test", "production"]) -> ToolResult:
        """Bring an environment back to the original version, as before the optimisation.

        Args:
            service: Name of the service.
            environment: test or production.
        """
        if service not in self._state.names():
            return _not_found("Service", service)
        was_changed = self._state.undeploy(service, environment)
        message = f"{environment} {'now' if was_changed else 'already'} runs the original version."
        return ToolResult(True, subject=service, message=message)

    @tool(zh="检查环境中优化版本的响应时间是否降到优化前的一半或更低。")
    async def check_response_time(self, service: str, environment: Literal["test", "production"]) -> ToolResult:
        """Check whether the response time of the optimised version in an environment is at most half of before.

        Args:
            service: Name of the service.
            environment: test or production.
        """
        return self._compare("response_time_halved", service, environment)

    @tool(zh="检查环境中优化版本的错误率是否没有上升。")
    async def check_errors(self, service: str, environment: Literal["test", "production"]) -> ToolResult:
        """Check that the error rate of the optimised version in an environment is not above that of before.

        Args:
            service: Name of the service.
            environment: test or production.
        """
        return self._compare("errors_not_up", service, environment)

    @tool(zh="检查环境中优化版本的 CPU 和内存占用是否没有上升。")
    async def check_resources(self, service: str, environment: Literal["test", "production"]) -> ToolResult:
        """Check that neither CPU nor memory of the optimised version in an environment is above that of before.

        Args:
            service: Name of the service.
            environment: test or production.
        """
        return self._compare("resources_not_up", service, environment)

    async def _work(self, kind: str) -> JsonObject:
        """Wait as long as this work takes; return what it uses."""
        work = _WORK[kind]
        if self._delay_scale:
            await asyncio.sleep(work["seconds"] * self._delay_scale)
        return dict(work)

    async def _design(self, component: Component, service: str, finding: str) -> ToolResult:
        work = await self._work(component)
        if service not in self._state.names():
            return _not_found("Service", service)
        if self._state.component_of_finding(service, finding) != component:
            return _not_found(f"{component.capitalize()} finding", finding)
        data = {"design": self._state.design(service, component), "work": work}
        return ToolResult(True, subject=service, data=data)

    async def _implement(self, component: Component, service: str, design: str) -> ToolResult:
        work = await self._work(component)
        if service not in self._state.names():
            return _not_found("Service", service)
        data = {"component": component, "design": design, "work": work}
        if self._state.is_implemented(service, component, design):
            return ToolResult(True, subject=service, data=data, message="It is in the build already.")
        if not self._state.is_valid(service, component, design):
            return _not_found(f"Valid {component} design", design)
        obstacle = self._state.obstacle(service, component)
        if obstacle == "dropped":
            return _refused(service, "connection_failed", f"The {_HOSTS[component]} dropped the connection.")
        if obstacle == "refused":
            message = f"The {_HOSTS[component]} refuses this change, and will refuse it again."
            return _refused(service, "migration_refused", message)
        self._state.implement(service, component, design)
        return ToolResult(True, subject=service, data=data, message=f"The {component} change is in the build.")

    def _compare(self, criterion: str, service: str, environment: Place) -> ToolResult:
        if service not in self._state.names():
            return _not_found("Service", service)
        build = self._state.deployed(service, environment)
        if not build:
            message = f"{environment} runs the original version: there is nothing to compare."
            return ToolResult(False, subject=service, message=message, error_kind="not_deployed")
        before, after = self._state.baseline(service), self._state.metrics(service, build, environment)
        passed = RULES[criterion](before, after)
        data = {"environment": environment, "before": before, "after": after}
        return _check(f"{criterion}_in_{environment}", service, passed, data, measured(criterion, before, after))


def _check(name: str, subject: str, passed: bool, data: JsonObject, message: str) -> ToolResult:
    return ToolResult(True, passed, check=name, subject=subject, data=data, message=message)


def _not_found(what: str, id: str) -> ToolResult:
    message = f"{what} {id} does not exist; nothing was changed."
    return ToolResult(False, subject=id, message=message, error_kind="not_found")


def _refused(service: str, error_kind: str, message: str) -> ToolResult:
    return ToolResult(False, subject=service, message=f"{message} Nothing was changed.", error_kind=error_kind)
