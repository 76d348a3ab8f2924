"""The host engine: the commands of a run straight on this machine, in a session and a Ray directory of their own."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ci.engines import processes, stacks
from ci.engines.engine import Command
from ci.engines.owner import OWNER_VARIABLE, RUN_VARIABLE, Owner
from ci.errors import ConfigError
from ci.images.drift import differences, installed
from ci.images.identity import Identity, inside_image
from ci.plan import EngineName, Plan

_LAUNCH = Path(__file__).with_name("launch.py")
_CHUNK_BYTES = 1 << 20
_RAY_DIRECTORY = "verl-e2e."
_RAY_DIRECTORY_LIMIT = 42
"""A Unix socket's path has 107 bytes at most; ``/ray/session_<date>_<time>_<pid>/sockets/plasma_store`` are 65."""
_OWNER_FILE = "owner"
_FOREIGN = ("RAY_ADDRESS", "RAY_NAMESPACE", "RAY_JOB_ID")
"""Variables of the caller that would tie the run to a Ray cluster that is not its own."""
_VISIBLE_DEVICES = {"cuda": "CUDA_VISIBLE_DEVICES", "npu": "ASCEND_RT_VISIBLE_DEVICES"}


@dataclass(kw_only=True)
class HostExecution:
    """A command in a session of its own on this machine."""

    process: subprocess.Popen[bytes]
    run_id: str
    before: set[psutil.Process]
    """Children this process had before the run: none of the run's."""
    survivors: set[psutil.Process] = field(default_factory=set)
    known: set[psutil.Process] = field(default_factory=set)

    def output(self) -> Iterator[bytes]:
        """Yield what the command and everything below it write."""
        stream = self.process.stdout
        if stream is None:
            return
        with stream:
            while chunk := os.read(stream.fileno(), _CHUNK_BYTES):
                yield chunk

    def poll(self) -> int | None:
        """Return the exit code, 128 + N for signal N, or None while it runs."""
        processes.reap(self.before, {self.process.pid})
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def stacks(self, *, stop: Callable[[], bool]) -> str:
        """Return the Python stacks of the whole tree."""
        return stacks.of(self._family(), stop=stop)

    def end(self) -> None:
        """End the whole tree, and collect what it leaves."""
        self.survivors = processes.end(self._family, between=self._collect)

    def _collect(self) -> None:
        self.process.poll()
        processes.reap(self.before, {self.process.pid})

    def _family(self) -> set[psutil.Process]:
        adopted = {process for process in processes.children() - self.before if processes.living({process})}
        self.known |= processes.of_run(self.run_id, also=adopted)
        self.known = processes.living(self.known)
        return self.known


@dataclass(kw_only=True)
class HostWorkspace:
    """The Ray directory and the environment of one run on this machine."""

    run_id: str
    environment: dict[str, str]
    before: set[psutil.Process]
    reaped: tuple[str, ...]
    inside: Identity | None
    """The image that this machine was started from, where the plan counts on it."""
    image_digest: str | None = None
    executions: list[HostExecution] = field(default_factory=list)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the orphans reaped before, and the processes that could not be ended."""
        survivors = {process for execution in self.executions for process in execution.survivors}
        left = tuple(f"could not be ended: {processes.describe(process)}" for process in processes.living(survivors))
        return (*self.reaped, *left)

    def drift(self) -> tuple[str, ...]:
        """Compare this machine's packages with those its image was built with."""
        return () if self.inside is None else differences(self.inside.versions, installed(self.environment))

    def start(self, command: Command) -> HostExecution:
        """Start a command that dies with this process."""
        # The kernel ties the child to the thread that starts it, so this must be one that lasts: the main thread.
        process = subprocess.Popen(
            (sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), *command.argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment | dict(command.environment),
            cwd=command.working_directory,
            start_new_session=True,
        )
        if process.stdout is not None:
            with contextlib.suppress(OSError):  # an unprivileged user may be over the system's limit for pipes
                fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _CHUNK_BYTES)
        execution = HostExecution(process=process, run_id=self.run_id, before=self.before)
        self.executions.append(execution)
        return execution


@dataclass(frozen=True, kw_only=True)
class HostEngine:
    """Start commands straight on this machine."""

    name: EngineName = "host"

    @contextlib.contextmanager
    def open(
        self,
        plan: Plan,
        *,
        run_id: str,
        directory: Path,  # noqa: ARG002  # a container has to mount it, here it is simply there
        devices: tuple[int, ...],
        stop: Callable[[], bool],  # noqa: ARG002  # nothing here takes long
    ) -> Iterator[HostWorkspace]:
        """Reap dead owners' processes and Ray directories, then give the run its own."""
        reaped = _reap()
        with processes.adopting_orphans(), _ray_directory(keep=plan.keep) as ray_directory:
            environment = {key: value for key, value in os.environ.items() if key not in _FOREIGN}
            environment |= plan.environment
            environment |= {
                RUN_VARIABLE: run_id,
                OWNER_VARIABLE: Owner.current().text,
                "RAY_TMPDIR": str(ray_directory),
            }
            if devices and (visible := _VISIBLE_DEVICES.get(plan.target)):
                environment[visible] = ",".join(map(str, devices))
                # Otherwise CUDA counts the fastest device first, and the leased ids are nvidia-smi's.
                environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
            workspace = HostWorkspace(
                run_id=run_id,
                environment=environment,
                before=processes.children(),
                reaped=reaped,
                inside=inside_image() if plan.image is not None else None,
            )
            try:
                yield workspace
            finally:
                for execution in workspace.executions:
                    execution.end()


@contextlib.contextmanager
def _ray_directory(*, keep: bool) -> Iterator[Path]:
    """Make a directory short enough for Ray's sockets, that says whose it is."""
    place = _temporary()
    directory = Path(tempfile.mkdtemp(prefix=_RAY_DIRECTORY, dir=place))
    try:
        (directory / _OWNER_FILE).write_text(Owner.current().text, encoding="ascii")
        yield directory
    finally:
        if keep:
            (directory / _OWNER_FILE).unlink(missing_ok=True)
        else:
            _remove(directory)


def _temporary() -> Path:
    candidates = (Path(tempfile.gettempdir()), Path("/tmp"))  # noqa: S108  # mkdtemp makes a private directory in it
    for place in candidates:
        # mkdtemp adds eight characters of its own.
        if len(os.fsencode(place)) + 1 + len(_RAY_DIRECTORY) + 8 <= _RAY_DIRECTORY_LIMIT and os.access(place, os.W_OK):
            return place
    raise ConfigError(
        f"no directory for Ray's sockets: {' and '.join(map(str, candidates))} are too long or not writable",
        hint="set TMPDIR to a writable directory with a short path",
    )


def _reap() -> tuple[str, ...]:
    """End the processes and remove the Ray directories of owners that died; what belongs to the living stays."""
    notes = []
    for run, found in processes.of_dead_owners().items():
        processes.end(functools.partial(processes.of_run, run, also=found))
        notes.append(f"ended {len(found)} processes that run {run} had left behind")
    for directory in _temporary().glob(f"{_RAY_DIRECTORY}*"):
        with contextlib.suppress(OSError):  # somebody else's, or gone meanwhile
            owner = Owner.parse((directory / _OWNER_FILE).read_text(encoding="ascii"))
            if owner is not None and owner.state == "dead":
                _remove(directory)
                notes.append(f"removed the Ray directory {directory} that a dead run had left behind")
    return tuple(notes)


def _remove(directory: Path) -> None:
    # A process that is just ending may still write: once more, then it is left for the next start.
    for _ in range(2):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
