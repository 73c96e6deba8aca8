"""gcp:container: clusters and node pools.

Their properties are many; those that mockgcp's container service does not have are refused by name, here where the
API has no field of that name, else there. Deliberately not done: node pools within a cluster (`nodePools`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pulumi_gcp as gcp

from infra import catalog
from mockgcp.errors import ApiError
from mockgcp.frontends.pulumi.resource import (
    AutoName,
    Props,
    Request,
    ResourceType,
    Session,
    deleted_by,
    id_parts,
    read_by,
)
from mockgcp.frontends.pulumi.resources.compute import Link
from mockgcp.frontends.pulumi.translate import PROVISIONED, Table, from_rest
from mockgcp.frontends.pulumi.values import Secret

Body = Mapping[str, Any]

_LOCATIONS = "container.projects.locations."
_CLUSTERS = f"{_LOCATIONS}clusters."
_POOLS = f"{_CLUSTERS}nodePools."
_NAME = AutoName(max_length=40)  # gke.yaml: cluster_name_pattern


def _paths(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _under(prefix: str, names: Iterable[str]) -> set[str]:
    return {f"{prefix}.{name}" for name in names}


def _emulated(kind: str, properties: Props, known: Iterable[str]) -> None:
    """Refuses the properties that there is nothing for, rather than to send them under a name the API lacks.

    Raises:
        ApiError: UNIMPLEMENTED.
    """
    for name in sorted(properties.keys() - set(known)):
        if properties[name] not in (None, False, 0, "", [], {}):
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not emulate the property {name} of {kind} yet")


# -- what clusters and pools share: a node's configuration ---------------------------------------------------------

_CONFIG_NAMES = {
    "effectiveTaints": "taints",
    "guestAccelerators": "accelerators",
    "guestAccelerators.count": "acceleratorCount",
    "guestAccelerators.type": "acceleratorType",
    "loggingVariant": "loggingConfig.variantConfig.variant",
}
_CONFIG_DEFAULTS = {
    "nodeConfig.preemptible": False,
    "nodeConfig.shieldedInstanceConfig.enableIntegrityMonitoring": True,
    "nodeConfig.shieldedInstanceConfig.enableSecureBoot": False,
    "nodeConfig.spot": False,
    "nodeConfig.windowsNodeConfig.osversion": "OS_VERSION_UNSPECIFIED",
}
_POOL_DEFAULTS = {
    "management.autoRepair": True,
    "management.autoUpgrade": True,
    "upgradeSettings.strategy": "SURGE",
    **_CONFIG_DEFAULTS,
}
_CONFIG_COMPUTED = _paths(
    """
    bootDisk bootDisk.diskType bootDisk.provisionedIops bootDisk.provisionedThroughput bootDisk.sizeGb confidentialNodes
    containerdConfig diskSizeGb diskType gcfsConfig gpudirectStrategy guestAccelerators
    guestAccelerators.gpuDriverInstallationConfig imageType kubeletConfig kubeletConfig.cpuCfsQuota
    kubeletConfig.insecureKubeletReadonlyPortEnabled kubeletConfig.maxParallelImagePulls
    kubeletConfig.memoryManager.policy kubeletConfig.shutdownGracePeriodCriticalPodsSeconds
    kubeletConfig.shutdownGracePeriodSeconds kubeletConfig.topologyManager.policy kubeletConfig.topologyManager.scope
    labels linuxNodeConfig linuxNodeConfig.cgroupMode linuxNodeConfig.customNodeInit.initScript.gcsGeneration
    linuxNodeConfig.transparentHugepageEnabled localSsdCount loggingVariant machineType metadata minCpuPlatform
    nodeImageConfigs nodeImageConfigs.image nodeImageConfigs.imageProject oauthScopes serviceAccount
    shieldedInstanceConfig windowsNodeConfig workloadMetadataConfig
