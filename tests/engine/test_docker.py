"""What only the Docker engine does: the container's options, and everything an engine can refuse or lose."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest

from ci.engines.accelerators import device_options
from ci.engines.docker import DockerEngine
from ci.engines.engine import Command
from ci.errors import DeviceError, ImageError
from ci.plan import Plan
from tests.engine import python_image
from tests.engine.conftest import Start, marked_processes, traces, until
from tests.engine.plans import fake_image, plan


def _opened(chosen: Plan, directory: Path, *, devices: tuple[int, ...] = ()) -> Any:
    return DockerEngine().open(
        chosen, run_id=f"test-{directory.name}", directory=directory, devices=devices, stop=lambda: False
    )


def _command(*argv: str, directory: Path) -> Command:
    return Command(name="command", argv=argv, environment={}, working_directory=str(directory))


def test_the_container_is_what_the_plan_says(image: str, client: docker.DockerClient, tmp_path: Path) -> None:
    with _opened(plan("passes", image=image), tmp_path) as workspace:
        workspace.start(_command("python3", "-c", "import time; time.sleep(60)", directory=tmp_path))
        (container,) = client.containers.list(filters={"label": f"verl-e2e.run=test-{tmp_path.name}"})
        host, config = container.attrs["HostConfig"], container.attrs["Config"]
        assert config["User"] == f"{os.getuid()}:{os.getgid()}"
        assert host["Init"] is True
        assert host["ShmSize"] == 4 << 30
        assert host["LogConfig"]["Type"] == "none"
        assert config["Labels"]["verl-e2e.scenario"] == "fake"
        assert config["Labels"]["verl-e2e.owner.pid"] == str(os.getpid())
        mounts = {mount["Destination"]: mount for mount in container.attrs["Mounts"]}
        assert mounts[str(tmp_path)]["RW"]
        assert not mounts[str(plan("passes", image=image).mounts[0].path)]["RW"]
        assert mounts["/opt/verl-e2e/py-spy"]["RW"] is False
    assert traces(f"test-{tmp_path.name}", client) == []


def test_what_a_container_writes_belongs_to_the_caller(image: str, tmp_path: Path) -> None:
    with _opened(plan("passes", image=image), tmp_path) as workspace:
        program = f"import pathlib, getpass; pathlib.Path({str(tmp_path / 'made')!r}).write_text(getpass.getuser())"
        execution = workspace.start(_command("python3", "-c", program, directory=tmp_path))
        assert b"".join(execution.output()) == b""
        assert execution.poll() == 0
    assert (tmp_path / "made").stat().st_uid == os.getuid()
    assert (tmp_path / "made").read_text() != ""


@pytest.mark.parametrize("kept", [False, True])
def test_a_container_is_kept_only_when_the_plan_says_so(
    image: str, client: docker.DockerClient, tmp_path: Path, kept: bool
) -> None:
    with _opened(plan("passes", image=image, keep=kept), tmp_path) as workspace:
        execution = workspace.start(_command("python3", "-c", "", directory=tmp_path))
        list(execution.output())
    found = client.containers.list(all=True, filters={"label": f"verl-e2e.run=test-{tmp_path.name}"})
    for container in found:
        container.remove(force=True)
    assert len(found) == int(kept)


def test_ascend_devices_are_passed_by_id(image: str, client: docker.DockerClient, tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for minor, name in enumerate(("davinci2", "davinci5", "davinci_manager", "devmm_svm", "hisi_hdc")):
        os.mknod(tmp_path / "dev" / name, 0o660 | 0o020000, os.makedev(1, 3 + minor * 2))
    (tmp_path / "usr/local/Ascend/driver").mkdir(parents=True)
    (tmp_path / "usr/local/Ascend/driver/version.info").write_text("25.0")
    options = device_options("npu", (2, 5), root=tmp_path)
    look = (
        "import os; print(sorted(n for n in os.listdir('/dev') if n.startswith(('d', 'h')))); print(os.getgroups()); "
    )
    look += "print(open('/usr/local/Ascend/driver/version.info').read())"
    container = client.containers.create(image, entrypoint=["python3"], command=["-c", look], **options)
    try:
        container.start()
        assert container.wait()["StatusCode"] == 0
        output = container.logs().decode()
    finally:
        container.remove(force=True)
    assert "['davinci2', 'davinci5', 'davinci_manager', 'devmm_svm', 'hisi_hdc']" in output
    assert str((tmp_path / "dev/davinci2").stat().st_gid) in output
    assert "25.0" in output


def test_an_npu_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"lacks .*davinci3.*davinci_manager.*Ascend/driver"):
        device_options("npu", (3,), root=tmp_path)


def test_a_missing_nvidia_runtime_is_a_device_failure(
    image: str, engine: str, client: docker.DockerClient, tmp_path: Path
) -> None:
    chosen = plan("passes", image=image, target="cuda", rehearsal=False, devices=2)
    with pytest.raises(DeviceError) as caught, _opened(chosen, tmp_path, devices=(1, 3)) as workspace:
        workspace.start(_command("python3", "-c", "", directory=tmp_path))
    if engine == "docker":
        assert "the engine has no NVIDIA runtime" in str(caught.value)
        assert "nvidia-ctk" in str(caught.value.hint)
    else:
        assert "podman passes no NVIDIA device" in str(caught.value)
    assert traces(f"test-{tmp_path.name}", client) == []


def test_an_image_that_is_not_here(start: Start) -> None:
    driver = start(plan("passes", image="verl-e2e-test:never-built"))
    assert driver.wait() == 12
    assert (driver.record.status, driver.record.failure_class) == ("error", "image")
    assert "the image verl-e2e-test:never-built is not here" in str(driver.record.message)
    assert "inv images.build" in str(driver.record.hint)


def test_an_image_that_is_not_the_pinned_one(image: str, tmp_path: Path) -> None:
    pinned = fake_image(image, digest=f"sha256:{'0' * 64}")
    chosen = plan("passes", image=image).model_copy(update={"image": pinned})
    with pytest.raises(ImageError, match="is not the one that is pinned"), _opened(chosen, tmp_path):
        pass


def test_a_program_that_the_image_lacks(start: Start, image: str, client: docker.DockerClient) -> None:
    driver = start(plan("passes", image=image, launcher=("no-such-python",)))
    assert driver.wait() == 12, driver.terminal
    assert driver.record.failure_class == "image"
    # podman's init does not say which program it could not start
    assert "no-such-python" in str(driver.record.message) or "failed to exec pid1" in str(driver.record.message)
    assert traces(driver.record.id, client) == []


def test_a_command_that_replaces_a_package_of_the_image(start: Start, image: str) -> None:
    driver = start(plan("replaces_a_package", image=image))
    assert driver.wait() == 12, driver.terminal
    assert (driver.record.status, driver.record.failure_class) == ("failed", "image")
    assert "changed 1 package of the image fake\n  - torch: absent → 9.0" in str(driver.record.message)


def test_no_engine_at_all(start: Start, tmp_path: Path) -> None:
    socket = f"unix://{tmp_path}/docker.sock"
    driver = start(plan("passes", image="x"), environment={"DOCKER_HOST": socket})
    assert driver.wait() == 12
    assert f"no Docker engine answers at {socket}" in str(driver.record.message)


@dataclass(kw_only=True)
class Daemon:
    """A dockerd of the test's own, that may be killed."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/docker.sock"

    def start(self) -> docker.DockerClient:
        # In a network of its own: a second dockerd takes the first one's bridge away.
        command = ["unshare", "--net", "dockerd", "--host", self.address, "--data-root", str(self.folder / "data")]
        command += ["--exec-root", str(self.folder / "exec"), "--pidfile", str(self.folder / "pid")]
        command += ["--bridge", "none", "--iptables=false", "--ip6tables=false"]
        with (self.folder / "dockerd.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

        def answers() -> bool:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as knock:
                knock.connect(str(self.folder / "docker.sock"))
                return True
            return False

        until(answers, seconds=60)
        return docker.DockerClient(base_url=self.address)

    def kill(self) -> None:
        """Kill it together with its containerd, as a crash of the whole service does."""
        assert self.process is not None
        helpers = psutil.Process(self.process.pid).children(recursive=True)
        for process in (psutil.Process(self.process.pid), *helpers):
            process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)
        for process in psutil.process_iter(["cmdline"]):
            if str(self.folder) in " ".join(process.info["cmdline"] or ()) and process.pid != os.getpid():
                process.kill()
        mounts = Path("/proc/self/mounts").read_text().split("\n")
        for mount in reversed([line.split()[1] for line in mounts if str(self.folder) in line]):
            subprocess.run(["umount", "--lazy", mount], check=False)


