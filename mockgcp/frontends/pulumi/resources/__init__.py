"""One small table a resource type; `RESOURCES` is all the provider front end knows, by token."""

from collections.abc import Mapping

from mockgcp.frontends.pulumi.resource import ResourceType
from mockgcp.frontends.pulumi.resources import cloudrunv2, projects, serviceaccount, storage

RESOURCES: Mapping[str, ResourceType] = {
    each.token: each
    for each in (
        cloudrunv2.JOB,
        projects.IAM_MEMBER,
        projects.SERVICE,
        serviceaccount.ACCOUNT,
        serviceaccount.IAM_MEMBER,
        storage.BUCKET,
        storage.BUCKET_IAM_MEMBER,
    )
}
