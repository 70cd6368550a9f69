"""The two ways a command may end badly, each told in one sentence.

`main.py` turns them into a line on stderr and an exit code; nothing else does, so
library code raises them freely and a notebook sees ordinary exceptions.
"""


class UsageError(Exception):
    """What the user asked for cannot be done: wrong argument, missing file (exit code 2)."""

    exit_code = 2


class RunError(Exception):
    """A run that started well and had to stop, e.g. on a non-finite loss (exit code 1)."""

    exit_code = 1
