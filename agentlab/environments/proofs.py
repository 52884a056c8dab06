"""Prove that tasks can be judged: before a suite is used, every task of it is executed.

A task is proven when its reference path shows every true status, leaves the end state, and sees every seeded
defect, while doing nothing does not meet the success rule.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from agentlab.environments.base import Suite, settle
from agentlab.environments.reference import Walk, WalkedStep, evidence_of, run_in_thread, walk
from agentlab.json_values import canonical
from agentlab.records import JsonObject
from agentlab.tasks import RequiredCall, Task

WAIVING_SUITE = "toy"
"""The one suite whose tasks may waive their proof: it holds faults on purpose."""
SEVERAL_DEFECTS = "several-defects"
"""Tag of a twin that declares more than one defect on purpose."""


def prove(task: Task, suite: Suite) -> list[str]:
    """Return the problems of a task in plain words; empty when it is proven.

    The task's reference is executed on a fresh environment, once as it is and once without each of its
    defects. With `proof: waived(reason)` in the suite `toy`, a problem is expected instead.
    """
    problems = _declaration_problems(task, suite) or run_in_thread(_prove(task, suite))
    if task.proof == "required":
        return problems
    if not (task.proof.startswith("waived(") and task.proof.endswith(")") and len(task.proof) > len("waived()")):
        return [*problems, f"proof is {task.proof!r}: use 'required', or 'waived(reason)' in the suite toy"]
    if suite.name != WAIVING_SUITE:
        return [*problems, f"proof is waived, which only the suite {WAIVING_SUITE} may do: make the task provable"]
    return [] if problems else ["proof is waived, yet the task is proven: set proof to required"]


def prove_suite(suite: Suite) -> list[str]:
    """Return the problems of all tasks, each with the task's id, and those of the suite as a whole."""
    problems = [f"{task.id}: {problem}" for task in suite.tasks for problem in prove(task, suite)]
    return problems + suite_problems(suite)


def suite_problems(suite: Suite) -> list[str]:
    """Return the problems of a suite as a whole: ids, twins, subjects, approvals; no task is executed."""
    return _id_problems(suite) + _cluster_problems(suite) + _subject_problems(suite) + _approvals(suite)


async def _prove(task: Task, suite: Suite) -> list[str]:
    walked, before, after = await _run(task, suite)
    if walked.problem:
        return [walked.problem]
    problems = [
        f"step {step.id!r} ({step.tool.name}) failed: {step.result.error_kind}: {step.result.message.rstrip('.')}. "
        "Mend the tool or the reference, or name this call in required_evidence"
        for step in walked.steps
        if not step.result.success and not _is_expected_failure(task, step)
    ]
    problems += _faults(task, walked, after)
    problems += _failing_member_problems(task, walked)
    problems += _idle_problems(task, walked, before)
    # What cannot be evaluated shows in the data alone (a list that is empty); a failed check must show as such.
    with_data = "not_evaluated" in task.checks.values()
    for defect in task.defects:
        without = task.model_copy(update={"defects": tuple(d for d in task.defects if d is not defect)})
        other, _, _ = await _run(without, suite)
        if _shown(other, with_data) == _shown(walked, with_data):
            problems.append(
                f"defect {defect.name!r} is not detected: the reference sees the same without it. "
                "Mend its changes, or let the reference look where it shows"
            )
    return problems


async def _run(task: Task, suite: Suite) -> tuple[Walk, JsonObject, JsonObject]:
    """The walked reference, and the facts before and after it."""
    environment = suite.make_environment({})
    try:
        try:
            await settle(environment.reset(task, 0))
        except Exception as error:
            return Walk((), f"reset fails: {type(error).__name__}: {error}"), {}, {}
        before = await settle(environment.facts())
        walked = await walk(environment, task)
        return walked, before, await settle(environment.facts())
    finally:
        await settle(environment.close())


def _shown(walked: Walk, with_data: bool) -> object:
    """What a reference run shows."""
    results = walked.results
    data = [result.data for result in results] if with_data else None
    return walked.problem, [result.success for result in results], evidence_of(results), data


def _faults(task: Task, walked: Walk, facts: JsonObject) -> list[str]:
    """Why a run with these steps and facts, claiming exactly the truth, would not be a success."""
    missing = [call for call in task.required_evidence if not _stands(call, walked.steps)]
    faults = [
        f"required evidence is missing: {call.tool} {call.arguments} with its outcome. "
        "Let the reference make this call, or correct required_evidence"
        for call in missing
    ]
    evidence = evidence_of(walked.results)
    for key, truth in task.checks.items():
        seen = _status(task, key, evidence)
        if truth != "not_evaluated" and task.members.get(key) == () and not missing and task.required_evidence:
            seen = "passed"
        if seen != truth:
            faults.append(
                f"check {key} is declared {truth}, but the steps show {seen}. "
                "Correct checks, the defect's changes, or the reference"
            )
    for name, wanted in task.end_state.items():
        if facts.get(name) != wanted:
            faults.append(
                f"end state {name!r} should be {wanted!r}, but is {facts.get(name)!r}. "
                "Correct end_state, or let the reference bring it about"
            )
    return faults


def _status(task: Task, key: str, evidence: Mapping[str, str]) -> str:
    """The status that evidence shows of a criterion; over members it is failed as soon as one fails."""
    if key in evidence:
        return evidence[key]
    name, _, subject = key.partition("@")
    if key in task.members:
        seen = [evidence.get(f"{name}@{member}") for member in task.members[key]]
    else:
        seen = [] if subject else [status for found, status in evidence.items() if found.partition("@")[0] == name]
    if "failed" in seen:
        return "failed"
    return "passed" if seen and None not in seen else "not_evaluated"


