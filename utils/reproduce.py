#!/usr/bin/env python3
"""Run and rebuild the paper's tables (see experiments/commands/reproduce.py)."""
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # the checkout, instead of this folder

from experiments.commands.reproduce import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