@pytest.fixture
def own_daemon() -> Iterator[Daemon]:
    folder = Path(f"/tmp/verl-e2e-dockerd-{os.getpid()}")  # a socket's path must be short
    folder.mkdir()
    daemon = Daemon(folder=folder)
    yield daemon
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)


def test_an_engine_killed_in_the_middle_of_a_run(own_daemon: Daemon, start: Start) -> None:
    client = own_daemon.start()
    try:
        python_image.build(client, "verl-e2e-test", "own")
        environment = {"DOCKER_HOST": own_daemon.address}
        driver = start(plan("chats", image="verl-e2e-test:own"), environment=environment)
        until(lambda: "still training" in driver.terminal)
        run_id = driver.directory.name
        own_daemon.kill()
        assert driver.wait(30) == 12, driver.terminal
        assert (driver.record.status, driver.record.failure_class) == ("failed", "image")
        assert "the run was lost in its middle: the engine did not answer" in str(driver.record.message)
        assert driver.console.rstrip().endswith("still training")
        assert "│ still training" in driver.terminal
        assert marked_processes(run_id) == [], "its processes are ended even so"
        client.close()
        client = own_daemon.start()
        assert len(client.containers.list(all=True)) == 1
        second = start(plan("passes", image="verl-e2e-test:own"), environment=environment)
        assert second.wait() == 0, second.terminal
        assert client.containers.list(all=True) == []
    finally:
        client.close()


def test_a_run_is_cancelled_while_its_engine_is_stopped(own_daemon: Daemon, start: Start) -> None:
    client = own_daemon.start()
    python_image.build(client, "verl-e2e-test", "own")
    client.close()
    driver = start(plan("chats", image="verl-e2e-test:own"), environment={"DOCKER_HOST": own_daemon.address})
    until(lambda: "still training" in driver.terminal)
    assert own_daemon.process is not None
    own_daemon.process.send_signal(signal.SIGSTOP)
    try:
        driver.send(signal.SIGINT)
        assert driver.wait(30) == 130
        assert driver.record.status == "cancelled"
        assert marked_processes(driver.record.id) == []
    finally:
        own_daemon.process.send_signal(signal.SIGCONT)
