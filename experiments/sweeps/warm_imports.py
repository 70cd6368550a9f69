"""Importing this module imports all that a run needs (see `experiments.sweeps.warm`)."""
import contextlib

from experiments.sweeps.warm import import_all

with contextlib.suppress(Exception):  # what cannot be imported fails again in the run that needs it
    import_all()
