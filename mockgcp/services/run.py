"""Cloud Run Admin v2: jobs. Their executions and tasks are in run_executions.py, the processes in planes/cloud_run.py.

The platform's limits come from infra/catalog; the defaults filled in here are what makes a second `up` quiet.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from infra import catalog
from mockgcp.errors import ApiError, already_exists, invalid, not_found
from mockgcp.operations import Operation
from mockgcp.paging import PARAMS, page
from mockgcp.service import Call, Service, canonical
from mockgcp.services import iam, run_needs
from mockgcp.services.standard import serve_operations, serve_policies

service = Service("run", host="run.googleapis.com")

GPU = "nvidia.com/gpu"


def job_name(call: Call) -> str:
    """The full name of the job a call is about, with the project's id where a number was given."""
    name: str = call.params.get("name") or call.params["resource"]
    return canonical(call, "/".join(name.split("/")[:6]))


def parent(call: Call) -> str:
    return canonical(call, call.params["parent"])


def job(call: Call) -> dict[str, Any]:
    """The stored job.

    Raises:
        ApiError: NOT_FOUND.
    """
    found = call.cloud.table("run.job").get(job_name(call))
    if found is None:
        raise not_found(
            f"Resource '{job_name(call).split('/')[-1]}' of kind 'JOB' in region '{region(call)}' in "
            f"project '{job_name(call).split('/')[1]}' does not exist."
        )
    return found


def region(call: Call) -> str:
    name: str = call.params.get("name") or call.params.get("parent") or call.params["resource"]
    return name.split("/")[3]


def condition(call: Call, kind: str, state: str, **fields: str) -> dict[str, Any]:
    return {"type": kind, "state": state, "lastTransitionTime": call.cloud.clock.timestamp(), **fields}


# -- rules ---------------------------------------------------------------------------------------------------------


def _check_patch(call: Call) -> None:
    job_id = call.params["name"].rpartition("/")[2]
    check_template(call, call.body.get("template", {}), job_id, call.body.get("launchStage", "GA"))


def _check_create(call: Call) -> None:
    if problem := catalog.job_name_problem(call.params.get("jobId", "")):
        raise invalid(f"jobId: {problem.message}", ("jobId", "malformed"))
    check_template(call, call.body.get("template", {}), call.params["jobId"], call.body.get("launchStage", "GA"))


def check_template(call: Call, execution: Mapping[str, Any], job_id: str, launch_stage: str) -> None:
    """What the API refuses about a job's template.

    Raises:
        ApiError: INVALID_ARGUMENT with every violation in one message.
    """
    if not call.cloud.universe.cloud_run:
        raise ApiError("UNIMPLEMENTED", f"the universe {call.cloud.universe.domain} has no Cloud Run")
    if problem := catalog.task_count_problem(execution.get("taskCount", 1)):
        raise invalid(f"Violation in Job.template.taskCount: {problem.message}", ("template.taskCount", "out of range"))
    if execution.get("parallelism", 0) < 0:
        raise invalid("Violation in Job.template.parallelism: must not be negative.", ("template.parallelism", "value"))
    task = execution.get("template", {})
    containers = task.get("containers", [])
    if len(containers) != 1 or not containers[0].get("image"):
        raise invalid(
            "Violation in Job.template.template.containers: exactly one container with an image is required.",
            ("template.template.containers", "required"),
        )
    container, violations = containers[0], []
    if not task.get("serviceAccount") and _default_account(call) is None:
        why = "the project has no default service account (Compute Engine is off): name one of your own"
        violations.append(("template.template.serviceAccount", why))
    limits = container.get("resources", {}).get("limits", {})
    accelerator = task.get("nodeSelector", {}).get("accelerator")
    gpus = limits.get(GPU)
    if gpus is not None and not re.fullmatch(r"\d{1,3}", gpus):
        raise invalid(f"Violation in Job.template.template: {GPU} {gpus!r} is not a number of GPUs", (GPU, "malformed"))
    if (gpus is None) != (accelerator is None):
        violations.append(("template.template", f"{GPU} in the limits and nodeSelector.accelerator go together"))
    try:
        problems = catalog.gpu_job_problems(
            cpu=catalog.parse_cpu(limits.get("cpu", catalog.cloud_run().container_cpu_default)),
            memory_gib=catalog.parse_memory_gib(limits.get("memory", catalog.cloud_run().container_memory_default)),
            accelerator=accelerator,
            gpu_count=int(gpus or 0),
            timeout_s=catalog.parse_duration_s(task["timeout"]) if "timeout" in task else None,
            max_retries=task.get("maxRetries"),
            universe=call.cloud.universe,
        )
    except ValueError as error:
        raise invalid(f"Violation in Job.template.template: {error}") from error
    violations += [(f"template.template.{_FIELDS[p.field]}", p.message) for p in problems]
    volumes = {volume.get("name") for volume in task.get("volumes", [])}
    for volume in task.get("volumes", []):
        if not volume.get("name") or ("gcs" in volume and not volume["gcs"].get("bucket")):
            violations.append(("template.template.volumes", "a volume has a name, and a gcs volume a bucket"))
        if not {"gcs", "emptyDir"} & volume.keys():
            raise ApiError("UNIMPLEMENTED", f"volume {volume.get('name')}: mockgcp has gcs and emptyDir volumes only")
    for mount in container.get("volumeMounts", []):
        if mount.get("name") not in volumes:
            violations.append(("template.template.containers[0].volumeMounts", f"no volume {mount.get('name')!r}"))
        if not str(mount.get("mountPath", "")).startswith("/"):
            violations.append(("template.template.containers[0].volumeMounts.mountPath", "must be absolute"))
    for env in container.get("env", []):
        if not env.get("name"):
            violations.append(("template.template.containers[0].env.name", "required"))
        if problem := catalog.env_name_problem(env.get("name", "")):
            violations.append(("template.template.containers[0].env", problem.message))
        if "valueSource" in env:
            raise ApiError("UNIMPLEMENTED", f"env {env['name']}: mockgcp has no Secret Manager, so no valueSource yet")
    violations += run_needs.template_violations(call, region(call), task)
    if violations:
        raise invalid("; ".join(f"Violation in Job.{path}: {message}" for path, message in violations), *violations)
    run_needs.require_launch_stage(job_id, launch_stage, task)


