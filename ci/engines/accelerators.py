"""How a container gets accelerators: by explicit id, never all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docker.types import DeviceRequest, Mount

from ci.errors import DeviceError
from ci.scenarios.model import Target

_ASCEND_SHARED = ("davinci_manager", "devmm_svm", "hisi_hdc")
"""Device nodes that every Ascend process needs beside those of its NPUs."""
_ASCEND_DRIVER = "usr/local/Ascend/driver"
_ASCEND_TOOLS = ("usr/local/dcmi", "usr/local/bin/npu-smi", "etc/ascend_install.info", "etc/hccn.conf")
"""Taken where the host has them: npu-smi with its library, and the addresses of the links between NPUs."""
ACCELERATOR_SHARED_MEMORY = 16 << 30
REHEARSAL_SHARED_MEMORY = 4 << 30
"""Bytes /dev/shm may grow to; nothing is taken in advance."""


def device_options(target: Target, ids: tuple[int, ...], *, root: Path = Path("/")) -> dict[str, Any]:
    """Return the parts of a container's host configuration that give it the devices with these ids.

    ``root`` is where the host's files are looked for.

    Raises:
        DeviceError: a device node or the driver is not there.
    """
    if not ids:
        return {}
    match target:
        case "cuda":
            return {
                "device_requests": [DeviceRequest(device_ids=[str(device) for device in ids], capabilities=[["gpu"]])]
            }
        case "npu":
            return _ascend(ids, root)
        case "cpu":
            return {}


def _ascend(ids: tuple[int, ...], root: Path) -> dict[str, Any]:
    names = (*(f"davinci{device}" for device in ids), *_ASCEND_SHARED)
    nodes = [root / "dev" / name for name in names]
    driver = root / _ASCEND_DRIVER
    if missing := [str(path) for path in (*nodes, driver) if not path.exists()]:
        raise DeviceError(
            f"this machine lacks {', '.join(missing)}",
            hint="`npu-smi info` lists the NPUs; the driver has to be on the host, no image brings it",
        )
    folders = (driver, *(path for tool in _ASCEND_TOOLS if (path := root / tool).exists()))
    return {
        "devices": [f"{node}:/dev/{node.name}:rwm" for node in nodes],
        "mounts": [
            Mount(target=f"/{folder.relative_to(root)}", source=str(folder), type="bind", read_only=True)
            for folder in folders
        ],
        # The nodes belong to the driver's group, HwHiAiUser, and a caller that is not root has to be in it.
        "group_add": sorted({node.stat().st_gid for node in nodes}),
    }
