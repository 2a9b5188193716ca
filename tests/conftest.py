"""How the suite runs: the same examples every time, no stopwatch, and signals as usual."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A shell that runs the suite in the background has it ignore SIGINT, and programs inherit that:
# those that tests interrupt would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long examples take to draw is a matter of what else the machine does.
_NO_STOPWATCH = [HealthCheck.too_slow]
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=_NO_STOPWATCH
)
settings.register_profile(
    "long", deadline=None, max_examples=5000, suppress_health_check=_NO_STOPWATCH
)
settings.load_profile("suite")