def _default_account(call: Call) -> str | None:
    name = call.params.get("parent") or call.params["name"]
    return iam.default_account(call.cloud, call.cloud.project(name.split("/")[1]))


_FIELDS = {
    "cpu": "containers[0].resources.limits.cpu",
    "memory_gib": "containers[0].resources.limits.memory",
    "accelerator": "nodeSelector.accelerator",
    "gpu_count": f"containers[0].resources.limits[{GPU}]",
    "timeout_s": "timeout",
    "max_retries": "maxRetries",
}


def _with_defaults(call: Call) -> dict[str, Any]:
    """The body as the server stores it: defaults filled in, nothing the caller sent changed."""
    result, limits = copy.deepcopy(dict(call.body)), catalog.cloud_run()
    execution = result["template"]
    execution.setdefault("taskCount", 1)
    execution["parallelism"] = execution.get("parallelism") or execution["taskCount"]
    task = execution["template"]
    task.setdefault("timeout", f"{limits.task_timeout_default_s:g}s")
    task.setdefault("maxRetries", limits.max_retries_default)
    task.setdefault("executionEnvironment", "EXECUTION_ENVIRONMENT_GEN2")
    task["serviceAccount"] = task.get("serviceAccount") or _default_account(call)
    if task.get("vpcAccess", {}).get("networkInterfaces"):
        task["vpcAccess"].setdefault("egress", "PRIVATE_RANGES_ONLY")
    resources = task["containers"][0].setdefault("resources", {})
    resources["limits"] = {
        "cpu": limits.container_cpu_default,
        "memory": limits.container_memory_default,
        **resources.get("limits", {}),
    }
    result.setdefault("launchStage", "GA")
    return result


# -- jobs ----------------------------------------------------------------------------------------------------------


@service.method(
    "run.projects.locations.jobs.create",
    permission="run.jobs.create",
    on=parent,
    rules=_check_create,
    reads=("jobId",),
    answers="GoogleCloudRunV2Job",
)
def create(call: Call) -> Operation | Mapping[str, Any]:
    name = f"{parent(call)}/jobs/{call.params['jobId']}"
    stored = _with_defaults(call)
    _require_access(call, name, stored)
    if name in call.cloud.table("run.job"):
        raise already_exists(f"Resource '{call.params['jobId']}' already exists.")
    now = call.cloud.clock.timestamp()
    stored.update(
        name=name,
        uid=call.cloud.uid(),
        generation="1",
        createTime=now,
        updateTime=now,
        creator=call.principal.partition(":")[2],
        lastModifier=call.principal.partition(":")[2],
        executionCount=0,
        etag=f'"{call.cloud.uid()}"',
    )
    return _reconcile(call, name, stored)


@service.method(
    "run.projects.locations.jobs.patch",
    permission="run.jobs.update",
    on=job_name,
    rules=_check_patch,
    answers="GoogleCloudRunV2Job",
)
def patch(call: Call) -> Operation | Mapping[str, Any]:
    old, name = job(call), job_name(call)
    check_etag(call.body.get("etag"), old)
    stored = _with_defaults(call)
    _require_access(call, name, stored)
    kept = ("name", "uid", "createTime", "creator", "executionCount", "latestCreatedExecution")
    stored.update({key: old[key] for key in kept if key in old})
    stored.update(
        generation=str(int(old["generation"]) + 1),
        updateTime=call.cloud.clock.timestamp(),
        lastModifier=call.principal.partition(":")[2],
        etag=f'"{call.cloud.uid()}"',
    )
    return _reconcile(call, name, stored)


