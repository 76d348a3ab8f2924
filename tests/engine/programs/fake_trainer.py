"""Stands in for verl's trainer: it writes the console lines and events of a real one, and misbehaves as its name says.

Only the standard library, so that any Python starts it: `python -m fake_trainer BEHAVIOUR [ARGUMENT]`.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time


def emit(**event: object) -> None:
    with pathlib.Path(os.environ["VERL_E2E_EVENTS"]).open("a") as file:
        file.write(json.dumps({"time": time.time(), "pid": os.getpid(), **event}) + "\n")


def weights(version: int, *, sent: str = "abc", received: str = "abc") -> None:
    emit(event="weights", side="trainer", version=version, digest=sent, tensors=26, kind="checkpoint_engine")
    emit(event="weights", side="rollout", version=version, digest=received, tensors=26, kind="checkpoint_engine")


def step(number: int, **metrics: float) -> None:
    print(f"step:{number} - actor/grad_norm:0.5")
    emit(event="metrics", step=number, metrics={"actor/grad_norm": 0.5, "perf/total_num_tokens": 100, **metrics})


def passes() -> None:
    emit(event="stage", name="loading")
    weights(0)
    for number in (1, 2):
        step(number)
        weights(number, sent=f"abc{number}", received=f"abc{number}")
    sys.stdout.write("the last line has no end")


def replaces_a_package() -> None:
    pathlib.Path("/tmp/lib/site-packages/torch-9.0.dist-info").mkdir(parents=True)
    passes()


def fails() -> None:
    print("Traceback (most recent call last):")
    print('  File "trainer.py", line 1, in <module>')
    print("ValueError: batch of 3 for 2 ranks")
    sys.exit(3)


def does_nothing() -> None:
    print("nothing to do")


def reports_nan() -> None:
    weights(0)
    weights(1)
    step(1)
    step(2, **{"actor/grad_norm": float("nan")})


def unequal() -> None:
    weights(0)
    weights(1, sent="abc", received="abd")
    step(1)
    step(2)


def rollout_raises() -> None:
    emit(event="stage", name="training")
    emit(event="rollout_error", error="ValueError: the server cannot sample")
    while True:
        print("retrying")
        time.sleep(0.1)


def hangs() -> None:
    def complain(_number: int, _frame: object) -> None:
        print("noise of being ended", flush=True)
        sys.exit(1)

    signal.signal(signal.SIGTERM, complain)
    print("waiting for a collective", flush=True)
    wait_for_a_rank_that_never_comes()


def wait_for_a_rank_that_never_comes() -> None:
    while True:
        time.sleep(60)


def prints(megabytes: str) -> None:
    line = b"x" * 1023 + b"\n"
    for _ in range(int(megabytes)):
        sys.stdout.buffer.write(line * 1024)
    sys.stdout.buffer.write(b"y" * (8 << 20))
    sys.stdout.buffer.write(b"\nthe end of the log\n")
    sys.stdout.buffer.flush()
    passes()


def chats() -> None:
    """Train for ever, as a run that is cancelled does."""
    while True:
        print("still training", flush=True)
        time.sleep(0.05)


def scatters(folder: str) -> None:
    """Train for ever, with processes that leave the group, the session and the environment, and ignore SIGTERM."""
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True, stdin=subprocess.DEVNULL)
    subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True, env={}, stdin=subprocess.DEVNULL)
    daemon = (
        f"import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', {stubborn!r}], start_new_session=True)"
    )
    subprocess.run([sys.executable, "-c", daemon], check=True, stdin=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-c", daemon], check=True, env={}, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "RAY_TMPDIR" in os.environ:
        (pathlib.Path(os.environ["RAY_TMPDIR"]) / "ray" / "session").mkdir(parents=True)
    time.sleep(0.3)
    (pathlib.Path(folder) / "scattered").touch()
    chats()


def creates(path: str) -> None:
    print("making data")
    pathlib.Path(path).write_text(os.environ.get("MARK", "made"))


def creates_nothing(_path: str) -> None:
    print("making no data")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
