"""A project's number, which some APIs want in the place of its id."""

import pulumi
import pulumi_gcp as gcp


def project_number(project: str, parent: pulumi.Resource, opts: pulumi.ResourceOptions | None) -> pulumi.Output[str]:
    """The number of the project of that id, looked up once all that `opts` depends on is there.

    A look-up waits for nothing by itself; the API that answers may be one of those that the stack enables.
    """
    awaited = opts.depends_on if opts else None
    found = gcp.organizations.get_project_output(
        project_id=project, opts=pulumi.InvokeOutputOptions(parent=parent, depends_on=awaited)
    )
    return found.number
