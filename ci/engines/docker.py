"""The Docker engine: each command of a run in a container of its own, from the plan's image."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
from docker.models.containers import Container
from docker.types import LogConfig, Mount, Ulimit

from ci.engines import daemon, images, processes, stacks
from ci.engines.accelerators import ACCELERATOR_SHARED_MEMORY, REHEARSAL_SHARED_MEMORY, device_options
from ci.engines.container import ContainerExecution
from ci.engines.engine import Command
from ci.engines.owner import OWNER_VARIABLE, RUN_VARIABLE, Owner
from ci.errors import ConfigError, DeviceError
from ci.images.drift import of_changes
from ci.plan import EngineName, Image, Plan

LABEL = "verl-e2e"
"""Every container of the suite has it; the others are ``verl-e2e.run`` and so on."""
_PY_SPY = "/opt/verl-e2e/py-spy"
_REQUEST_S = 120
_STATE_S = 3
"""How long a question after a container's state may take before the engine counts as not answering."""
_OPEN_FILES = 1 << 20
_PASSED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "HF_ENDPOINT", "HF_TOKEN")
"""Variables of the caller that reach a container, in either case, since no network of its own could replace them."""


@dataclass(kw_only=True)
class DockerWorkspace:
    """The containers of one run."""

    client: docker.DockerClient
    quick: docker.DockerClient
    plan: Plan
    image: Image
    image_id: str
    image_digest: str | None
    run_id: str
    environment: dict[str, str]
    options: dict[str, Any]
    reaped: tuple[str, ...]
    executions: list[ContainerExecution] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    """What the engine did not do, and the run could go on without."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the orphans reaped before, and what the kernel or the engine did to containers."""
        return (*self.reaped, *self.lacking, *(note for execution in self.executions for note in execution.notes))

    def drift(self) -> tuple[str, ...]:
        """Look at what each container changed of its image."""
        found: dict[str, None] = {}
        for execution in self.executions:
            with daemon.explained("comparing a container with its image", image=self.image.reference):
                found |= dict.fromkeys(of_changes(self.client.api.diff(execution.identifier) or ()))
        return tuple(found)

    def start(self, command: Command) -> ContainerExecution:
        """Create a container, attach to it, and only then start it: nothing it writes is lost."""
        with daemon.explained(f"starting {command.name}", image=self.image.reference):
            try:
                return self._start(command)
            except docker.errors.APIError as error:
                if "setting rlimit" not in str(error) or not self.options.pop("ulimits", None):
                    raise
        self.lacking.append(
            "the engine may not lift the limits of memlock and nofile: collectives may fail to pin memory"
        )
        with daemon.explained(f"starting {command.name}", image=self.image.reference):
            return self._start(command)

    def _start(self, command: Command) -> ContainerExecution:
        container = self.client.containers.create(
            self.image_id,
            name=f"verl-e2e-{self.run_id}-{len(self.executions)}",
            # Not the image's own entrypoint: the plan's command line is the whole truth.
            entrypoint=[command.argv[0]],
            command=list(command.argv[1:]),
            working_dir=command.working_directory,
            environment=self.environment | dict(command.environment),
            **self.options,
        )
        execution = ContainerExecution(
            identifier=str(container.id), client=self.client, quick=self.quick, run_id=self.run_id, py_spy=_PY_SPY
        )
        self.executions.append(execution)
        execution.attach()
        container.start()
        return execution

    def close(self) -> None:
        """End and remove every container of the run; without an engine at least its processes are ended."""
        for execution in self.executions:
            execution.end()
        if not self.plan.keep and not any(execution.lost for execution in self.executions):
            try:
                for container in _containers(self.client, {f"{LABEL}.run": self.run_id}):
                    _remove(container)
            except daemon.Errors as error:
                self.lacking.append(f"a container is left for the next start to remove: {error}")
                processes.end(lambda: processes.of_run(self.run_id))
        for execution in self.executions:
            execution.close()


