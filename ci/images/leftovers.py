"""Images that the suite built here and that nothing names any more."""

from __future__ import annotations

from pathlib import Path

import docker.errors

from ci.engines import daemon
from ci.images import lock

_REQUEST_S = 300


def leftovers(root: Path, *, remove: bool) -> tuple[str, ...]:
    """Return the local tags of other contents than today's; with ``remove`` those that no container uses are gone.

    Only the suite's own tags, ``verl-e2e/NAME:HASH``, of images that images.yaml names: nothing else is touched.

    Raises:
        ImageError: no engine answers.
    """
    wanted = {name: lock.local_tag(name, root) for name in lock.locked_images(root)}
    found = []
    with daemon.connect(timeout_s=_REQUEST_S) as client:
        for name, current in wanted.items():
            repository = f"{lock.LOCAL}/{name}"
            with daemon.explained(f"looking for images of {repository}", image=repository):
                images = client.images.list(name=repository)
                # podman writes out the registry that a name without one means.
                tags = {tag.removeprefix("docker.io/") for image in images for tag in image.tags}
            for tag in sorted(tag for tag in tags if tag.startswith(f"{repository}:") and tag != current):
                if remove:
                    with daemon.explained(f"removing {tag}", image=tag):
                        try:
                            client.images.remove(tag)
                        except docker.errors.APIError as error:
                            if not error.is_client_error():
                                raise
                            found.append(f"{tag} (kept: {error.explanation})")
                            continue
                found.append(tag)
    return tuple(found)
