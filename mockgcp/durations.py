"""How long the emulated cloud takes over its long-running operations, in seconds of its clock.

Nominal values for a reader's sense of scale, not Google's figures. A rehearsal shortens them from its declared list.
"""

from __future__ import annotations

from collections.abc import Mapping

NOMINAL: Mapping[str, float] = {
    "aiplatform.projects.locations.modelDevelopmentClusters.create": 480.0,
    "aiplatform.projects.locations.modelDevelopmentClusters.delete": 240.0,
    "aiplatform.projects.locations.modelDevelopmentClusters.patch": 60.0,
    "aiplatform.projects.locations.modelDevelopmentClusters.reportFaultyNodes": 120.0,
    "artifactregistry.projects.locations.repositories.create": 4.0,
    "artifactregistry.projects.locations.repositories.delete": 3.0,
    "artifactregistry.projects.locations.repositories.packages.delete": 2.0,
    "artifactregistry.projects.locations.repositories.packages.versions.delete": 2.0,
    "cloudbuild.projects.locations.builds.create": 120.0,
    "compute.firewalls.insert": 8.0,
    "compute.firewalls.patch": 8.0,
    "compute.firewalls.delete": 8.0,
    "compute.networks.insert": 12.0,
    "compute.networks.patch": 8.0,
    "compute.networks.delete": 12.0,
    "compute.subnetworks.insert": 12.0,
    "compute.subnetworks.patch": 8.0,
    "compute.subnetworks.expandIpCidrRange": 8.0,
    "compute.subnetworks.setPrivateIpGoogleAccess": 8.0,
    "compute.subnetworks.delete": 12.0,
    "compute.routers.insert": 8.0,
    "compute.routers.patch": 8.0,
    "compute.routers.delete": 8.0,
    "container.projects.locations.clusters.create": 240.0,
    "container.projects.locations.clusters.delete": 180.0,
    "container.projects.locations.clusters.setMaintenancePolicy": 10.0,
    "container.projects.locations.clusters.setResourceLabels": 20.0,
    "container.projects.locations.clusters.update": 60.0,
    "container.projects.locations.clusters.nodePools.create": 60.0,
    "container.projects.locations.clusters.nodePools.delete": 120.0,
    "container.projects.locations.clusters.nodePools.setAutoscaling": 10.0,
    "container.projects.locations.clusters.nodePools.setManagement": 10.0,
    "container.projects.locations.clusters.nodePools.setSize": 60.0,
    "container.projects.locations.clusters.nodePools.update": 60.0,
    "file.projects.locations.instances.create": 180.0,
    "file.projects.locations.instances.delete": 60.0,
    "file.projects.locations.instances.patch": 30.0,
    "serviceusage.services.enable": 15.0,
    "serviceusage.services.disable": 10.0,
    "run.projects.locations.jobs.create": 8.0,
    "run.projects.locations.jobs.patch": 5.0,
    "run.projects.locations.jobs.delete": 4.0,
    "run.projects.locations.jobs.executions.cancel": 2.0,
    "run.projects.locations.jobs.executions.delete": 2.0,
}
