"""Google Cloud as the operator's commands call it: one seam, on a real project and on the emulated cloud alike."""

import warnings

ENDPOINT = "HOLDFAST_API_ENDPOINT"
"""The variable that names an emulated cloud on this machine, to be called in Google's place."""

# google.api_core warns of Python 3.11's end (October 2027) at every start: no matter of whoever runs a command.
warnings.filterwarnings("ignore", message="You are using a Python version", category=FutureWarning)
