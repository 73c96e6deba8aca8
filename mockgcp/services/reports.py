"""What the planes report: the methods of mockgcp's own document, which only the platform's principal may call.

A service that a plane works for registers its methods here (run_executions.py), as its state is there.
"""

from __future__ import annotations

from mockgcp.service import Service

service = Service("mockgcp", host=None)
