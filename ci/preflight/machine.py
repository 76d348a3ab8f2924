"""The machine a plan would run on: devices, models, data, disk, shared memory, image, paths."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import docker.errors

from ci.cache import cache_directory
from ci.devices.probe import Device
from ci.engines import daemon
from ci.errors import SuiteError
from ci.plan import Image, Plan
from ci.preflight.report import Line, State

GIBIBYTE = 1024**3
RUN_DISK = 2 * GIBIBYTE
"""What a run may write beside its image: log, events, stacks."""
IMAGE_DISK = 60 * GIBIBYTE
"""What verl's images take once unpacked, with room for the layers on their way."""
SHARED_MEMORY = 2 * GIBIBYTE
"""Ray's object store and the collectives of a few ranks; less makes Ray fall back to the disk."""

_Line = partial(Line, area="machine", failure_class="device")


def machine_lines(
    plan: Plan, devices: Sequence[Device], *, required: bool, runs: Path | None = None
) -> tuple[Line, ...]:
    """Look at everything the plan needs of this machine.

    Without ``required``, a machine that has no device of the target is told, not blamed: nothing is failed.
    """
    lines = tuple(_all_lines(plan, devices, runs or Path.cwd()))
    runnable = plan.rehearsal or any(device.kind == plan.target for device in devices)
    if required or runnable:
        return lines
    return tuple(replace(line, state="skipped") if line.state in {"failed", "warning"} else line for line in lines)


def _all_lines(plan: Plan, devices: Sequence[Device], runs: Path) -> Iterator[Line]:
    yield _devices(plan, devices)
    yield _files(plan, "models", dict.fromkeys(plan.models.values(), "config.json"))
    yield _files(plan, "data", dict.fromkeys(plan.data_files, ""))
    yield _disk(plan, runs)
    yield _shared_memory(plan)
    yield _limits(plan)
    if plan.image is not None:
        yield from _doubts(plan, plan.image)
    if plan.engine == "docker":
        yield _image(plan)
    else:
        yield _launcher(plan)
        yield _python_path(plan)


def _devices(plan: Plan, devices: Sequence[Device]) -> Line:
    line = partial(_Line, scenario=plan.scenario, name="devices")
    if plan.rehearsal:
        return line(state="ok", detail="a rehearsal needs none", hint="--target cuda or npu asks for devices")
    present = [device for device in devices if device.kind == plan.target]
    title = plan.target.upper()
    if not present:
        return line(
            state="failed",
            detail=f"no {title} device here, {plan.devices} are needed",
            hint="--target cpu rehearses; is the driver loaded (nvidia-smi, npu-smi info)?",
        )
    if len(present) < plan.devices:
        return line(
            state="failed",
            detail=f"{len(present)} {title} devices here, {plan.devices} are needed",
            hint="give fewer, for example NUM_GPUS, or take a larger machine",
        )
    free = [device for device in present if device.free]
    if len(free) < plan.devices:
        busy = sorted({f"{device.id}: {', '.join(device.busy_by)}" for device in present if not device.free})
        return line(
            state="failed",
            detail=f"{len(free)} of {len(present)} {title} devices are free, {plan.devices} needed; {'; '.join(busy)}",
            hint="wait for those processes, or end your own",
        )
    return line(
        state="ok",
        detail=f"{plan.devices} of {len(free)} free {title} devices ({free[0].name})",
        hint="NUM_GPUS and its parts change how many",
    )


def _files(plan: Plan, name: str, wanted: dict[str, str]) -> Line:
    """Look for paths; those that a step makes may be missing."""
    line = partial(_Line, scenario=plan.scenario, name=name, failure_class="config")
    made = {path: step.name for step in plan.steps for path in step.creates}
    missing: list[str] = []
    coming: list[str] = []
    for path, proof in wanted.items():
        if Path(path, proof).exists():
            continue
        makers = sorted({f"step {step}" for file, step in made.items() if file == path or file.startswith(f"{path}/")})
        if plan.rehearsal and Path(path).is_relative_to(cache_directory()):
            makers.append("the rehearsal")
        (coming if makers else missing).append(f"{path} ({', '.join(makers)})" if makers else path)
    if missing:
        knob = next((knob for knob, value in plan.knobs.items() if str(value) == missing[0]), None)
        return line(
            state="failed",
            detail=f"not here: {', '.join(missing)}",
            hint=f"{knob}=PATH says where it is" if knob else "put it there, or name another place by its knob",
        )
    if coming:
        return line(state="ok", detail=f"made first: {', '.join(coming)}", hint="nothing to do")
    return line(state="ok", detail=", ".join(wanted) or "none needed", hint="the knobs that end in PATH or FILES")


