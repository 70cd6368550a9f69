"""The command lines: each module has a `main(argv)` that returns the exit code."""
import argparse
import atexit
import gc
import re
import sys
from collections.abc import Callable
from pathlib import Path

from engine.errors import sentence_and_code
from engine.streams import make_patient
from experiments.contributions import load_contributions
from experiments.run import printable


def command_parser(page: str, allow_abbrev: bool = True) -> argparse.ArgumentParser:
    """A parser whose help is the module's page, with the command's name as it was called.

    Args:
        page: the docstring; its examples call the script, e.g. `python utils/sweep.py`.
    """
    if Path(sys.argv[0]).name.startswith("mammoth-"):  # installed: there are no scripts
        page = re.sub(r"(python )?utils/(\w+)\.py", r"mammoth-\2", page)
        page = re.sub(r"(mammoth/)?main\.py", "mammoth", page)
    return argparse.ArgumentParser(description=page, allow_abbrev=allow_abbrev,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def told(main: Callable[[], int]) -> int:
    """Call `main`; whatever goes wrong becomes one sentence on stderr and an exit code."""
    make_patient()
    atexit.register(gc.freeze)  # a process that ends need not look for garbage
    try:
        load_contributions()
        return main()
    except (Exception, KeyboardInterrupt) as error:
        sentence, code = sentence_and_code(error)
        print(f"error: {printable(sentence)}", file=sys.stderr)
        return code
