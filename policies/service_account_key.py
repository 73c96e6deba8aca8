"""A credential that lasts for years, in a state file."""

from policies.rule import Props, Rule

_SOURCE = "https://docs.cloud.google.com/iam/docs/best-practices-for-managing-service-account-keys"


def check(props: Props) -> list[str]:
    """One message, whatever the key is for."""
    return [
        f"a service account's key lasts for years, lies in Pulumi's state, and works from anywhere ({_SOURCE}). Leave "
        "it out: a job has its account's identity without one, and people can impersonate an account"
    ]


RULE = Rule(
    name="service-account-key",
    severity="mandatory",
    summary="No service account has a key.",
    source=_SOURCE,
    way_out="Attach the account to the job; from outside use impersonation or workload identity federation.",
    checks=dict.fromkeys(("gcp:serviceaccount/key:Key", "gcp:storage/hmacKey:HmacKey"), check),
)
