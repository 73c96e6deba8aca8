"""The parts of the Slurm plane: a real Slurm, and stand-ins for the machines that the service makes for it."""