"""
)
# What the provider changes in place: nodePools.update's field, and in what its value is wrapped.
_CONFIG_UPDATES = {
    "diskSizeGb": ("diskSizeGb", ""),
    "diskType": ("diskType", ""),
    "gcfsConfig": ("gcfsConfig", ""),
    "gvnic": ("gvnic", ""),
    "imageType": ("imageType", ""),
    "kubeletConfig": ("kubeletConfig", ""),
    "labels": ("labels", "labels"),
    "linuxNodeConfig": ("linuxNodeConfig", ""),
    "loggingVariant": ("loggingConfig", ""),
    "machineType": ("machineType", ""),
    "resourceLabels": ("resourceLabels", "labels"),
    "tags": ("tags", "tags"),
    "taints": ("taints", "taints"),
    "workloadMetadataConfig": ("workloadMetadataConfig", ""),
}
# In place too, in the provider; mockgcp has none of them.
_CONFIG_IN_PLACE = (
    *("bootDisk", "containerdConfig", "effectiveTaints", "fastSocket", "gpudirectStrategy"),
    *("nodeImageConfigs", "resourceManagerTags", "storagePools", "taintConfig", "windowsNodeConfig"),
    *_CONFIG_UPDATES,
)
_PORT = "insecureKubeletReadonlyPortEnabled"


def _config_body(config: Body) -> dict[str, Any]:
    """A node configuration as the provider sends it: with an empty logging variant, and a boolean for its TRUE."""
    sent = {key: value for key, value in config.items() if key != "effectiveTaints"}
    sent["loggingConfig"] = sent.get("loggingConfig", {"variantConfig": {}})
    if _PORT in sent.get("kubeletConfig", {}):
        sent["kubeletConfig"] = {**sent["kubeletConfig"], _PORT: sent["kubeletConfig"][_PORT] == "TRUE"}
    return sent


def _config_outputs(properties: Props, rest: Body, shown: Props) -> dict[str, Any]:
    """A node's configuration as the provider shows it: of the taints those that the program has."""
    config = dict(shown)
    ours = (properties.get("nodeConfig") or {}).get("taints") or []
    keys = {(taint["key"], taint["effect"]) for taint in ours}
    config["effectiveTaints"] = rest.get("taints", [])
    config["taints"] = [taint for taint in rest.get("taints", []) if (taint["key"], taint["effect"]) in keys]
    if _PORT in rest.get("kubeletConfig", {}):
        config["kubeletConfig"] = {**config["kubeletConfig"], _PORT: str(rest["kubeletConfig"][_PORT]).upper()}
    return config


def _update_config(session: Session, pool: str, old: Props, new: Props, body: Body) -> None:
    """Each change of a node's configuration by a call of its own, as the provider makes them."""
    before, after = old.get("nodeConfig") or {}, new.get("nodeConfig") or {}
    for name, (field, wrapped) in _CONFIG_UPDATES.items():
        if before.get(name) != after.get(name) and (name in after or name not in _CONFIG_COMPUTED):
            sent = body.get(_CONFIG_NAMES.get(name, name).partition(".")[0])
            value = {wrapped: sent or ({} if wrapped == "labels" else [])} if wrapped else sent
            session.call(f"{_POOLS}update", {"name": pool}, {field: value if value is not None else {}})


# -- clusters ------------------------------------------------------------------------------------------------------

_CLUSTER = "projects/{project}/locations/{location}/clusters/{name}"
_CLUSTER_ID = {"name": _CLUSTER}
_CREATE = Request(f"{_CLUSTERS}create", {"parent": "projects/{project}/locations/{location}"})
_GET = Request(f"{_CLUSTERS}get", _CLUSTER_ID)
_delete_cluster = deleted_by(Request(f"{_CLUSTERS}delete", _CLUSTER_ID))
_LOCAL = frozenset(
    {
        "deletionPolicy",
        "deletionProtection",
        "location",
        "maintenancePolicy",
        "masterAuthorizedNetworksConfig",
        "minMasterVersion",
        "networkingMode",
        "nodeLocations",
        "nodePools",
        "privateClusterConfig",
        "project",
        "removeDefaultNodePool",
    }
)
# What is sent under a name of the API's own, by this one's or by that of the table.
_SENT = (
    *("addonsConfig", "controlPlaneEndpointsConfig", "costManagementConfig", "datapathProvider", "description"),
    *("enableIntranodeVisibility", "enableShieldedNodes", "initialNodeCount", "ipAllocationPolicy", "loggingConfig"),
    *("loggingService", "monitoringConfig", "monitoringService", "name", "network", "nodeConfig", "nodePoolDefaults"),
    *("releaseChannel", "resourceLabels", "securityPostureConfig", "subnetwork", "verticalPodAutoscaling"),
    "workloadIdentityConfig",
)
CLUSTER_PROPERTIES = (_LOCAL - {"nodePools"}) | set(_SENT)
"""What mockgcp has of a cluster; all else is refused."""


def _placed(session: Session, properties: Props) -> Props:
    """The properties with the provider's own region where the program names no location.

    Raises:
        ApiError: INVALID_ARGUMENT when neither names one.
    """
    location = properties.get("location") or session.region
    if not location:
        raise ApiError("INVALID_ARGUMENT", "location is missing: set it, or gcp:region for the provider")
    return {**properties, "location": location}


