"""Tells what an import takes, over what was imported before it.

``python imports.py BEFORE AFTER`` runs two statements, and prints the CPU time of the second one in
milliseconds, and the memory that it took, in KiB. It imports nothing that the first one may not
have imported.
"""

import os
import sys
import time


def resident_kib() -> float:
    """Give the memory that this process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


exec(sys.argv[1])  # noqa: S102 - our own statements
held, spent = resident_kib(), time.process_time()
exec(sys.argv[2])  # noqa: S102
spent = (time.process_time() - spent) * 1000
print(f'{{"cpu_ms": {spent}, "kib": {resident_kib() - held}}}')  # not json, which would be ours
