"""One module an API: its state and its rules. `SERVICES` is all the emulator answers."""

from mockgcp.service import Service
from mockgcp.services import iam, logging, reports, resourcemanager, run, serviceusage, storage
from mockgcp.services import run_executions as run_executions  # registers its methods with run and reports

SERVICES: tuple[Service, ...] = (
    resourcemanager.service,
    serviceusage.service,
    iam.service,
    storage.service,
    run.service,
    reports.service,
    logging.service,
)
