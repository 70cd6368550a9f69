#!/usr/bin/env python3
"""Turn a folder of runs into one compact file of results (see experiments/commands/collect.py)."""
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # the checkout, instead of this folder

from experiments.commands.collect import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
