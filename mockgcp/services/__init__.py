"""One module an API: its state and its rules. `SERVICES` is all the emulator answers."""

from mockgcp.service import Service
from mockgcp.services import (
    aiplatform,
    artifactregistry,
    billing,
    budgets,
    cloudbuild,
    compute,
    container,
    file,
    iam,
    logging,
    monitoring,
    reports,
    resourcemanager,
    run,
    serviceusage,
    storage,
)
from mockgcp.services import aiplatform_clusters as aiplatform_clusters  # registers its methods with aiplatform
from mockgcp.services import aiplatform_slurm as aiplatform_slurm  # registers its methods with aiplatform
from mockgcp.services import artifactregistry_images as artifactregistry_images  # with artifactregistry
from mockgcp.services import compute_firewalls as compute_firewalls  # registers its methods with compute
from mockgcp.services import compute_machine_types as compute_machine_types  # registers its method with compute
from mockgcp.services import compute_networks as compute_networks  # registers its methods with compute
from mockgcp.services import compute_routers as compute_routers  # registers its methods with compute
from mockgcp.services import container_clusters as container_clusters  # registers its methods with container
from mockgcp.services import container_nodes as container_nodes  # registers its method with compute
from mockgcp.services import container_pools as container_pools  # registers its methods with container
from mockgcp.services import logging_metrics as logging_metrics  # registers its methods with logging
from mockgcp.services import monitoring_alerts as monitoring_alerts  # with monitoring
from mockgcp.services import run_executions as run_executions  # registers its methods with run and reports
from mockgcp.services import serviceusage_quotas as serviceusage_quotas  # with serviceusage

SERVICES: tuple[Service, ...] = (
    resourcemanager.service,
    serviceusage.service,
    iam.service,
    storage.service,
    compute.service,
    container.service,
    file.service,
    aiplatform.service,
    artifactregistry.service,
    cloudbuild.service,
    run.service,
    reports.service,
    logging.service,
    monitoring.service,
    billing.service,
    budgets.service,
)
