"""Ports for process groups that nobody takes before they are used.

verl asks the kernel for a free port, lets go of it, and uses it seconds later, in another process. Meanwhile the kernel
gives the same port to one of Ray's many connections now and then, and the group fails with EADDRINUSE. Below the range
that outgoing connections come from (https://docs.kernel.org/networking/ip-sysctl.html) that cannot happen.
"""

import functools
import random
from pathlib import Path
from types import ModuleType
from typing import Any

_LOWEST = 10_000
_ROOM = 1_000
"""Ports that are left to choose from, where the first ones are taken."""
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL = 32_768


def choose(module: ModuleType) -> None:
    """Let every worker group look for its port from a random one on, with verl's own parameter for it."""
    construct = module.RayWorkerGroup.__init__

    @functools.wraps(construct)
    def construct_with_range(group: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("master_port_range", _port_range())
        construct(group, *args, **kwargs)

    module.RayWorkerGroup.__init__ = construct_with_range


def _port_range() -> list[int] | None:
    try:
        end = int(_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        end = _USUAL
    if end < _LOWEST + _ROOM:
        return None  # somebody widened the kernel's range: verl chooses as ever
    # Not from the seeded generator: what a run draws from it must not depend on how many groups there are.
    return [random.SystemRandom().randrange(_LOWEST, end - _ROOM + 1), end]
