"""Running many experiments: what `sweep.py` and `compare.py` have in common.

`specs` turns arguments into checked runs, `grid` a YAML file into arguments, `claims` keeps two
sweeps from doing the same run, `execution` starts one run and says how it ended, and `local`,
`on_ray` and `on_slurm` do that for many. Scripts beside this folder import it by its own name,
because `utils` means mammoth/utils everywhere in this project.
"""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAIN = ROOT / "mammoth" / "main.py"
if str(MAIN.parent) not in sys.path:
    sys.path.insert(0, str(MAIN.parent))
