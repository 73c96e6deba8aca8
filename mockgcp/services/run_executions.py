"""Cloud Run Admin v2: executions, their tasks, and what the plane that runs them reports.

The service owns the state and the retry rule; a plane owns the processes and says only that an attempt started or
ended.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from mockgcp.errors import ApiError, failed_precondition, not_found, permission_denied
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, canonical
from mockgcp.services import reports
from mockgcp.services.run import (
    check_etag,
    check_template,
    children,
    condition,
    job,
    job_name,
    operation,
    parent,
    service,
)

_TOKEN = "bcdfghjklmnpqrstvwxz2456789"
_JOB_FIELDS = ("launchStage", "client", "clientVersion")


def _execution_name(call: Call) -> str:
    return canonical(call, "/".join(call.params["name"].split("/")[:8]))


def _execution(call: Call) -> dict[str, Any]:
    found = call.cloud.table("run.execution").get(_execution_name(call))
    if found is None:
        raise not_found(f"Execution {_execution_name(call)} does not exist.")
    return found


def _tasks(execution: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The execution's tasks, without a search among all there are."""
    found: list[dict[str, Any]] = execution["_tasks"]
    return found


def _completed(resource: Mapping[str, Any]) -> bool:
    return "completionTime" in resource


# -- start ---------------------------------------------------------------------------------------------------------