def _require_access(call: Call, name: str, stored: Mapping[str, Any]) -> None:
    """What the caller must be allowed, and the project have, for this job.

    Raises:
        ApiError: PERMISSION_DENIED, FAILED_PRECONDITION, or INVALID_ARGUMENT for a lack of quota.
    """
    task = stored["template"]["template"]
    iam.require_act_as(call, task["serviceAccount"])
    run_needs.require_readable_image(call, task["containers"][0]["image"])
    run_needs.require_gpu_quota(call.cloud, name.split("/")[1], name.split("/")[3], stored["template"])


def check_etag(sent: str | None, stored: Mapping[str, Any]) -> None:
    """Refuses a change of a job that somebody else has changed since it was read.

    Raises:
        ApiError: ABORTED.
    """
    if sent and sent != stored["etag"]:
        raise ApiError("ABORTED", f"Conflict for resource '{stored['name']}': etag {sent} is not the current one.")


def _reconcile(call: Call, name: str, stored: dict[str, Any]) -> Operation:
    stored["reconciling"] = True
    stored["terminalCondition"] = condition(call, "Ready", "CONDITION_RECONCILING")
    call.cloud.table("run.job")[name] = stored

    def ready() -> Mapping[str, Any]:
        if call.cloud.table("run.job").get(name, {}).get("uid") != stored["uid"]:
            raise ApiError("ABORTED", f"Job {name.split('/')[-1]} was deleted before it was ready.")
        stored["reconciling"] = False
        stored["observedGeneration"] = stored["generation"]
        if missing := run_needs.missing(call.cloud, name, stored["template"]["template"]):
            stored["terminalCondition"] = condition(
                call, "Ready", "CONDITION_FAILED", reason=missing.reason, message=missing.error.message
            )
            raise missing.error
        stored["terminalCondition"] = condition(call, "Ready", "CONDITION_SUCCEEDED")
        return copy.deepcopy(stored)

    return call.cloud.operations.run(operation(call, name), (call.duration_s, ready))


def operation(call: Call, name: str) -> Operation:
    """A fresh operation in the location of resource `name`."""
    location = "/".join(name.split("/")[:4])
    return Operation(f"{location}/operations/{call.cloud.uid()}", {"name": name})


@service.method("run.projects.locations.jobs.get", permission="run.jobs.get", on=job_name)
def get(call: Call) -> Mapping[str, Any]:
    return job(call)


def children(call: Call, kind: str, collection: str) -> list[dict[str, Any]]:
    """The resources of a collection under the call's parent, in the order of their making; `-` there means any."""
    pattern = f"{parent(call)}/{collection}/-".split("/")

    def fits(name: str) -> bool:
        parts = name.split("/")
        return len(parts) == len(pattern) and all(p in ("-", part) for p, part in zip(pattern, parts, strict=True))

    return [resource for name, resource in call.cloud.table(kind).items() if fits(name)]


# Of this API no page size is documented: without one, everything comes at once.
@service.method("run.projects.locations.jobs.list", permission="run.jobs.list", on=parent, reads=PARAMS)
def list_(call: Call) -> Mapping[str, Any]:
    jobs, more = page(call, sorted(children(call, "run.job", "jobs"), key=lambda found: str(found["name"])))
    return {"jobs": jobs, **more}


@service.method(
    "run.projects.locations.jobs.delete",
    permission="run.jobs.delete",
    on=job_name,
    reads=("etag",),
    answers="GoogleCloudRunV2Job",
)
def delete(call: Call) -> Operation:
    name, stored = job_name(call), job(call)
    check_etag(call.params.get("etag"), stored)

    def gone() -> Mapping[str, Any]:
        if call.cloud.table("run.job").get(name, {}).get("uid") != stored["uid"]:  # another deletion came first
            return stored
        del call.cloud.table("run.job")[name]
        for key, execution in call.cloud.table("run.execution").items():
            started = call.cloud.operations.get(execution["_operation"])
            if key.startswith(f"{name}/") and started is not None and not started.done:
                started.fail(ApiError("CANCELLED", "The job was deleted."))
        for kind in ("run.execution", "run.task"):
            table = call.cloud.table(kind)
            for key in [k for k in table if k.startswith(f"{name}/")]:
                del table[key]
        call.cloud.policies.drop(name)
        return stored

    return call.cloud.operations.run(operation(call, name), (call.duration_s, gone))


serve_policies(
    service, "run.projects.locations.jobs", "run.jobs", on=job_name, there=lambda call: str(job(call)["name"])
)
serve_operations(
    service,
    "run.projects.locations.operations",
    "run.operations.get",
    on=lambda call: canonical(call, call.params["name"]),
)