def _disk(plan: Plan, runs: Path) -> Line:
    folder = next(parent for parent in (runs, *runs.parents) if parent.is_dir())
    free = shutil.disk_usage(folder).free
    line = partial(_Line, scenario=plan.scenario, name="disk", detail=f"{free / GIBIBYTE:.0f} GiB free for runs/")
    if free < RUN_DISK:
        return line(state="failed", hint=f"make room: a run may write {RUN_DISK // GIBIBYTE} GiB; old runs can go")
    return line(state="ok", hint="old runs can go when it gets less")


def _shared_memory(plan: Plan) -> Line:
    line = partial(_Line, scenario=plan.scenario, name="shared memory")
    if plan.engine == "docker":
        return line(state="ok", detail="the container gets its own", hint="nothing to do")
    try:
        state = os.statvfs("/dev/shm")  # noqa: S108 (what Ray and NCCL use; nothing is written)
    except OSError:
        return line(state="warning", detail="there is no /dev/shm", hint="Ray falls back to the disk, slowly")
    free = state.f_frsize * state.f_bavail
    detail = f"{free / GIBIBYTE:.1f} GiB free in /dev/shm"
    if free < SHARED_MEMORY:
        return line(state="warning", detail=detail, hint="Ray falls back to the disk, slowly: docker run --shm-size=8g")
    return line(state="ok", detail=detail, hint="docker run --shm-size sets it")


def _limits(plan: Plan) -> Line:
    line = partial(_Line, scenario=plan.scenario, name="limits", failure_class="config")
    detail = plan.limits
    if plan.time_limit_s <= 0 or plan.stall_limit_s <= 0:
        return line(state="failed", detail=detail, hint="a limit is more than 0: --timeout, or limits: in the scenario")
    if plan.stall_limit_s > plan.time_limit_s:
        return line(
            state="warning", detail=detail, hint="a hang is ended by the time limit, before its stall is noticed"
        )
    return line(state="ok", detail=detail, hint="--timeout, or limits: in the scenario")


def _doubts(plan: Plan, image: Image) -> Iterator[Line]:
    line = partial(_Line, scenario=plan.scenario, name="image", failure_class="image")
    state: State = "failed" if plan.strict else "warning"
    where = " (refused under CI)" if plan.strict else ""
    for doubt in image.doubts:
        yield line(state=state, detail=f"{doubt.what}{where}", hint=doubt.mend)


def _image(plan: Plan) -> Line:
    line = partial(_Line, scenario=plan.scenario, name="image", failure_class="image")
    image = plan.image
    if image is None:
        return line(state="failed", detail="the docker engine needs an image, the plan has none", hint="--image NAME")
    shown = f"{image.name} ({image.reference})"
    try:
        with daemon.connect(timeout_s=60) as client, daemon.explained("looking at the image", image=shown):
            try:
                client.images.get(image.reference)
            except docker.errors.ImageNotFound:
                root = Path(client.info().get("DockerRootDir") or "/")
                free = shutil.disk_usage(root).free if root.is_dir() else IMAGE_DISK
                return _absent_image(plan, line, shown, free)
    except SuiteError as error:
        return line(state="failed", detail=error.message, hint=error.hint or "")
    return line(state="ok", detail=f"{shown} is here", hint="containers/images.lock pins it")


def _absent_image(plan: Plan, line: partial[Line], shown: str, free: int) -> Line:
    image = plan.image
    if image is None or image.digest is None:
        return line(
            state="failed",
            detail=f"{shown} is not on this machine and has no digest to pull it by",
            hint=f"inv images.build {image.name if image else ''}".rstrip(),
        )
    if free < IMAGE_DISK:
        return line(
            state="failed",
            detail=f"{shown} has to be pulled, and {free / GIBIBYTE:.0f} GiB are free for it",
            hint=f"make room: {IMAGE_DISK // GIBIBYTE} GiB; docker image prune",
        )
    return line(state="warning", detail=f"{shown} will be pulled first", hint=f"docker pull {image.reference}")


def _launcher(plan: Plan) -> Line:
    line = partial(_Line, scenario=plan.scenario, name="launcher", failure_class="config")
    program = plan.launcher[0]
    if shutil.which(program, path=plan.environment.get("PATH")):
        return line(state="ok", detail=program, hint="VERL_USE_UV=0 starts the image's own python3")
    if plan.rehearsal:
        return line(state="ok", detail="the rehearsal's environment is made first", hint="once; 2 GB, about 90 s")
    return line(
        state="failed",
        detail=f"there is no {program} on PATH",
        hint="VERL_USE_UV=0 starts python3" if program == "uv" else "run inside the image: --engine docker",
    )


def _python_path(plan: Plan) -> Line:
    line = partial(_Line, scenario=plan.scenario, name="PYTHONPATH", failure_class="config")
    folders = [folder for folder in plan.environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    missing = [folder for folder in folders if not Path(folder).is_dir()]
    if missing:
        return line(
            state="failed",
            detail=f"no such folder: {', '.join(missing)}",
            hint="it has to be in the image; PYTHONPATH may name another before it",
        )
    return line(state="ok", detail=os.pathsep.join(folders) or "not set", hint="python_path: in the scenario")
