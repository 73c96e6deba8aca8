"""One module an API: its state and its rules. `SERVICES` is all the emulator answers."""

from mockgcp.service import Service
from mockgcp.services import iam, logging, resourcemanager, run, run_executions, serviceusage, storage

SERVICES: tuple[Service, ...] = (
    resourcemanager.service,
    serviceusage.service,
    iam.service,
    storage.service,
    run.service,
    run_executions.reports,
    logging.service,
)