def _cluster_body(properties: Props, body: Body) -> dict[str, Any]:
    """The body with what the provider always sends, and with what it composes of several properties."""
    _emulated(CLUSTER.token, properties, CLUSTER_PROPERTIES)
    private, by_name = properties.get("privateClusterConfig") or {}, properties.get("network") or ""
    endpoints, addons = body.get("controlPlaneEndpointsConfig", {}), dict(body.get("addonsConfig", {}))
    by_ip = (properties.get("controlPlaneEndpointsConfig") or {}).get("ipEndpointsConfig") or {}
    if addons.get("rayOperatorConfig"):
        [addons["rayOperatorConfig"]] = addons["rayOperatorConfig"]
    networks = properties.get("masterAuthorizedNetworksConfig")
    allowed = {"enabled": True, **{k: v for k, v in networks.items() if v}} if networks is not None else {}
    off = {"allowExternalTraffic": False, "enableK8sCertsViaDns": False, "enableK8sTokensViaDns": False}
    sent = {
        **{key: value for key, value in body.items() if key != "addonsConfig"},
        "autopilot": {"enabled": False},
        "autoscaling": {"enableNodeAutoprovisioning": False},
        "binaryAuthorization": {"enabled": False},
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": off | endpoints.get("dnsEndpointConfig", {}),
            "ipEndpointsConfig": {
                "authorizedNetworksConfig": allowed,
                "enablePublicEndpoint": not private.get("enablePrivateEndpoint"),
                "enabled": by_ip.get("enabled", True),
                "globalAccess": bool((private.get("masterGlobalAccessConfig") or {}).get("enabled")),
                "privateEndpointSubnetwork": private.get("privateEndpointSubnetwork") or "",
            },
        },
        "ipAllocationPolicy": {**body.get("ipAllocationPolicy", {"stackType": "IPV4"}), "useIpAliases": True},
        "legacyAbac": {"enabled": False},
        "maintenancePolicy": {"window": _window(properties.get("maintenancePolicy") or {})},
        "networkConfig": body.get("networkConfig", {}),
        "networkPolicy": {},
        "notificationConfig": {"pubsub": {}},
        "resourceLabels": {**body.get("resourceLabels", {}), PROVISIONED: "true"},
    }
    if "/" not in by_name:
        sent["network"] = f"projects/{properties['project']}/global/networks/{by_name}"
    if addons:
        sent["addonsConfig"] = addons
    if private.get("enablePrivateNodes"):
        sent["networkConfig"] = {**sent["networkConfig"], "defaultEnablePrivateNodes": True}
    if private.get("masterIpv4CidrBlock"):
        sent["privateClusterConfig"] = {"masterIpv4CidrBlock": private["masterIpv4CidrBlock"]}
    if properties.get("minMasterVersion"):
        sent["initialClusterVersion"] = properties["minMasterVersion"]
    if properties.get("nodeLocations"):
        sent["locations"] = sorted({properties["location"], *properties["nodeLocations"]} - _regions())
    if "nodeConfig" in body:
        sent["nodeConfig"] = _config_body(body["nodeConfig"])
    if defaults := body.get("nodePoolDefaults", {}).get("nodeConfigDefaults"):
        port = defaults.get("nodeKubeletConfig", {}).get(_PORT) == "TRUE"
        always = {"loggingConfig": {"variantConfig": {}}, **defaults, "nodeKubeletConfig": {_PORT: port}}
        sent["nodePoolDefaults"] = {"nodeConfigDefaults": always}
    return sent


def _regions() -> set[str]:
    return set(catalog.compute_zones())


def _window(policy: Props) -> dict[str, Any]:
    """A maintenance policy's window in the API's form, which has exclusions by name."""
    _emulated("maintenancePolicy", policy, ("dailyMaintenanceWindow", "maintenanceExclusions", "recurringWindow"))
    window: dict[str, Any] = {}
    if daily := policy.get("dailyMaintenanceWindow"):
        window["dailyMaintenanceWindow"] = {"startTime": daily["startTime"]}
    if recurring := policy.get("recurringWindow"):
        span = {"startTime": recurring["startTime"], "endTime": recurring["endTime"]}
        window["recurringWindow"] = {"window": span, "recurrence": recurring["recurrence"]}
    for each in policy.get("maintenanceExclusions") or []:
        exclusion = {key: each[key] for key in ("startTime", "endTime") if each.get(key)}
        if options := {k: v for k, v in (each.get("exclusionOptions") or {}).items() if v}:
            exclusion["maintenanceExclusionOptions"] = options
        window.setdefault("maintenanceExclusions", {})[each["exclusionName"]] = exclusion
    return window


def _policy(window: Body) -> dict[str, Any] | None:
    """The other way round; None where no window is set."""
    policy: dict[str, Any] = {}
    if daily := window.get("dailyMaintenanceWindow"):
        policy["dailyMaintenanceWindow"] = daily
    if recurring := window.get("recurringWindow"):
        policy["recurringWindow"] = {**recurring["window"], "recurrence": recurring["recurrence"]}
    for name, each in window.get("maintenanceExclusions", {}).items():
        exclusion = {"exclusionName": name, **{k: each[k] for k in ("startTime", "endTime") if k in each}}
        if "maintenanceExclusionOptions" in each:
            exclusion["exclusionOptions"] = each["maintenanceExclusionOptions"]
        policy.setdefault("maintenanceExclusions", []).append(exclusion)
    return policy or None


