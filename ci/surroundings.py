"""What a plan depends on beyond scenario and options, read from this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ci.cache import cache_directory
from ci.devices.probe import machine_target
from ci.images.identity import inside_image
from ci.images.lock import locked_images
from ci.options import Options
from ci.plan import Verl
from ci.planning import Surroundings
from ci.verl.source import find_source

ROOT = Path(__file__).parents[1]
_VERSION = re.compile(r"v?[0-9]+(\.[0-9]+)*([a-z.+-].*)?")


def surroundings_of(options: Options, environment: Mapping[str, str]) -> Surroundings:
    """Return what this machine has to say to a plan.

    Raises:
        ConfigError: when ``--verl`` names no release and no checkout.
    """
    verl = _requested(options.verl, environment) if options.verl else _found()
    return Surroundings(
        environment=environment,
        machine=machine_target(),
        inside=inside_image(),
        cache=cache_directory("assets").parent,  # a container can be given only a folder that is there
        images=locked_images(ROOT),
        verl=verl,
        verl_version=find_source(verl).version if verl is not None and verl.kind != "image" else None,
    )


def _requested(name: str, environment: Mapping[str, str]) -> Verl:
    if name == "image":
        return Verl(kind="image", name="")
    if _VERSION.fullmatch(name) and "/" not in name:
        return Verl(kind="release", name=name.removeprefix("v"))
    # nox works in the folder of its noxfile; the caller meant the folder they called it from
    return Verl(kind="checkout", name=str(Path(environment.get("PWD", "."), name).expanduser().resolve()))


def _found() -> Verl | None:
    """Return the checkout of verl that the suite lies in, or that lies in the suite's folder, as CI lays it out."""
    for folder in (ROOT, ROOT / "verl"):
        if (folder / "verl" / "trainer" / "main_ppo.py").is_file():
            return Verl(kind="checkout", name=str(folder))
    return None
