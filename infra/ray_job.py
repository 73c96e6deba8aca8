"""RayJobs as Kubernetes takes them, from a typed description, and what is wrong with one before anything is applied.

Pure: a job knows its slice, and with it hosts, chips, selectors and tolerations. Whoever applies it checks it first.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from infra import catalog
from infra.catalog import Problem, TpuSlice
from infra.gke_cluster import DEFAULT_POOL
from infra.queue_quota import TPU, Flavor, JobTemplate, PodSize

_KUEUE = catalog.kueue()
_TAINTS: Mapping[str, str] = catalog.fact("gke", "taints").value
_APP = "/app"
# The user and the group that Ray's images run as, who own the mounted bucket: root would, and nobody else could write.
_OWNER = "uid=1000,gid=100"


@dataclass(frozen=True)
class ElasticRange:
    """Between how many slices a job may grow and shrink while it runs."""

    least: int
    """At least 1: Kueue 0.17.0 gives workers that begin with none a flavor without TPUs for good."""
    most: int
    """All of them on the flavor that the job was first admitted on."""


@dataclass(frozen=True)
class RayJobSpec:
    """A training job on TPU slices, by default scenario B's, without its elastic range."""

    name: str
    """The job's name, at most 47 characters."""
    tpu: TpuSlice
    """The slice: machine type and topology."""
    files: Mapping[str, str]
    """The program's files by their names, mounted at /app from a ConfigMap called NAME-app; less than 1 MiB in all."""
    entrypoint: str
    """The command that is run on the cluster, such as `python /app/train.py`."""
    queue: str = "user-queue"
    """The LocalQueue in which the job waits."""
    namespace: str = "default"
    """The namespace, which is the queue's."""
    image: str = "rayproject/ray:2.53.0-py311"
    """The image of all pods. Pin your own by digest; Docker Hub's tag is the tutorial's."""
    ray_version: str = "2.53.0"
    """The Ray in that image."""
    packages: Sequence[str] = ("jax[tpu]==0.8.2", "pandas==2.3.3")
    """Packages that Ray installs on each node before the job begins; none for an image that has them."""
    slices: int = 1
    """Slices, each with all its hosts."""
    elastic: ElasticRange | None = None
    """None, the default: the job begins with its slices and keeps them. See `elastic_risks`."""
    template: JobTemplate = field(default_factory=JobTemplate)
    """What head, workers and submitter ask for, chips apart."""
    service_account: str | None = None
    """The Kubernetes service account, for the bucket; None for the namespace's default one."""
    bucket: str | None = None
    """The bucket that head and workers mount; None for none."""
    mount_path: str = "/checkpoints"
    """Where it is mounted."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of head and workers."""


def ray_job_problems(
    spec: RayJobSpec, flavors: Sequence[Flavor], queues: Collection[str], feature_gates: Collection[str]
) -> list[Problem]:
    """What would be refused, or would wait for ever, in the cluster that has these flavors, queues and Kueue gates."""
    found = [
        catalog.ray_job_name_problem(spec.name),
        _queue_problem(spec, queues),
        *_size_problems(spec, flavors),
        *_elastic_problems(spec, feature_gates),
    ]
    return [each for each in found if each is not None]


def elastic_risks(spec: RayJobSpec) -> list[str]:
    """What an elastic job risks with Kueue 0.17.0; empty for one that is not."""
    if spec.elastic is None:
        return []
    return [
        "its flavor is fixed when it is first admitted: a job on on-demand nodes never grows into flex-start ones",
        "growing on flex-start asks for all its nodes anew, and if that fails, the whole running job is evicted",
        "a job that has grown and is evicted does not start again (https://github.com/kubernetes-sigs/kueue/pull/12994)",
    ]


