"""One small table a resource type; `RESOURCES` is all the provider front end knows, by token."""

from collections.abc import Mapping

from mockgcp.frontends.pulumi.resource import ResourceType
from mockgcp.frontends.pulumi.resources import (
    artifactregistry,
    billing,
    cloudrunv2,
    compute,
    logging,
    monitoring,
    projects,
    serviceaccount,
    storage,
)

RESOURCES: Mapping[str, ResourceType] = {
    each.token: each
    for each in (
        artifactregistry.REPOSITORY,
        artifactregistry.REPOSITORY_IAM_MEMBER,
        billing.BUDGET,
        cloudrunv2.JOB,
        compute.NETWORK,
        compute.ROUTER,
        compute.ROUTER_NAT,
        compute.SUBNETWORK,
        logging.METRIC,
        monitoring.ALERT_POLICY,
        monitoring.DASHBOARD,
        monitoring.NOTIFICATION_CHANNEL,
        projects.IAM_MEMBER,
        projects.SERVICE,
        serviceaccount.ACCOUNT,
        serviceaccount.IAM_MEMBER,
        storage.BUCKET,
        storage.BUCKET_IAM_MEMBER,
    )
}
