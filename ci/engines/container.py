"""One command in a container: its output, its end, and how its engine can be lost on the way."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import docker.errors
import psutil
from docker.utils.socket import frames_iter

from ci.engines import daemon, processes, stacks
from ci.engines.engine import KILL_GRACE_S, TERMINATE_GRACE_S
from ci.errors import ImageError

_HEARTBEAT_S = 2.0
_LOST_AFTER_S = 10.0
"""How long the engine may be out of reach, for a restart that keeps containers alive, before the run is given up."""
_RETRY_S = 0.2


@dataclass(kw_only=True)
class ContainerExecution:
    """A command in a container that was created, attached to and started."""

    identifier: str
    """The container's id."""
    client: docker.DockerClient
    quick: docker.DockerClient
    """A client whose requests end soon, for questions after the state."""
    run_id: str
    py_spy: str
    """Where the container finds py-spy."""
    notes: list[str] = field(default_factory=list)
    lost: bool = False
    """The engine did not answer when the container was to be ended."""
    _stream: Any = None
    _stream_ended: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _asked: float = 0.0
    _unreachable_since: float | None = None
    _was_unreachable: bool = False

    def attach(self) -> None:
        """Take the container's output from here on."""
        self.close()
        self._stream = self.client.api.attach_socket(self.identifier, params={"stdout": 1, "stderr": 1, "stream": 1})
        self._stream_ended.clear()

    def output(self) -> Iterator[bytes]:
        """Yield what the container writes; a stream that ends while it runs is taken up again."""
        while True:
            with contextlib.suppress(OSError, ValueError):  # how a stream ends when its engine goes away
                for _, chunk in frames_iter(self._stream, tty=False):  # type: ignore[no-untyped-call]  # by types-docker
                    yield chunk
            self._stream_ended.set()
            while True:
                # The stream of an exited container ends a moment before its state says so.
                if self._over.wait(_RETRY_S):
                    return
                with contextlib.suppress(*daemon.Errors):
                    if not self._state()["Running"]:
                        return
                    self.attach()
                    break

    def poll(self) -> int | None:
        """Return the exit code, or None while the container runs.

        Raises:
            ImageError: the engine was out of reach for too long, or the container is gone.
        """
        now = time.monotonic()
        if not self._stream_ended.is_set() and now - self._asked < _HEARTBEAT_S:
            return None
        self._asked = now
        try:
            state = self._state()
        except docker.errors.NotFound as error:
            raise self._lost("its container was removed by somebody else") from error
        except daemon.Errors as error:
            self._was_unreachable = True
            self._unreachable_since = self._unreachable_since or now
            if now - self._unreachable_since < _LOST_AFTER_S:
                return None
            raise self._lost(f"the engine did not answer for {_LOST_AFTER_S:.0f} s ({error})") from error
        self._unreachable_since = None
        if state["Running"] or state["Status"] == "created":
            return None
        if state.get("OOMKilled"):
            self.notes.append("the kernel killed a process of the container for want of memory")
        code = int(state["ExitCode"])
        if code != 0 and self._was_unreachable:
            raise self._lost("the engine was restarted, and ended the container")
        return code

    def stacks(self, *, stop: Callable[[], bool]) -> str:
        """Return the Python stacks of the container's processes, seen from this machine or from inside."""
        found = processes.of_run(self.run_id)
        if not found:
            return "no process of the container can be seen from here: the engine runs on another machine\n"
        return stacks.of(found, stop=stop, fallback=self._stack_from_inside)

    def end(self) -> None:
        """Send SIGTERM and, after a short grace, SIGKILL; without an engine, to the processes themselves."""
        if self._over.is_set():
            return
        try:
            if self._running():
                self._kill(signal.SIGTERM)
                if not self._exits_within(TERMINATE_GRACE_S):
                    self._kill(signal.SIGKILL)
                    self._exits_within(KILL_GRACE_S)
        except daemon.Errors:
            self.lost = True
            survivors = processes.end(lambda: processes.of_run(self.run_id))
            self.notes.append("the engine did not answer when the container was ended: the next start removes it")
            self.notes += [f"could not be ended: {processes.describe(process)}" for process in survivors]
        self._over.set()

    def close(self) -> None:
        """Give the connection of the output back."""
        # The SDK keeps the answer it took the socket from; only closing that one closes the connection.
        response = getattr(self._stream, "_response", None)
        if response is not None:
            response.close()

    def _kill(self, number: signal.Signals) -> None:
        with contextlib.suppress(docker.errors.NotFound):
            try:
                self.quick.api.kill(self.identifier, int(number))
            except docker.errors.APIError as error:
                # Answered for a container that has just ended by itself.
                if error.status_code != 409 and "is not running" not in str(error):  # noqa: PLR2004
                    raise

    def _exits_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._running():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def _running(self) -> bool:
        try:
            return bool(self._state()["Running"])
        except docker.errors.NotFound:
            return False

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.quick.api.inspect_container(self.identifier)["State"]
        return state

    def _stack_from_inside(self, process: psutil.Process) -> str:
        """Let py-spy look as root inside the container, where this user may not look from outside."""
        try:
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8", errors="replace")
            inside = next(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:"))
            command = [self.py_spy, "dump", "--pid", inside]
            execution = self.client.api.exec_create(self.identifier, command, privileged=True, user="0:0")["Id"]
            output = self.client.api.exec_start(execution)
            code = self.client.api.exec_inspect(execution)["ExitCode"]
        except daemon.Errors as error:
            message = f"the engine did not run py-spy in the container: {error}"
            raise OSError(message) from error
        text = output.decode(errors="replace").strip()
        if code != 0:
            raise OSError(text.splitlines()[-1] if text else f"py-spy ended with exit code {code}")
        return text

    def _lost(self, why: str) -> ImageError:
        return ImageError(
            f"the run was lost in its middle: {why}",
            hint="the log up to then is kept; see the engine's own log (`journalctl -u docker`), and start again",
        )
