"""What really runs behind the emulated services. `Plane` (protocol.py) is what every one of them keeps to."""
