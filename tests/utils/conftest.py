"""The scripts' own package `running` is imported as the scripts do it."""
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "utils"
if str(SCRIPTS) not in sys.path:
    sys.path.append(str(SCRIPTS))