@dataclass(frozen=True, kw_only=True)
class DockerEngine:
    """Start commands in containers, through Docker or podman's compatible socket."""

    name: EngineName = "docker"

    @contextlib.contextmanager
    def open(
        self, plan: Plan, *, run_id: str, directory: Path, devices: tuple[int, ...], stop: Callable[[], bool]
    ) -> Iterator[DockerWorkspace]:
        """Reap dead owners' containers, and have the plan's image ready."""
        if plan.image is None:
            raise ConfigError("a plan for the docker engine names no image")
        with (
            daemon.connect(timeout_s=_REQUEST_S) as client,
            daemon.connect(timeout_s=_STATE_S) as quick,
        ):
            with daemon.explained("looking for containers of dead runs", image=plan.image.reference):
                reaped = _reap(client)
            image_id, digest = images.prepare(client, plan.image, stop=stop)
            with daemon.explained("asking the engine about itself", image=plan.image.reference):
                if devices and plan.target == "cuda" and daemon.is_podman(client):
                    raise DeviceError(
                        "podman passes no NVIDIA device on that is asked for through its Docker-compatible socket, and "
                        "does not say so: https://github.com/containers/podman/issues/22645",
                        hint="use Docker, or start the machine from the image and let the host engine run there",
                    )
                identity = _identity(client.info())
            workspace = DockerWorkspace(
                client=client,
                quick=quick,
                plan=plan,
                image=plan.image,
                image_id=image_id,
                image_digest=digest,
                run_id=run_id,
                environment=_environment(plan, run_id),
                options=identity | _options(plan, run_id, directory, devices),
                reaped=reaped,
            )
            try:
                yield workspace
            finally:
                workspace.close()


def _options(plan: Plan, run_id: str, directory: Path, devices: tuple[int, ...]) -> dict[str, Any]:
    owner = Owner.current()
    granted = device_options(plan.target, devices)
    if devices:
        # Collectives pin memory for the network card; Ray and vLLM open a socket for each pair of processes.
        granted["ulimits"] = [
            Ulimit(name="memlock", soft=-1, hard=-1),
            Ulimit(name="nofile", soft=_OPEN_FILES, hard=_OPEN_FILES),
        ]
    mounts = [
        Mount(target=mount.path, source=mount.path, type="bind", read_only=mount.read_only) for mount in plan.mounts
    ]
    mounts.append(Mount(target=str(directory), source=str(directory), type="bind"))
    if (py_spy := stacks.executable()) is not None:
        # It is linked statically, so it runs in any image of this machine's platform.
        mounts.append(Mount(target=_PY_SPY, source=py_spy, type="bind", read_only=True))
    return {
        "mounts": [*mounts, *granted.pop("mounts", ())],
        "labels": {
            LABEL: "run",
            f"{LABEL}.scenario": plan.scenario,
            f"{LABEL}.run": run_id,
            f"{LABEL}.host": owner.host,
            f"{LABEL}.owner": owner.text,
            f"{LABEL}.owner.pid": str(owner.process),
            f"{LABEL}.owner.started": str(owner.started),
            f"{LABEL}.keep": str(plan.keep).lower(),
        },
        "init": True,
        "shm_size": ACCELERATOR_SHARED_MEMORY if devices else REHEARSAL_SHARED_MEMORY,
        "ipc_mode": "private",
        # The suite writes the log; a second one inside the engine would take as much of its disk again.
        "log_config": LogConfig(type="none"),
        **granted,
    }


def _environment(plan: Plan, run_id: str) -> dict[str, str]:
    names = {variant for name in _PASSED_ON for variant in (name, name.lower())}
    passed_on = {name: value for name in names if (value := os.environ.get(name))}
    # A user without an entry in the image's passwd has no name and no home there: torch and Ray ask for both.
    person = {"HOME": "/tmp", "USER": _user_name(), "LOGNAME": _user_name()}  # noqa: S108  # inside the container
    marks = {RUN_VARIABLE: run_id, OWNER_VARIABLE: Owner.current().text}
    return person | passed_on | plan.environment | marks


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return getpass.getuser() if os.environ.get("USER") else f"user{os.getuid()}"


def _identity(info: dict[str, Any]) -> dict[str, Any]:
    """Return who the container runs as, so that what it writes belongs to the caller."""
    security = info.get("SecurityOptions") or ()
    if any("name=rootless" in option for option in security):
        return {"user": "0:0"}  # which is the caller, outside
    options = {"user": f"{os.getuid()}:{os.getgid()}"}
    if any("name=userns" in option for option in security):
        options["userns_mode"] = "host"
    return options


def _reap(client: docker.DockerClient) -> tuple[str, ...]:
    """Remove containers whose owner is dead, and those that this process could not remove after an earlier run."""
    notes = []
    for container in _containers(client, {LABEL: "run"}):
        owner = Owner.parse(container.labels.get(f"{LABEL}.owner", ""))
        if owner is None or container.labels.get(f"{LABEL}.keep") == "true":
            continue
        if owner.state == "dead" or owner == Owner.current():
            _remove(container)
            notes.append(f"removed the container {container.name} that a dead run had left behind")
    return tuple(notes)


def _containers(client: docker.DockerClient, labels: dict[str, str]) -> list[Container]:
    wanted = [f"{key}={value}" for key, value in labels.items()]
    found: list[Container] = client.containers.list(all=True, filters={"label": wanted}, ignore_removed=True)
    return found


def _remove(container: Container) -> None:
    with contextlib.suppress(docker.errors.NotFound):
        container.remove(force=True, v=True)
