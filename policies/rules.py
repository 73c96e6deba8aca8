"""All rules, in the order in which they are listed. Nothing here needs the SDK."""

from policies import (
    broad_role,
    bucket_hardening,
    default_service_account,
    gpu_job_few_retries,
    gpu_job_size,
    gpu_job_without_retries,
    gpu_task_timeout,
    immutable_tags,
    labels,
    mount_headroom,
    mounted_bucket,
    pinned_image,
    project_wide_storage_role,
    public_bucket,
    public_job,
    service_account_key,
)

RULES = (
    gpu_job_without_retries.RULE,
    gpu_job_few_retries.RULE,
    gpu_task_timeout.RULE,
    gpu_job_size.RULE,
    mount_headroom.RULE,
    pinned_image.RULE,
    immutable_tags.RULE,
    bucket_hardening.RULE,
    mounted_bucket.RULE,
    public_bucket.RULE,
    public_job.RULE,
    default_service_account.RULE,
    service_account_key.RULE,
    broad_role.RULE,
    project_wide_storage_role.RULE,
    labels.RULE,
)