def _create_cluster(session: Session, properties: Props, body: Body) -> Body:
    here = _placed(session, properties)
    made = session.call(_CREATE.method, _CREATE.fill(here), {"cluster": _cluster_body(here, body)})
    if not properties.get("removeDefaultNodePool"):
        return made
    [pool] = made["nodePools"]
    session.call(f"{_POOLS}delete", {"name": f"{_CLUSTER.format_map(here)}/nodePools/{pool['name']}"})
    return session.call(_GET.method, _GET.fill(here))


def _dry_run_cluster(session: Session, properties: Props, body: Body) -> None:
    here = _placed(session, properties)
    session.validate(_CREATE, here, {"cluster": _cluster_body(here, body)})


# By property: the field of a cluster's update, and of the body whose value it takes.
_CLUSTER_UPDATES = {
    "addonsConfig": ("desiredAddonsConfig", "addonsConfig"),
    "controlPlaneEndpointsConfig": ("desiredControlPlaneEndpointsConfig", "controlPlaneEndpointsConfig"),
    "costManagementConfig": ("desiredCostManagementConfig", "costManagementConfig"),
    "enableShieldedNodes": ("desiredShieldedNodes", "shieldedNodes"),
    "loggingConfig": ("desiredLoggingConfig", "loggingConfig"),
    "loggingService": ("desiredLoggingService", "loggingService"),
    "masterAuthorizedNetworksConfig": ("desiredControlPlaneEndpointsConfig", "controlPlaneEndpointsConfig"),
    "minMasterVersion": ("desiredMasterVersion", "initialClusterVersion"),
    "monitoringConfig": ("desiredMonitoringConfig", "monitoringConfig"),
    "monitoringService": ("desiredMonitoringService", "monitoringService"),
    "nodeLocations": ("desiredLocations", "locations"),
    "releaseChannel": ("desiredReleaseChannel", "releaseChannel"),
    "securityPostureConfig": ("desiredSecurityPostureConfig", "securityPostureConfig"),
    "verticalPodAutoscaling": ("desiredVerticalPodAutoscaling", "verticalPodAutoscaling"),
    "workloadIdentityConfig": ("desiredWorkloadIdentityConfig", "workloadIdentityConfig"),
}
# By other methods, or of no consequence.
_CHANGED_OTHERWISE = frozenset({"maintenancePolicy", "nodeConfig", "privateClusterConfig", "resourceLabels"})


def _update_cluster(session: Session, old: Props, new: Props, body: Body) -> Body:
    """Each change by a call of its own: the API takes one at a time.

    Raises:
        ApiError: UNIMPLEMENTED for a change that the provider makes in place and mockgcp does not.
    """
    here = _placed(session, new)
    sent, params = _cluster_body(here, body), Request("", _CLUSTER_ID).fill(here)
    changed = [
        p for p in _SENT + tuple(_LOCAL) if old.get(p) != here.get(p) and (new.get(p) is not None or p not in _COMPUTED)
    ]
    for name in changed:
        if name in _CLUSTER_UPDATES:
            desired, field = _CLUSTER_UPDATES[name]
            session.call(f"{_CLUSTERS}update", params, {"update": {desired: sent.get(field, {})}})
        elif name not in _CHANGED_OTHERWISE and name not in ("deletionPolicy", "deletionProtection"):
            raise ApiError("UNIMPLEMENTED", f"mockgcp does not change {name} of {CLUSTER.token} in place")
    if "privateClusterConfig" in changed:
        endpoints = {"desiredControlPlaneEndpointsConfig": sent["controlPlaneEndpointsConfig"]}
        session.call(f"{_CLUSTERS}update", params, {"update": endpoints})
        private = sent["networkConfig"].get("defaultEnablePrivateNodes", False)
        session.call(f"{_CLUSTERS}update", params, {"update": {"desiredDefaultEnablePrivateNodes": private}})
    if "maintenancePolicy" in changed:
        session.call(f"{_CLUSTERS}setMaintenancePolicy", params, {"maintenancePolicy": sent["maintenancePolicy"]})
    if "resourceLabels" in changed:
        live = session.call(_GET.method, params)
        labels = {"resourceLabels": sent["resourceLabels"], "labelFingerprint": live["labelFingerprint"]}
        session.call(f"{_CLUSTERS}setResourceLabels", params, labels)
    default = catalog.fact("gke", "default_pool_name").value
    _update_config(session, f"{params['name']}/nodePools/{default}", old, new, sent.get("nodeConfig", {}))
    return session.call(_GET.method, params)


def _delete(session: Session, properties: Props) -> None:
    if properties.get("deletionProtection", True):
        raise ApiError(
            "FAILED_PRECONDITION",
            f"cannot destroy cluster {properties['name']} without setting deletionProtection=false and running "
            "`pulumi up`",
        )
    _delete_cluster(session, _placed(session, properties))


