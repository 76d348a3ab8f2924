"""What the run's processes report about themselves: JSON lines in ``runs/ID/events.jsonl``, written by the observer plug-in.

The file is the channel because Ray's log streaming loses, repeats and recolours lines.
"""

from __future__ import annotations

EVENTS_VARIABLE = "VERL_E2E_EVENTS"
"""Names the file for `ci/plugins/verl_observer`."""
