"""The command lines: each module has a `main(argv)` that returns the exit code."""
import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from experiments.contributions import load_contributions
from utils.errors import RunError, UsageError


def command_parser(page: str, allow_abbrev: bool = True) -> argparse.ArgumentParser:
    """A parser whose help is the module's page, with the command's name as it was called.

    Args:
        page: the docstring; its examples call the script, e.g. `python utils/sweep.py`.
    """
    called = Path(sys.argv[0]).name
    if called.startswith("mammoth-"):
        page = page.replace(f"python utils/{called.removeprefix('mammoth-')}.py", called)
    return argparse.ArgumentParser(description=page, allow_abbrev=allow_abbrev,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)


def told(main: Callable[[], int]) -> int:
    """Call `main`; mistakes become one sentence on stderr and their exit code."""
    try:
        load_contributions()
        return main()
    except (UsageError, RunError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # `mammoth-sweep --dry_run | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
