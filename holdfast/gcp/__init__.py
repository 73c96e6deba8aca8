"""Google Cloud as the operator's commands call it: one seam, on a real project and on the emulated cloud alike."""

import warnings

# google.api_core warns of Python 3.11's end (October 2027) at every start: no matter of whoever runs a command.
warnings.filterwarnings("ignore", message="You are using a Python version", category=FutureWarning)
