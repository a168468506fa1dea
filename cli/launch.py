"""`accelerate launch --cpu --num_processes N`, as one means it.

Without MPI, accelerate then starts one process, whatever N is. That process becomes torch's launcher, the same that
accelerate uses for several GPUs, and starts all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..agents.distributed import launched

_OPTIONS = ("--num_processes", "--num-processes")


def start_all_processes() -> None:
    """Become the launcher of the processes that `accelerate launch --cpu` was asked for and did not start."""
    asked_on_cpu = os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true" and "MASTER_ADDR" in os.environ
    if launched() or not asked_on_cpu:
        return
    import psutil

    parent = psutil.Process().parent()
    number = asked_processes(parent.cmdline() if parent is not None else ())
    if number > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={number}", "-m", "toolcredit"]
        os.execv(sys.executable, [sys.executable, *launcher, *sys.argv[1:]])


def asked_processes(command: Sequence[str]) -> int:
    """The number of processes that a command line of `accelerate launch` asks for; 1 if it names none."""
    for word, following in zip(command, [*command[1:], ""], strict=False):
        if word in ("-m", "--module") and following == "toolcredit":
            break  # what follows is no longer the launcher's
        option, _, value = word.partition("=")
        if option in _OPTIONS and (value or following).isdecimal():
            return int(value or following)
    return 1