def _overridden(call: Call, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The job's template with the run request's overrides applied."""
    template: dict[str, Any] = copy.deepcopy(dict(stored["template"]))
    overrides = call.body.get("overrides", {})
    if "taskCount" in overrides:
        if template["parallelism"] == template["taskCount"]:  # all at once, then, too
            template["parallelism"] = overrides["taskCount"]
        template["taskCount"] = overrides["taskCount"]
    if "timeout" in overrides:
        template["template"]["timeout"] = overrides["timeout"]
    container = template["template"]["containers"][0]
    for change in overrides.get("containerOverrides", []):
        if change.get("clearArgs"):
            container["args"] = []
        if "args" in change:
            container["args"] = change["args"]
        env = {item.get("name"): item for item in [*container.get("env", []), *change.get("env", [])]}
        container["env"] = list(env.values())
    return template


def _check_run(call: Call) -> None:
    stored = job(call)
    check_etag(call.body.get("etag"), stored)
    job_id, ready = stored["name"].split("/")[-1], stored["terminalCondition"]
    if stored["reconciling"]:
        raise failed_precondition(f"Job {job_id} is not ready yet.")
    if ready["state"] == "CONDITION_FAILED":  # the words are unchecked
        raise failed_precondition(f"Job {job_id} is not ready: {ready['message']}")
    check_template(call, _overridden(call, stored), job_id, stored["launchStage"])


@service.method(
    "run.projects.locations.jobs.run",
    permission="run.jobs.run",
    on=job_name,
    rules=_check_run,
    answers="GoogleCloudRunV2Execution",
)
def run(call: Call) -> Operation:
    more = "run.jobs.runWithOverrides"
    if call.body.get("overrides") and not call.cloud.allowed(call.principal, more, job_name(call)):
        raise permission_denied(f"Permission '{more}' denied on resource '{job_name(call)}' for {call.principal}.")
    stored, template = job(call), _overridden(call, job(call))
    token = "".join(call.cloud.random.choices(_TOKEN, k=5))
    short = f"{stored['name'].split('/')[-1]}-{token}"
    name, now = f"{stored['name']}/executions/{short}", call.cloud.clock.timestamp()
    execution: dict[str, Any] = {
        "name": name,
        "uid": call.cloud.uid(),
        "job": stored["name"].split("/")[-1],
        "createTime": now,
        "creator": call.principal.partition(":")[2],
        "generation": "1",
        "taskCount": template["taskCount"],
        "parallelism": template["parallelism"],
        "template": template["template"],
        "labels": template.get("labels", {}),
        "reconciling": True,
        "conditions": [condition(call, "Completed", "CONDITION_PENDING")],
        **{key: stored[key] for key in _JOB_FIELDS if key in stored},
    }
    call.cloud.table("run.execution")[name] = execution
    task, execution["_tasks"] = template["template"], []
    for index in range(template["taskCount"]):
        task_name = f"{name}/tasks/{short}-task{index}"
        made = call.cloud.table("run.task")[task_name] = {
            **{key: task[key] for key in task if key != "vpcAccess"},
            "name": task_name,
            "uid": call.cloud.uid(),
            "job": execution["job"],
            "execution": short,
            "index": index,
            "retried": 0,
            "createTime": now,
            "scheduledTime": now,
            "conditions": [condition(call, "Completed", "CONDITION_PENDING")],
        }
        execution["_tasks"].append(made)
    _count(execution)
    stored["executionCount"] += 1
    stored["latestCreatedExecution"] = {
        "name": short,
        "createTime": now,
        "completionStatus": "EXECUTION_PENDING",
    }
    started = operation(call, name)
    execution["_operation"] = started.name
    return call.cloud.operations.add(started)


# -- read ----------------------------------------------------------------------------------------------------------


def _shown(resource: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in resource.items() if not key.startswith("_")}


@service.method("run.projects.locations.jobs.executions.get", permission="run.executions.get", on=_execution_name)
def get(call: Call) -> Mapping[str, Any]:
    return _shown(_execution(call))


@service.method(
    "run.projects.locations.jobs.executions.list", permission="run.executions.list", on=parent, reads=PARAMS
)
def list_(call: Call) -> Mapping[str, Any]:
    executions, more = page(call, children(call, "run.execution", "executions")[::-1])
    return {"executions": [_shown(e) for e in executions], **more}


@service.method(
    "run.projects.locations.jobs.executions.tasks.get",
    permission="run.tasks.get",
    on=lambda call: canonical(call, call.params["name"]),
)
def get_task(call: Call) -> Mapping[str, Any]:
    task = call.cloud.table("run.task").get(canonical(call, call.params["name"]))
    if task is None:
        raise not_found(f"Task {call.params['name']} does not exist.")
    return _shown(task)


@service.method(
    "run.projects.locations.jobs.executions.tasks.list", permission="run.tasks.list", on=parent, reads=PARAMS
)
def list_tasks(call: Call) -> Mapping[str, Any]:
    one = call.cloud.table("run.execution").get(parent(call))
    tasks, more = page(call, children(call, "run.task", "tasks") if one is None else _tasks(one))
    return {"tasks": [_shown(task) for task in tasks], **more}


# -- end -----------------------------------------------------------------------------------------------------------


@service.method(
    "run.projects.locations.jobs.executions.cancel",
    permission="run.executions.cancel",
    on=_execution_name,
    answers="GoogleCloudRunV2Execution",
)
def cancel(call: Call) -> Operation:
    execution = _execution(call)
    if _completed(execution):
        raise failed_precondition(f"Execution {execution['name'].split('/')[-1]} is complete; it cannot be cancelled.")
    execution["_cancelled"] = True
    execution["conditions"] = [condition(call, "Completed", "CONDITION_RECONCILING", executionReason="CANCELLING")]
    for task in _tasks(execution):
        if "startTime" not in task:
            _end(call, task, "CONDITION_FAILED", "The task was cancelled before it started.")
    _count(execution)
    _settle(call, execution)
    done = operation(call, execution["name"])
    return call.cloud.operations.run(done, (call.duration_s, lambda: _shown(execution)))


@service.method(
    "run.projects.locations.jobs.executions.delete",
    permission="run.executions.delete",
    on=_execution_name,
    answers="GoogleCloudRunV2Execution",
)
def delete(call: Call) -> Operation:
    execution, name = _execution(call), _execution_name(call)
    if not _completed(execution):
        raise failed_precondition(f"Execution {name.split('/')[-1]} is running; cancel it first.")

    def gone() -> Mapping[str, Any]:
        call.cloud.table("run.execution").pop(name, None)
        for task in _tasks(execution):
            call.cloud.table("run.task").pop(task["name"], None)
        return _shown(execution)

    return call.cloud.operations.run(operation(call, name), (call.duration_s, gone))


# -- what the plane reports ----------------------------------------------------------------------------------------


@reports.service.method("mockgcp.run.executions.list", on=lambda call: "")
def list_active(call: Call) -> Mapping[str, Any]:
    active = [e for e in call.cloud.table("run.execution").values() if not _completed(e)]
    return {"executions": [_shown(e) for e in active]}


@reports.service.method("mockgcp.run.tasks.report", on=lambda call: call.params["name"])
def report(call: Call) -> Mapping[str, Any]:
    task = call.cloud.table("run.task").get(call.params["name"])
    execution = call.cloud.table("run.execution").get(_execution_name(call))
    if task is None or execution is None or _completed(task):  # deleted or cancelled meanwhile
        return {"next": "DONE"}
    event, task["retried"] = call.body.get("event"), call.body.get("attempt", 0)
    if event == "STARTED":
        now = call.cloud.clock.timestamp()
        task.setdefault("startTime", now)
        task["conditions"] = [condition(call, "Completed", "CONDITION_RECONCILING")]
        if "startTime" not in execution:
            execution["startTime"] = now
            _latest(call, execution, "EXECUTION_RUNNING")
        order = "WAIT"
    else:
        order = _attempt_ended(call, execution, task, started=event == "ENDED")
    _count(execution)
    _settle(call, execution)
    return {"next": order}


def _attempt_ended(call: Call, execution: Mapping[str, Any], task: dict[str, Any], *, started: bool) -> str:
    body = call.body
    result = {key: body[key] for key in ("exitCode", "termSignal") if key in body}
    clean = result.get("exitCode") == 0 and "termSignal" not in result
    worked = started and clean and not body.get("stopped")
    message = body.get("message", "")
    task["lastAttemptResult"] = {**result, "status": {"code": 0} if worked else {"code": 2, "message": message}}
    if worked:
        _end(call, task, "CONDITION_SUCCEEDED", "")
        return "DONE"
    if execution.get("_cancelled") or body.get("attempt", 0) >= task["maxRetries"]:
        _end(call, task, "CONDITION_FAILED", message)
        return "DONE"
    task["conditions"] = [condition(call, "Retry", "CONDITION_RECONCILING", reason="IMMEDIATE_RETRY", message=message)]
    return "RETRY"


def _end(call: Call, task: dict[str, Any], state: str, message: str) -> None:
    task["completionTime"] = call.cloud.clock.timestamp()
    task["conditions"] = [condition(call, "Completed", state, **({"message": message} if message else {}))]


def _count(execution: dict[str, Any]) -> None:
    tasks = _tasks(execution)
    states = [task["conditions"][0]["state"] for task in tasks]
    failed = states.count("CONDITION_FAILED")
    execution.update(
        succeededCount=states.count("CONDITION_SUCCEEDED"),
        failedCount=0 if execution.get("_cancelled") else failed,
        cancelledCount=failed if execution.get("_cancelled") else 0,
        runningCount=sum("startTime" in task and not _completed(task) for task in tasks),
        retriedCount=sum(task["retried"] for task in tasks),
    )


def _settle(call: Call, execution: dict[str, Any]) -> None:
    """Completes the execution, and the operation that started it, once every task is."""
    tasks = _tasks(execution)
    if _completed(execution) or not all(_completed(task) for task in tasks):
        return
    execution["completionTime"] = call.cloud.clock.timestamp()
    execution["reconciling"] = False
    started = call.cloud.operations.get(execution["_operation"])
    failed = [task for task in tasks if task["conditions"][0]["state"] == "CONDITION_FAILED"]
    if not failed:
        execution["conditions"] = [condition(call, "Completed", "CONDITION_SUCCEEDED")]
        _latest(call, execution, "EXECUTION_SUCCEEDED")
        if started is not None:
            started.finish(_shown(execution))
        return
    cancelled = bool(execution.get("_cancelled"))
    first = failed[0]
    message = (
        "The execution was cancelled."
        if cancelled
        else f"Task {first['name'].split('/')[-1]} failed with message: {first['conditions'][0].get('message', '')}"
    )
    reason = "CANCELLED" if cancelled else "NON_ZERO_EXIT_CODE"
    execution["conditions"] = [
        condition(call, "Completed", "CONDITION_FAILED", executionReason=reason, message=message)
    ]
    _latest(call, execution, "EXECUTION_CANCELLED" if cancelled else "EXECUTION_FAILED")
    if started is not None:
        started.fail(ApiError("CANCELLED" if cancelled else "ABORTED", message))


def _latest(call: Call, execution: Mapping[str, Any], status: str) -> None:
    stored = call.cloud.table("run.job").get(execution["name"].partition("/executions/")[0])
    latest = (stored or {}).get("latestCreatedExecution", {})
    if latest.get("name") == execution["name"].split("/")[-1]:
        latest["completionStatus"] = status
        if "completionTime" in execution:
            latest["completionTime"] = execution["completionTime"]
