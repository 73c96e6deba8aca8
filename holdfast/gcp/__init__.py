"""Google Cloud as the operator's commands call it: one seam, on a real project and on the emulated cloud alike."""
