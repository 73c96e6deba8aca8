"""mockgcp: an emulated Google Cloud with state, rules, time and real processes. `Cloud` (cloud.py) is its one seam."""