def ray_job(spec: RayJobSpec) -> dict[str, Any]:
    """The RayJob."""
    annotations = {_KUEUE["elastic_annotation"]: "true"} if spec.elastic else {}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": spec.name,
            "namespace": spec.namespace,
            "labels": {"app": "holdfast", _KUEUE["queue_label"]: spec.queue},
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": {
            "entrypoint": spec.entrypoint,
            # Kueue refuses a job whose cluster would outlive it, and with it the quota.
            "shutdownAfterJobFinishes": True,
            **({"runtimeEnvYAML": yaml.safe_dump({"pip": list(spec.packages)})} if spec.packages else {}),
            "rayClusterSpec": {
                "rayVersion": spec.ray_version,
                **({"enableInTreeAutoscaling": True} if spec.elastic else {}),
                "headGroupSpec": {
                    "rayStartParams": {},
                    "template": _pod(spec, "ray-head", spec.template.head, ports=True, selector=_cpu_nodes()),
                },
                "workerGroupSpecs": [_workers(spec)],
            },
            # KubeRay's own has no selector, and its size would be nobody's choice.
            "submitterPodTemplate": _submitter(spec),
        },
    }


def app_config_map(spec: RayJobSpec) -> dict[str, Any]:
    """The ConfigMap with the program's files. It is applied before the job."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _config_map(spec), "namespace": spec.namespace, "labels": {"app": "holdfast"}},
        "data": dict(spec.files),
    }


def train_command(program: str, tpu: TpuSlice, slices: int = 1) -> str:
    """The entrypoint that runs `program`, one of workloads/ray, with a worker on each host of the job's slices."""
    return (
        f"python {_APP}/{program} --workers {tpu.hosts * slices} --chips {tpu.machine.chips} "
        f"--topology {tpu.topology} --accelerator {tpu.ray_accelerator}"
    )


def dashboard_command(job_name: str, namespace: str) -> str:
    """What forwards the Ray dashboard of a running job to http://localhost:8265."""
    cluster = f"$(kubectl -n {namespace} get rayjob {job_name} -o jsonpath='{{.status.rayClusterName}}')"
    return f"kubectl -n {namespace} port-forward service/{cluster}-head-svc 8265:8265"


def _queue_problem(spec: RayJobSpec, queues: Collection[str]) -> Problem | None:
    if spec.queue in queues:
        return None
    message = (
        f"there is no queue {spec.queue!r}; namespace {spec.namespace} has {', '.join(sorted(queues)) or 'none'}. "
        "Kueue would leave the job suspended for ever, without a word. Name one of these"
    )
    return Problem("queue", message)


def _size_problems(spec: RayJobSpec, flavors: Sequence[Flavor]) -> list[Problem]:
    """More slices, or larger pods, than any flavor can give, and slices that no pool has."""
    if spec.slices < 1:
        return [Problem("slices", f"{spec.slices}; a job has at least 1 slice")]
    fitting = [each for each in flavors if each.pool.tpu == spec.tpu]
    if not fitting:
        have = ", ".join(f"{each.pool.machine} {each.pool.topology}" for each in flavors if each.pool.tpu)
        message = f"no pool has {spec.tpu.machine.name} with topology {spec.tpu.topology}; there are {have or 'none'}"
        return [Problem("topology", f"{message}. Choose a pool's")]
    most = max(min(int(each.quota[TPU]), each.pool.chips) for each in fitting)
    wanted, key = (spec.slices, "slices") if spec.elastic is None else (spec.elastic.most, "elastic")
    problems = []
    if wanted * spec.tpu.chips > most:
        message = (
            f"{wanted} slices of {spec.tpu.hosts} hosts are {wanted * spec.tpu.chips} chips; the largest flavor, with "
            f"its pool, has {most}, and a job's workers are all on one. Ask for at most {most // spec.tpu.chips}, or "
            "enlarge pool and quota"
        )
        problems.append(Problem(key, message))
    problems += [
        Problem(key, f"{pod.cpu} CPU and {pod.memory}; no {machine} holds that. Ask for less")
        for key, pod, machine in (
            ("worker", spec.template.worker, spec.tpu.machine.name),
            *(
                (key, pod, each.pool.machine)
                for each in flavors
                if each.pool.name == DEFAULT_POOL
                for key, pod in (("head", spec.template.head), ("submitter", spec.template.submitter))
            ),
        )
        if not _holds(machine, pod)
    ]
    return problems


def _holds(machine: str, pod: PodSize) -> bool:
    node = catalog.machines()[machine]
    room = catalog.allocatable(node.vcpu, node.memory_gib)
    cpu_m, memory_mib = 1000 * catalog.parse_cpu(pod.cpu), 1024 * catalog.parse_memory_gib(pod.memory)
    return cpu_m <= room.cpu_m and memory_mib <= room.memory_mib


