"""Configuration of the gke_tpu stack, by default scenario B's, and all that is wrong with it before anything exists."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated

import pulumi
from pydantic import BeforeValidator, Field

from infra import catalog, names
from infra.catalog import Problem
from infra.gke_cluster import DEFAULT_POOL, GkeClusterArgs, gke_cluster_problems
from infra.kueue import KueueArgs, PodsReady
from infra.kueue_queues import KueueQueuesArgs, Retry, kueue_queues_problems
from infra.network import NetworkArgs
from infra.node_pool import NodePoolArgs, node_pool_problems
from infra.pool_shape import FLEX_START, PoolShape
from infra.queue_quota import Flavor, JobTemplate, PodSize, derived, quota_problems, written
from infra.ray_job import ElasticRange, RayJobSpec, ray_job_problems
from stacks.config import StackConfig, Target, TextList, TextMap, decoded, labels

Quotas = Annotated[dict[str, dict[str, str]], BeforeValidator(decoded)]
# Fields of this configuration, by those that the components' problems name.
_CLUSTER = {"cluster_name": "cluster_name", "version": "gke_version", "account_id": "node_account_id"}
_DEFAULT_POOL = {"machine": "default_machine", "topology": "default_machine", "slices": "default_nodes"}
_RAY_JOB = {
    "queue": "job_queue",
    "slices": "job_slices",
    "elastic": "job_elastic_max",
    "worker": "worker_cpu",
    "head": "head_cpu",
    "submitter": "default_machine",
}


class GkeTpuConfig(StackConfig):
    """Configuration of the gke_tpu stack: TPU pools on GKE, Kueue's queues, and the jobs that are submitted to them."""

    zone: str = Field("us-east5-b", description="the zone of cluster, nodes and TPUs, in gcp:region")
    network_name: str = Field("tpu", description="the network's name")
    subnet_cidr: str = Field(NetworkArgs.subnet_cidr, description="the nodes' range; pods and services get others")
    bucket_name: str | None = Field(
        None, description="the checkpoint bucket's name, by default tpu-checkpoints-PROJECT"
    )
    force_destroy: bool = Field(False, description="whether destroy deletes checkpoints with their bucket")

    cluster_name: str = Field(GkeClusterArgs.cluster_name, description="the cluster's name")
    gke_version: str = Field(GkeClusterArgs.version, description="the lowest GKE version, such as 1.34")
    release_channel: str = Field(GkeClusterArgs.release_channel, description="the channel that upgrades come from")
    authorized_networks: TextMap = Field(
        default_factory=dict,
        description="IPv4 ranges, by a name for each, that reach the control plane; none for its DNS name alone",
    )
    node_account_id: str = Field(GkeClusterArgs.node_account_id, description="the id of the nodes' service account")
    default_machine: str = Field("n2-standard-16", description="the machine type of the CPU pool")
    default_nodes: int = Field(1, ge=1, description="nodes of the CPU pool, where Ray's heads are")

    machine: str = Field("ct6e-standard-4t", description="the machine type of the TPU pools")
    topology: str = Field("4x4", description="the topology of a TPU slice")
    on_demand_pool: str = Field("on-demand-pool", description="the name of the on-demand pool")
    on_demand_slices: int = Field(1, description="slices of the on-demand pool at once, 0 for no such pool")
    flex_start_pool: str = Field("dws-pool", description="the name of the flex-start pool")
    flex_start_slices: int = Field(1, description="slices of the flex-start pool at once, 0 for no such pool")
    max_run_duration: str = Field(
        NodePoolArgs.max_run_duration, description="seconds that a flex-start node runs, followed by `s`"
    )
    flex_start_auto_repair: bool = Field(False, description="whether GKE repairs flex-start nodes, ending their slice")

    kueue_chart: str = Field(KueueArgs.chart, description="Kueue's Helm chart, oci:// or a path")
    kueue_version: str = Field(KueueArgs.version, description="the version of Kueue's chart")
    feature_gates: TextList = Field(
        default_factory=lambda: [catalog.kueue()["elastic_gate"]],
        description="features of Kueue to enable, a list of their names",
    )
    cluster_queue: str = Field(KueueQueuesArgs.cluster_queue, description="the name of the cluster's queue")
    queueing_strategy: str = Field(
        KueueQueuesArgs.queueing_strategy, description="BestEffortFIFO, or StrictFIFO for no job to pass an earlier one"
    )
    local_queue: str = Field(KueueQueuesArgs.local_queue, description="the name of the queue that jobs wait in")
    namespace: str = Field(KueueQueuesArgs.namespace, description="the namespace of that queue and of its jobs")
    quotas: Quotas = Field(
        default_factory=dict,
        description="quotas by flavor (default-cpu, on-demand, dws) and resource, by default what the pools can hold",
    )
    queued_quota_above_pool: bool = Field(
        False, description="whether the quota of dws may exceed its pool, so that more jobs wait with a request each"
    )
    retry_limit: int = Field(Retry.limit, description="retries of a failed request for flex-start nodes")
    retry_base_seconds: int = Field(Retry.base_s, description="seconds before the first retry, doubling")
    retry_max_seconds: int = Field(Retry.max_s, description="the most seconds between two retries")
    pods_ready_seconds: int = Field(
        PodsReady.timeout_s, ge=0, description="seconds that an admitted job's pods have to come up, 0 for no limit"
    )
    pods_ready_retries: int = Field(
        PodsReady.retries, ge=0, description="how often a job is queued again whose pods did not come up"
    )
    pods_ready_base_seconds: int = Field(
        PodsReady.base_s, ge=1, description="seconds before it is queued again, doubling"
    )

    job_account: str = Field("ray-job", description="the Kubernetes service account that jobs run as")
    job_name: str = Field("jax-train", description="the name of a job that is submitted without one")
    job_image: str = Field(RayJobSpec.image, description="the image of the jobs' pods")
    job_queue: str | None = Field(None, description="the queue that jobs name, by default localQueue")
    job_slices: int = Field(RayJobSpec.slices, description="slices a job")
    job_elastic_min: int | None = Field(None, description="the fewest slices of an elastic job")
    job_elastic_max: int | None = Field(None, description="the most slices of an elastic job")
    head_cpu: str = Field("2", description="CPUs of a job's head")
    head_memory: str = Field("4Gi", description="memory of a job's head, such as 4Gi")
    worker_cpu: str = Field("8", description="CPUs of each worker")
    worker_memory: str = Field("16Gi", description="memory of each worker, such as 16Gi")

    def bucket(self, target: Target) -> str:
        """The checkpoint bucket's name."""
        return self.bucket_name or names.bucket_name(target.project, "tpu-checkpoints")

    def default_pool(self) -> PoolShape:
        """The CPU pool."""
        return PoolShape(DEFAULT_POOL, self.default_machine, slices=self.default_nodes)

    def tpu_pools(self) -> dict[str, PoolShape]:
        """The TPU pools, in the order in which Kueue tries them, by the names of their flavors."""
        pools = {
            "on-demand": PoolShape(self.on_demand_pool, self.machine, self.topology, self.on_demand_slices),
            "dws": PoolShape(self.flex_start_pool, self.machine, self.topology, self.flex_start_slices, FLEX_START),
        }
        return {flavor: pool for flavor, pool in pools.items() if pool.slices != 0}

    def template(self) -> JobTemplate:
        """What the pods of a job ask for."""
        return JobTemplate(PodSize(self.head_cpu, self.head_memory), PodSize(self.worker_cpu, self.worker_memory))

    def flavors(self) -> list[Flavor]:
        """Kueue's flavors, with the written quotas where there are some."""
        return written(derived(self.default_pool(), self.tpu_pools(), self.template()), self.quotas)

    def queues(self) -> KueueQueuesArgs:
        """Kueue's queues."""
        return replace(self._queues_without_quota(), flavors=self.flavors())

    def pods_ready(self) -> PodsReady | None:
        """What becomes of jobs whose pods do not come up."""
        if not self.pods_ready_seconds:
            return None
        most_s = max(self.pods_ready_base_seconds, PodsReady.max_s)
        return PodsReady(self.pods_ready_seconds, self.pods_ready_retries, self.pods_ready_base_seconds, most_s)

    def job(
        self, target: Target, name: str | None = None, files: Mapping[str, str] | None = None, entrypoint: str = ""
    ) -> RayJobSpec:
        """A job as this configuration describes it, called `name`, that runs `files` by `entrypoint`."""
        return RayJobSpec(
            name=name or self.job_name,
            tpu=catalog.tpu_slice(self.machine, self.topology),
            files=files or {},
            entrypoint=entrypoint,
            queue=self.job_queue or self.local_queue,
            namespace=self.namespace,
            image=self.job_image,
            slices=self.job_slices,
            elastic=self._elastic(),
            template=self.template(),
            service_account=self.job_account,
            bucket=self.bucket(target),
        )

    def job_problems(self, spec: RayJobSpec) -> list[Problem]:
        """What would be refused of a job in this stack's cluster, or would wait there for ever."""
        return ray_job_problems(spec, self.flavors(), [self.local_queue], self.feature_gates)

    def cluster(
        self, target: Target, stack: str, network: pulumi.Input[str], subnetwork: pulumi.Input[str]
    ) -> GkeClusterArgs:
        """The cluster, in that network."""
        return GkeClusterArgs(
            project=target.project,
            zone=self.zone,
            network=network,
            subnetwork=subnetwork,
            cluster_name=self.cluster_name,
            version=self.gke_version,
            release_channel=self.release_channel,
            default_pool=self.default_pool(),
            node_account_id=self.node_account_id,
            authorized_networks=self.authorized_networks,
            deletion_protection=self.protected(stack),
            labels=labels(stack),
            universe=target.universe,
        )

    def node_pool(
        self, shape: PoolShape, target: Target, stack: str, cluster: pulumi.Input[str], account: pulumi.Input[str]
    ) -> NodePoolArgs:
        """A TPU pool of that cluster, whose nodes run as that account."""
        return NodePoolArgs(
            project=target.project,
            zone=self.zone,
            cluster=cluster,
            shape=shape,
            service_account=account,
            max_run_duration=self.max_run_duration,
            auto_repair=self.flex_start_auto_repair if shape.queued else None,
            labels=labels(stack),
            universe=target.universe,
        )

    def problems(self, target: Target) -> list[Problem]:
        """What the platform, Kueue or this project refuses, one problem a field.

        Quotas and jobs are judged once the pools can be, and jobs once the quotas are right.
        """
        found = [*self._places(target), *self._cluster_problems(target), *self._pool_problems(target)]
        sizes = self._sizes()
        if not found and not sizes:
            flavors = derived(self.default_pool(), self.tpu_pools(), self.template())
            above = self.queued_quota_above_pool
            found += quota_problems(flavors, self.quotas, self.template(), queued_above_pool=above)
            found += [] if found else self._job_problems(target)
        return _first_of_each([*found, *sizes, *kueue_queues_problems(self._queues_without_quota())])

    def _places(self, target: Target) -> list[Problem]:
        found = {
            "location": catalog.compute_region_problem(target.region, target.universe),
            "zone": catalog.zone_problem(self.zone, target.region, target.universe),
            "network_name": catalog.compute_name_problem(f"{self.network_name}-{target.region}"),
            "subnet_cidr": catalog.subnet_range_problem(self.subnet_cidr),
            "bucket_name": catalog.bucket_name_problem(self.bucket(target)),
            "job_account": catalog.kubernetes_name_problem("job_account", self.job_account),
        }
        return [Problem(field, each.message) for field, each in found.items() if each is not None]

    def _cluster_problems(self, target: Target) -> list[Problem]:
        problems = gke_cluster_problems(self.cluster(target, "", "", ""))
        return _renamed(problems, {**_CLUSTER, **_DEFAULT_POOL})

    def _pool_problems(self, target: Target) -> list[Problem]:
        found: list[Problem] = []
        if not self.tpu_pools():
            found.append(
                Problem("on_demand_slices", "0, as are flexStartSlices: there is no TPU pool. Set one of them")
            )
        if self.on_demand_pool == self.flex_start_pool or DEFAULT_POOL in (self.on_demand_pool, self.flex_start_pool):
            message = f"{self.flex_start_pool!r}: {DEFAULT_POOL} and the two TPU pools need three names. Choose another"
            found.append(Problem("flex_start_pool", message))
        for pool in self.tpu_pools().values():
            of_pool = "flex_start" if pool.queued else "on_demand"
            renamed = {"version": "gke_version", "slices": f"{of_pool}_slices", "node_pool_name": f"{of_pool}_pool"}
            problems = node_pool_problems(self.node_pool(pool, target, "", "", ""), self.gke_version)
            found += _renamed(problems, renamed)
        return found

    def _sizes(self) -> list[Problem]:
        """CPUs and memory of pods that are none."""
        found = []
        for field in ("head_cpu", "head_memory", "worker_cpu", "worker_memory"):
            try:
                (catalog.parse_cpu if field.endswith("cpu") else catalog.memory_quota_gib)(getattr(self, field))
            except ValueError as error:
                found.append(Problem(field, str(error)))
        return found

    def _queues_without_quota(self) -> KueueQueuesArgs:
        return KueueQueuesArgs(
            flavors=[],
            cluster_queue=self.cluster_queue,
            local_queue=self.local_queue,
            namespace=self.namespace,
            retry=Retry(self.retry_limit, self.retry_base_seconds, self.retry_max_seconds),
            queueing_strategy=self.queueing_strategy,
        )

    def _job_problems(self, target: Target) -> list[Problem]:
        if (self.job_elastic_min is None) != (self.job_elastic_max is None):
            missing = "job_elastic_min" if self.job_elastic_min is None else "job_elastic_max"
            return [Problem(missing, "is missing: an elastic job has a range. Set both ends, or neither")]
        return _renamed(self.job_problems(self.job(target)), _RAY_JOB)

    def _elastic(self) -> ElasticRange | None:
        if self.job_elastic_min is None or self.job_elastic_max is None:
            return None
        return ElasticRange(self.job_elastic_min, self.job_elastic_max)


def _renamed(problems: Iterable[Problem], fields: Mapping[str, str]) -> list[Problem]:
    return [Problem(fields.get(each.field, each.field), each.message) for each in problems]


def _first_of_each(problems: Iterable[Problem]) -> list[Problem]:
    """The first problem of each field: both pools have one machine, and what is wrong with it is said once."""
    first: dict[str, Problem] = {}
    for each in problems:
        first.setdefault(each.field, each)
    return list(first.values())
