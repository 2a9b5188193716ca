"""How the suite runs: the same examples every time, no stopwatch, and signals as usual."""

from __future__ import annotations

import signal

from hypothesis import settings

# A shell that runs the suite in the background has it ignore SIGINT, and programs inherit that:
# those that tests interrupt would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=5000)
settings.load_profile("suite")
