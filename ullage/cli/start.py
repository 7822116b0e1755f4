"""Entry point of the programs: Ctrl-C ends them quietly from the first line on, also while modules are imported.

Imports nothing of the product at its top.
"""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Run `ullage` or `kubectl ullage` with the arguments of this process."""
    signal.signal(signal.SIGINT, _quit)
    from ullage.cli.main import main as run_main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run_main()
    except KeyboardInterrupt:
        _quit()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on the interpreter only clears up


def _quit(_number: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
    sys.stderr.write("interrupted\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)