def _stands(required: RequiredCall, steps: Iterable[WalkedStep]) -> bool:
    return any(_matches(required, step) for step in steps)


def _matches(required: RequiredCall, step: WalkedStep) -> bool:
    return (
        step.tool.name == required.tool
        and step.result.success == required.success
        and (required.error_kind is None or required.error_kind == step.result.error_kind)
        and all(step.arguments.get(name) == value for name, value in required.arguments.items())
    )


def _is_expected_failure(task: Task, step: WalkedStep) -> bool:
    """A failing step belongs to a reference when the truth rests on it."""
    shows_truth = any(task.checks.get(key) == status for key, status in step.result.visible.items())
    return shows_truth or any(_matches(required, step) for required in task.required_evidence)


def _failing_member_problems(task: Task, walked: Walk) -> list[str]:
    evidence = evidence_of(walked.results)
    problems = []
    for key, members in task.members.items():
        name = key.partition("@")[0]
        failing = {member for member in members if evidence.get(f"{name}@{member}") == "failed"}
        if failing != set(task.failing_members.get(key, ())):
            declared = sorted(task.failing_members.get(key, ()))
            problems.append(f"failing_members of {key} are declared {declared}, but the steps show {sorted(failing)}")
    return problems


def _idle_problems(task: Task, walked: Walk, before: JsonObject) -> list[str]:
    """Ways in which a run that does nothing would be right."""
    if not _faults(task, Walk(()), before):
        return ["a run that does nothing meets the success rule: add a check that needs evidence"]
    acts = any(step.tool.has_side_effect for step in walked.steps)
    if acts and task.end_state and all(before.get(name) == wanted for name, wanted in task.end_state.items()):
        return ["the end state holds before the reference acts, so a run that does not act meets it too"]
    return []


def _declaration_problems(task: Task, suite: Suite) -> list[str]:
    """Problems that show without running anything."""
    problems = []
    if task.suite != suite.name:
        problems.append(f"it says suite {task.suite!r}, but is in {suite.name!r}")
    if not task.reference:
        problems.append("the reference has no steps, so doing nothing would be right")
    not_passed = sorted(key for key, status in task.checks.items() if status != "passed")
    if not task.defects and not_passed:
        problems.append(
            f"it has no defect, yet {', '.join(not_passed)} is not passed: seed a defect, or mend the truth"
        )
    if task.defects and not not_passed:
        problems.append("it has a defect, yet every check is passed: an unnoticeable defect teaches nothing")
    if len(task.defects) > 1 and SEVERAL_DEFECTS not in task.tags:
        problems.append(f"a twin seeds exactly one defect; mark a deliberate exception with the tag {SEVERAL_DEFECTS}")
    return problems


def _id_problems(suite: Suite) -> list[str]:
    counts = Counter(task.id for task in suite.tasks)
    return [f"task id {id!r} is used {count} times" for id, count in counts.items() if count > 1]


def _cluster_problems(suite: Suite) -> list[str]:
    clusters: dict[str, list[Task]] = defaultdict(list)
    for task in suite.tasks:
        clusters[task.cluster].append(task)
    problems = []
    for cluster, tasks in clusters.items():
        healthy = [task for task in tasks if not task.is_defective]
        if suite.name != WAIVING_SUITE and (len(healthy) != 1 or len(tasks) < 2):
            problems.append(
                f"cluster {cluster!r} needs one healthy task and at least one defect twin; it has {len(healthy)} "
                f"healthy and {len(tasks) - len(healthy)} defective"
            )
        problems += _twin_problems(tasks)
    return problems


def _twin_problems(tasks: Sequence[Task]) -> list[str]:
    """Twins may differ in their defect and its consequences alone, byte for byte."""
    first = tasks[0]
    return [
        f"{task.id} and {first.id} are of one cluster, but differ in {field}: make it the same, byte for byte"
        for task in tasks[1:]
        for field in ("instruction", "criteria", "declared", "initial_state", "environment")
        if _bytes(task, field) != _bytes(first, field)
    ]


def _bytes(task: Task, field: str) -> str:
    return canonical(task.model_dump(mode="json", include={field}))


def _subject_problems(suite: Suite) -> list[str]:
    counts = Counter(task.subject for task in suite.tasks if task.subject and task.canonical)
    subjects = dict.fromkeys(task.subject for task in suite.tasks if task.subject)
    return [
        f"subject {subject!r} needs exactly one canonical task, and has {counts[subject]}: set canonical to true in one"
        for subject in subjects
        if counts[subject] != 1
    ]


def _approvals(suite: Suite) -> list[str]:
    """Approvals given beforehand must speak of tasks and tools that exist and ask."""
    if not suite.approved_tools:
        return []
    asking = run_in_thread(_asking(suite))
    known = {task.id for task in suite.tasks}
    problems = []
    for task_id, names in suite.approved_tools.items():
        if task_id not in known:
            problems.append(f"approved_tools names the task {task_id!r}, which does not exist")
        problems += [
            f"approved_tools of {task_id}: {name!r} is no tool with permission ask"
            for name in names
            if name not in asking
        ]
    return problems


async def _asking(suite: Suite) -> set[str]:
    """Names of the tools that ask."""
    environment = suite.make_environment({})
    try:
        return {tool.name for tool in await settle(environment.tools()) if tool.permission == "ask"}
    finally:
        await settle(environment.close())
