"""Writes facts of a run to the file named by ``VERL_E2E_EVENTS``; loaded by ``VERL_USE_EXTERNAL_MODULES``.

Every process of the trainer loads it, on every target. It changes nothing that verl computes, and without the
variable it does nothing at all.
"""

from verl_observer import events, metrics, progress, weights

if events.enabled():
    metrics.install()
    weights.install()
    progress.install()
