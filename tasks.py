"""Look after images, workflows, scenarios and coverage: `inv --list` is the manual."""

from __future__ import annotations

from invoke.collection import Collection

from ci.coverage import tasks as coverage
from ci.images import tasks as images
from ci.scenarios import tasks as scenarios
from ci.workflows import tasks as workflows

namespace = Collection(images.namespace, workflows.namespace, scenarios.namespace, coverage.namespace)
