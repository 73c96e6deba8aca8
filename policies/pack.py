"""The registration: each rule as a policy of the SDK."""

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyProviderResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

from infra import catalog
from policies.props import UNKNOWN
from policies.rule import Rule, StackResource
from policies.rules import RULES


def plain(value: Any) -> Any:
    """`value` with the SDK's proxies resolved: dicts, lists and scalars, and UNKNOWN where the SDK would raise."""
    if isinstance(value, Mapping):
        return {key: _item(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_item(value, index) for index in range(len(value))]
    return value


def _item(container: Any, key: Any) -> Any:
    try:
        return plain(container[key])
    except UnknownValueError:
        return UNKNOWN


def _universe(provider: PolicyProviderResource | None) -> str:
    """The domain that a resource's provider is configured with (gcp:universeDomain), by default the public one."""
    configured = plain(provider.props).get("universeDomain") if provider else None
    return configured or catalog.universe().domain


def _policy(rule: Rule) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        messages: list[str] = []
        if check := rule.checks.get(args.resource_type):
            messages += check(plain(args.props))
        if universe_check := rule.universe_checks.get(args.resource_type):
            universe = _universe(args.provider)
            messages += [] if universe == UNKNOWN else universe_check(plain(args.props), universe)
        for message in messages:
            report(message, None)

    def validate_stack(args: StackValidationArgs, report: ReportViolation) -> None:
        judged = [
            StackResource(each.resource_type, each.urn, plain(each.props))
            for each in args.resources
            if each.resource_type in rule.stack_types
        ]
        for urn, message in rule.stack_check(judged) if rule.stack_check else ():
            report(message, urn)

    level = EnforcementLevel(rule.severity)
    if rule.stack_check:
        return StackValidationPolicy(
            rule.name, rule.summary, validate_stack, level, remediation_steps=rule.way_out, url=rule.source
        )
    return ResourceValidationPolicy(
        rule.name, rule.summary, validate, level, remediation_steps=rule.way_out, url=rule.source
    )


POLICIES: list[Policy] = [_policy(rule) for rule in RULES]