def _elastic_problems(spec: RayJobSpec, feature_gates: Collection[str]) -> list[Problem]:
    if spec.elastic is None:
        return []
    problems, gate = [], _KUEUE["elastic_gate"]
    if gate not in feature_gates:
        message = (
            f"an elastic job needs Kueue's feature gate {gate}, which is off "
            "(https://kueue.sigs.k8s.io/docs/concepts/elastic_workload/). Add it to the gates, or leave the range out"
        )
        problems.append(Problem("elastic", message))
    least, most = spec.elastic.least, spec.elastic.most
    if not 1 <= least <= spec.slices <= most:
        message = f"{least} to {most} slices, beginning with {spec.slices}; write 1 <= least <= slices <= most"
        problems.append(Problem("elastic", message))
    return problems


def _workers(spec: RayJobSpec) -> dict[str, Any]:
    between = spec.elastic or ElasticRange(spec.slices, spec.slices)
    selector = {
        catalog.node_label("tpu_accelerator"): spec.tpu.node_label,
        catalog.node_label("tpu_topology"): spec.tpu.topology,
    }
    return {
        "groupName": "tpu-group",
        "replicas": spec.slices,
        "minReplicas": between.least,
        "maxReplicas": between.most,
        "numOfHosts": spec.tpu.hosts,
        "rayStartParams": {},
        "template": _pod(
            spec, "ray-worker", spec.template.worker, selector=selector, chips=spec.tpu.machine.chips, tolerated=True
        ),
    }


def _pod(
    spec: RayJobSpec,
    name: str,
    size: PodSize,
    *,
    selector: Mapping[str, str],
    chips: int = 0,
    ports: bool = False,
    tolerated: bool = False,
) -> dict[str, Any]:
    resources = {"cpu": size.cpu, "memory": size.memory, **({TPU: str(chips)} if chips else {})}
    container: dict[str, Any] = {
        "name": name,
        "image": spec.image,
        # Requests and limits alike: what Kueue counts is what the pod can use.
        "resources": {"requests": resources, "limits": dict(resources)},
        "volumeMounts": [{"name": "app", "mountPath": _APP, "readOnly": True}],
    }
    if spec.env or spec.bucket:
        settings = {**({"CHECKPOINT_DIR": spec.mount_path} if spec.bucket else {}), **spec.env}
        container["env"] = [{"name": key, "value": value} for key, value in sorted(settings.items())]
    if ports:
        ports_ = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}
        container["ports"] = [{"name": key, "containerPort": port} for key, port in ports_.items()]
    pod: dict[str, Any] = {
        **({"serviceAccountName": spec.service_account} if spec.service_account else {}),
        "nodeSelector": dict(selector),
        "containers": [container],
        "volumes": [{"name": "app", "configMap": {"name": _config_map(spec)}}],
    }
    if tolerated:
        pod["tolerations"] = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in _TAINTS.values()]
    if spec.bucket is None:
        return {"spec": pod}
    container["volumeMounts"].append({"name": "checkpoints", "mountPath": spec.mount_path})
    pod["volumes"].append(_bucket_volume(spec.bucket))
    return {"metadata": {"annotations": {"gke-gcsfuse/volumes": "true"}}, "spec": pod}


def _bucket_volume(bucket: str) -> dict[str, Any]:
    attributes = {"bucketName": bucket, "mountOptions": _OWNER}
    return {"name": "checkpoints", "csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": attributes}}


def _submitter(spec: RayJobSpec) -> dict[str, Any]:
    resources = {"cpu": spec.template.submitter.cpu, "memory": spec.template.submitter.memory}
    container = {
        "name": "ray-job-submitter",
        "image": spec.image,
        "resources": {"requests": resources},
    }
    return {"spec": {"restartPolicy": "Never", "nodeSelector": _cpu_nodes(), "containers": [container]}}


def _cpu_nodes() -> dict[str, str]:
    # Without it, Kueue would give heads the next flavor when the first is full: nodes with taints they do not tolerate.
    return {catalog.node_label("pool"): DEFAULT_POOL}


def _config_map(spec: RayJobSpec) -> str:
    return f"{spec.name}-app"