def _cluster_outputs(session: Session, properties: Props, rest: Body) -> Props:
    by_ip = rest["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]
    allowed = {k: v for k, v in by_ip.get("authorizedNetworksConfig", {}).items() if k != "enabled"}
    labels = rest.get("resourceLabels", {})
    others = [zone for zone in rest["locations"] if zone != rest["location"]]
    shown = {
        "binaryAuthorization": None,  # off, which to the provider is no difference
        "effectiveLabels": Secret(dict(labels)),
        "location": rest["location"],
        "maintenancePolicy": _policy(rest.get("maintenancePolicy", {}).get("window", {})),
        "masterAuthorizedNetworksConfig": allowed or None,
        "network": rest["networkConfig"]["network"],
        "networkingMode": "VPC_NATIVE",
        "nodeLocations": others,
        "privateClusterConfig": {
            **{k: v for k, v in rest["privateClusterConfig"].items() if k != "peeringName"},
            "masterGlobalAccessConfig": {"enabled": by_ip.get("globalAccess", False)},
            "privateEndpointSubnetwork": by_ip.get("privateEndpointSubnetwork", ""),
        },
        "project": rest["selfLink"].split("/")[-5],
        "pulumiLabels": Secret(dict(labels)),
        "resourceLabels": {key: value for key, value in labels.items() if key != PROVISIONED},
        "subnetwork": rest["networkConfig"]["subnetwork"],
    }
    if "nodeConfig" in rest:
        config = from_rest(CLUSTER.table, CLUSTER.outputs, {"nodeConfig": rest["nodeConfig"]})["nodeConfig"]
        shown["nodeConfig"] = _config_outputs(properties, rest["nodeConfig"], config)
    elif properties.get("nodeConfig"):
        # Of a default pool that is gone the provider keeps what the program says.
        shown["nodeConfig"] = properties["nodeConfig"]
    if defaults := rest.get("nodePoolDefaults", {}).get("nodeConfigDefaults"):
        port = str(defaults.get("nodeKubeletConfig", {}).get(_PORT, False)).upper()
        config = from_rest(CLUSTER.table, CLUSTER.outputs, {"nodePoolDefaults": rest["nodePoolDefaults"]})
        of_nodes = {**config["nodePoolDefaults"]["nodeConfigDefaults"], _PORT: port}
        shown["nodePoolDefaults"] = {"nodeConfigDefaults": of_nodes}
    return shown


# Of the provider's schema, those whose absence leaves what the server chose. Blocks that mockgcp refuses are left out.
_COMPUTED = _paths(
    """
    clusterIpv4Cidr databaseEncryption defaultMaxPodsPerNode masterAuth nodeVersion notificationConfig
    addonsConfig addonsConfig.configConnectorConfig addonsConfig.dnsCacheConfig
    addonsConfig.gcePersistentDiskCsiDriverConfig addonsConfig.gcpFilestoreCsiDriverConfig
    addonsConfig.gcsFuseCsiDriverConfig addonsConfig.highScaleCheckpointingConfig addonsConfig.horizontalPodAutoscaling
    addonsConfig.httpLoadBalancing addonsConfig.networkPolicyConfig addonsConfig.rayOperatorConfigs
    addonsConfig.rayOperatorConfigs.rayClusterLoggingConfig addonsConfig.rayOperatorConfigs.rayClusterMonitoringConfig
    controlPlaneEndpointsConfig controlPlaneEndpointsConfig.dnsEndpointConfig
    controlPlaneEndpointsConfig.dnsEndpointConfig.endpoint controlPlaneEndpointsConfig.ipEndpointsConfig
    costManagementConfig datapathProvider deletionPolicy enableIntranodeVisibility ipAllocationPolicy
    ipAllocationPolicy.autoIpamConfig ipAllocationPolicy.clusterIpv4CidrBlock
    ipAllocationPolicy.clusterSecondaryRangeName ipAllocationPolicy.networkTierConfig
    ipAllocationPolicy.podCidrOverprovisionConfig ipAllocationPolicy.servicesIpv4CidrBlock
    ipAllocationPolicy.servicesSecondaryRangeName location loggingConfig loggingService masterAuthorizedNetworksConfig
    masterAuthorizedNetworksConfig.gcpPublicCidrsAccessEnabled
    masterAuthorizedNetworksConfig.privateEndpointEnforcementEnabled monitoringConfig
    monitoringConfig.advancedDatapathObservabilityConfig monitoringConfig.enableComponents
    monitoringConfig.managedPrometheus monitoringConfig.managedPrometheus.autoMonitoringConfig monitoringService
    networkingMode nodeConfig nodeLocations nodePoolDefaults nodePoolDefaults.nodeConfigDefaults.containerdConfig
    nodePoolDefaults.nodeConfigDefaults.gcfsConfig
    nodePoolDefaults.nodeConfigDefaults.insecureKubeletReadonlyPortEnabled
    nodePoolDefaults.nodeConfigDefaults.loggingVariant privateClusterConfig
    privateClusterConfig.masterGlobalAccessConfig privateClusterConfig.masterIpv4CidrBlock project releaseChannel
    securityPostureConfig securityPostureConfig.mode securityPostureConfig.vulnerabilityMode subnetwork
    verticalPodAutoscaling workloadIdentityConfig
    """
) | _under("nodeConfig", _CONFIG_COMPUTED)


def _size(cidr: str) -> str:
    """A range may be asked for by its size alone (/17); the server answers which one it is."""
    return f"/{cidr.rpartition('/')[2]}"


_SWITCHES = (
    *("configConnectorConfig", "dnsCacheConfig", "gcePersistentDiskCsiDriverConfig", "gcpFilestoreCsiDriverConfig"),
    *("gcsFuseCsiDriverConfig", "highScaleCheckpointingConfig", "rayOperatorConfigs"),
)
_PROVISIONING_ROLLOUT = (
    "clusterAutoscaling.autoProvisioningDefaults.upgradeSettings.blueGreenSettings.standardRolloutPolicy"
)


def _cluster_id(identifier: str) -> Props:
    long = identifier.startswith("projects/")
    return id_parts(_CLUSTER if long else "{project}/{location}/{name}")(identifier)


CLUSTER = ResourceType(
    token="gcp:container/cluster:Cluster",
    resource=gcp.container.Cluster,
    args=gcp.container.ClusterArgs,
    id=_CLUSTER,
    import_id=_cluster_id,
    create=_create_cluster,
    read=lambda session, properties: read_by(_GET)(session, _placed(session, properties)),
    update=_update_cluster,
    delete=_delete,
    auto_name=_NAME,
    dry_run=_dry_run_cluster,
    defaults={
        "clusterAutoscaling.autoProvisioningDefaults.diskSize": 100,
        "clusterAutoscaling.autoProvisioningDefaults.diskType": "pd-standard",
        "clusterAutoscaling.autoProvisioningDefaults.imageType": "COS_CONTAINERD",
        "clusterAutoscaling.autoProvisioningDefaults.serviceAccount": "default",
        "clusterAutoscaling.autoProvisioningDefaults.shieldedInstanceConfig.enableIntegrityMonitoring": True,
        "clusterAutoscaling.autoProvisioningDefaults.shieldedInstanceConfig.enableSecureBoot": False,
        f"{_PROVISIONING_ROLLOUT}.batchSoakDuration": "0s",
        "clusterAutoscaling.autoscalingProfile": "BALANCED",
        "deletionProtection": True,
        "disableL4LbFirewallReconciliation": False,
        "dnsConfig.clusterDns": "PROVIDER_UNSPECIFIED",
        "enableCiliumClusterwideNetworkPolicy": False,
        "enableFqdnNetworkPolicy": False,
        "enableKubernetesAlpha": False,
        "enableLegacyAbac": False,
        "enableMultiNetworking": False,
        "enableShieldedNodes": True,
        "ipAllocationPolicy.stackType": "IPV4",
        "network": "default",
        "resourceUsageExportConfig.enableNetworkEgressMetering": False,
        "resourceUsageExportConfig.enableResourceConsumptionMetering": True,
        **_CONFIG_DEFAULTS,
        **{f"nodePools.{name}": value for name, value in _POOL_DEFAULTS.items()},
    },
    replace_on=frozenset(
        {
            "clusterAutoscaling.autoProvisioningDefaults.bootDiskKmsKey",
            "clusterIpv4Cidr",
            "confidentialNodes",
            "datapathProvider",
            "dataplaneOptimizationMode",
            "defaultMaxPodsPerNode",
            "description",
            "enableAutopilot",
            "enableKubernetesAlpha",
            "enableTpu",
            "initialNodeCount",
            "ipAllocationPolicy",
            "location",
            "masterAuth.clientCertificateConfig",
            "name",
            "network",
            "networkingMode",
            "nodeConfig",
            "nodePools",
            "privateClusterConfig.masterIpv4CidrBlock",
            "privateClusterConfig.privateEndpointSubnetwork",
            "project",
            "subnetwork",
            "tpuConfig.enabled",
            "tpuConfig.useServiceNetworking",
            *_under("userManagedKeysConfig", ("aggregationCa", "clusterCa", "etcdApiCa", "etcdPeerCa")),
        }
    ),
    in_place=frozenset(_under("nodeConfig", _CONFIG_IN_PLACE)),
    computed=_COMPUTED,
    table=Table(
        names={
            "addonsConfig.rayOperatorConfigs": "rayOperatorConfig",
            "datapathProvider": "networkConfig.datapathProvider",
            "enableIntranodeVisibility": "networkConfig.enableIntraNodeVisibility",
            "enableShieldedNodes": "shieldedNodes.enabled",
            "loggingConfig.enableComponents": "componentConfig.enableComponents",
            "masterVersion": "currentMasterVersion",
            "monitoringConfig.enableComponents": "componentConfig.enableComponents",
            "monitoringConfig.managedPrometheus": "managedPrometheusConfig",
            f"nodePoolDefaults.nodeConfigDefaults.{_PORT}": f"nodeKubeletConfig.{_PORT}",
            "nodePoolDefaults.nodeConfigDefaults.loggingVariant": "loggingConfig.variantConfig.variant",
            "nodeVersion": "currentNodeVersion",
            **{f"nodeConfig.{name}": rest for name, rest in _CONFIG_NAMES.items()},
        },
        local=_LOCAL,
        sent_when_zero=frozenset(
            {"enableShieldedNodes", *(f"addonsConfig.{name}.enabled" for name in _SWITCHES)}
            | {"addonsConfig.horizontalPodAutoscaling.disabled", "addonsConfig.httpLoadBalancing.disabled"}
        ),
        spelling={
            "ipAllocationPolicy.clusterIpv4CidrBlock": _size,
            "ipAllocationPolicy.servicesIpv4CidrBlock": _size,
            "network": Link,
            "subnetwork": Link,
        },
    ),
    derive=_cluster_outputs,
)

# -- node pools ----------------------------------------------------------------------------------------------------

_POOL = "projects/{project}/locations/{location}/clusters/{cluster}/nodePools/{name}"
_POOL_ID = {"name": _POOL}
_CREATE_POOL = Request(f"{_POOLS}create", {"parent": "projects/{project}/locations/{location}/clusters/{cluster}"})
_GET_POOL = Request(f"{_POOLS}get", _POOL_ID)
_LOCAL_OF_POOL = frozenset(
    {"cluster", "deletionPolicy", "ignoreNodeCountChanges", "location", "namePrefix", "nodeCount", "project"}
)
_SENT_OF_POOL = (
    *("autoscaling", "initialNodeCount", "management", "maxPodsPerNode", "name", "networkConfig", "nodeConfig"),
    *("nodeLocations", "placementPolicy", "queuedProvisioning", "upgradeSettings", "version"),
)
POOL_PROPERTIES = (_LOCAL_OF_POOL - {"namePrefix"}) | set(_SENT_OF_POOL)
"""What mockgcp has of a node pool; all else is refused."""


def _last(reference: str) -> str:
    return reference.rpartition("/")[2]


def _in_cluster(session: Session, properties: Props) -> Props:
    """The properties with the cluster's bare name, and its location where the program gives the cluster by its id."""
    cluster = properties["cluster"]
    if cluster.startswith("projects/"):
        return {**properties, **id_parts(_CLUSTER.replace("{name}", "{cluster}"))(cluster)}
    return _placed(session, properties)


def _pool_body(properties: Props, body: Body) -> dict[str, Any]:
    _emulated(NODE_POOL.token, properties, POOL_PROPERTIES)
    sent = {**body, "config": _config_body(body.get("config", {})), "networkConfig": body.get("networkConfig", {})}
    if properties.get("autoscaling") is not None:
        counts = ("maxNodeCount", "minNodeCount", "totalMaxNodeCount", "totalMinNodeCount")
        sent["autoscaling"] = {"enabled": True, **dict.fromkeys(counts, 0), **body.get("autoscaling", {})}
    if properties.get("nodeCount"):
        sent["initialNodeCount"] = int(properties["nodeCount"])
    return sent


def _create_pool(session: Session, properties: Props, body: Body) -> Body:
    here = _in_cluster(session, properties)
    return session.call(_CREATE_POOL.method, _CREATE_POOL.fill(here), {"nodePool": _pool_body(here, body)})


def _dry_run_pool(session: Session, properties: Props, body: Body) -> None:
    here = _in_cluster(session, properties)
    session.validate(_CREATE_POOL, here, {"nodePool": _pool_body(here, body)})


def _update_pool(session: Session, old: Props, new: Props, body: Body) -> Body:
    """Each change by the method that makes it, as the provider does."""
    here = _in_cluster(session, new)
    sent, params = _pool_body(here, body), Request("", _POOL_ID).fill(here)
    changed = {
        name
        for name in (*_SENT_OF_POOL, "nodeCount")
        if old.get(name) != new.get(name) and (new.get(name) is not None or name not in NODE_POOL.computed)
    }
    for name in sorted(changed):
        match name:
            case "autoscaling":
                wanted = {
                    "desiredNodePoolId": here["name"],
                    "desiredNodePoolAutoscaling": sent.get("autoscaling", {"enabled": False}),
                }
                cluster = {"name": params["name"].partition("/nodePools/")[0]}
                session.call(f"{_CLUSTERS}update", cluster, {"update": wanted})
            case "management":
                session.call(f"{_POOLS}setManagement", params, {"management": sent["management"]})
            case "nodeCount":
                session.call(f"{_POOLS}setSize", params, {"nodeCount": int(new["nodeCount"])})
            case "nodeConfig":
                _update_config(session, params["name"], old, new, sent["config"])
            case "nodeLocations":
                session.call(f"{_POOLS}update", params, {"locations": sent["locations"]})
            case "upgradeSettings":
                session.call(f"{_POOLS}update", params, {"upgradeSettings": sent["upgradeSettings"]})
            case "version":
                session.call(f"{_POOLS}update", params, {"nodeVersion": sent["version"]})
            case _:
                raise ApiError("UNIMPLEMENTED", f"mockgcp does not change {name} of {NODE_POOL.token} in place")
    return session.call(_GET_POOL.method, params)


def _pool_outputs(session: Session, properties: Props, rest: Body) -> Props:
    _, project, _, location, _, cluster, _, name = rest["selfLink"].partition("/v1beta1/")[2].split("/")
    scaling = rest.get("autoscaling", {})
    groups = [_group(session, link) for link in rest["instanceGroupUrls"]]
    size = sum(group["targetSize"] for group in groups)
    return {
        "autoscaling": {k: v for k, v in scaling.items() if k != "enabled"} if scaling.get("enabled") else None,
        "cluster": cluster,
        "id": rest["selfLink"].partition("/v1beta1/")[2],
        "instanceGroupUrls": [group["instanceGroup"] for group in groups],
        "location": location,
        "managedInstanceGroupUrls": [group["selfLink"] for group in groups],
        "name": name,
        "nodeConfig": _config_outputs(
            properties,
            rest["config"],
            from_rest(NODE_POOL.table, NODE_POOL.outputs, {"config": rest["config"]})["nodeConfig"],
        ),
        "nodeCount": size // len(groups) if groups else 0,
        "project": project,
    }


def _group(session: Session, link: str) -> dict[str, Any]:
    _, project, _, zone, _, name = link.partition("/compute/v1/")[2].split("/")
    params = {"project": project, "zone": zone, "instanceGroupManager": name}
    return session.call("compute.instanceGroupManagers.get", params)


def _pool_id(identifier: str) -> Props:
    long = identifier.startswith("projects/")
    return id_parts(_POOL if long else "{project}/{location}/{cluster}/{name}")(identifier)


NODE_POOL = ResourceType(
    token="gcp:container/nodePool:NodePool",
    resource=gcp.container.NodePool,
    args=gcp.container.NodePoolArgs,
    # As the API has it: the program may give the cluster by its own id.
    id="{id}",
    import_id=_pool_id,
    create=_create_pool,
    read=lambda session, properties: read_by(_GET_POOL)(session, _in_cluster(session, properties)),
    update=_update_pool,
    delete=lambda session, properties: deleted_by(Request(f"{_POOLS}delete", _POOL_ID))(
        session, _in_cluster(session, properties)
    ),
    auto_name=_NAME,
    dry_run=_dry_run_pool,
    defaults=_POOL_DEFAULTS,
    replace_on=frozenset(
        {
            "cluster",
            "initialNodeCount",
            "location",
            "maxPodsPerNode",
            "name",
            "namePrefix",
            "nodeConfig",
            "placementPolicy",
            "project",
            "queuedProvisioning",
            *_under(
                "networkConfig",
                (
                    *("acceleratorNetworkProfile", "additionalNodeNetworkConfigs", "additionalPodNetworkConfigs"),
                    *("createPodRange", "podCidrOverprovisionConfig", "podIpv4CidrBlock", "podRange", "subnetwork"),
                ),
            ),
        }
    ),
    in_place=frozenset(_under("nodeConfig", _CONFIG_IN_PLACE)),
    computed=_paths(
        """
        autoscaling.locationPolicy deletionPolicy initialNodeCount location management maxPodsPerNode name namePrefix
        networkConfig networkConfig.additionalNodeNetworkConfigs networkConfig.additionalNodeNetworkConfigs.network
        networkConfig.additionalNodeNetworkConfigs.subnetwork
        networkConfig.additionalPodNetworkConfigs.maxPodsPerNode networkConfig.enablePrivateNodes
        networkConfig.podCidrOverprovisionConfig networkConfig.podIpv4CidrBlock networkConfig.podRange
        networkConfig.subnetwork nodeConfig nodeCount nodeDrainConfigs nodeLocations project upgradeSettings
        upgradeSettings.blueGreenSettings upgradeSettings.blueGreenSettings.autoscaledRolloutPolicy.waitForDrainDuration
        upgradeSettings.blueGreenSettings.nodePoolSoakDuration
        upgradeSettings.blueGreenSettings.standardRolloutPolicy.batchNodeCount
        upgradeSettings.blueGreenSettings.standardRolloutPolicy.batchPercentage
        upgradeSettings.blueGreenSettings.standardRolloutPolicy.batchSoakDuration upgradeSettings.maxSurge
        upgradeSettings.maxUnavailable version
        """
    )
    | _under("nodeConfig", _CONFIG_COMPUTED),
    table=Table(
        names={
            "maxPodsPerNode": "maxPodsConstraint.maxPodsPerNode",
            "nodeConfig": "config",
            "nodeLocations": "locations",
            **{f"nodeConfig.{name}": rest for name, rest in _CONFIG_NAMES.items()},
        },
        local=_LOCAL_OF_POOL,
        spelling={"cluster": _last},
    ),
    derive=_pool_outputs,
)
