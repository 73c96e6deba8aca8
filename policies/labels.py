"""A resource whose costs nobody can attribute."""

from functools import partial

from policies.buckets import BUCKET
from policies.gke import CLUSTER
from policies.immutable_tags import REPOSITORY
from policies.jobs import JOB
from policies.props import UNKNOWN, mapping
from policies.rule import Props, Rule
from policies.slurm import CLUSTER as TRAINING_CLUSTER

LABELLED = {
    BUCKET: "labels",
    JOB: "labels",
    REPOSITORY: "labels",
    CLUSTER: "resourceLabels",
    TRAINING_CLUSTER: "labels",
    "gcp:filestore/instance:Instance": "labels",
    "gcp:monitoring/alertPolicy:AlertPolicy": "userLabels",
    "gcp:monitoring/notificationChannel:NotificationChannel": "userLabels",
}
"""The types of the scenarios that take labels, and the property that holds them."""

_SOURCE = "https://docs.cloud.google.com/resource-manager/docs/labels-overview"


def check(prop: str, props: Props) -> list[str]:
    """One message if the labels in property `prop` have no `app`."""
    if props.get(prop) == UNKNOWN or mapping(props.get(prop)).get("app"):
        return []
    return [
        f"{prop} has no `app`: bills and searches by label miss the resource ({_SOURCE}). Add it, such as app: holdfast"
    ]


RULE = Rule(
    name="labels",
    severity="advisory",
    summary="What takes labels has the label `app`.",
    source=_SOURCE,
    way_out="Add the label app; the components' own is app: holdfast.",
    checks={token: partial(check, prop) for token, prop in LABELLED.items()},
)
