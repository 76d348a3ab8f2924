"""Look, from inside an image, at what images.yaml demands. Runs in the image's own Python, on nothing but that."""

import importlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

MARK = "verl-e2e-probe "
_IDENTITY = Path("/etc/verl-e2e/image.json")
_WORKER = """
import importlib, json, sys
import ray

@ray.remote
def problems(modules):
    found = {}
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            found[module] = f"{type(error).__name__}: {error}"
    return found

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
print("\\n" + sys.argv[1] + json.dumps(ray.get(problems.remote(sys.argv[2:]))))
"""


def main(words: Sequence[str]) -> None:
    """Print what was found as JSON, on a line of its own."""
    holds = json.loads(words[0])
    versions = {found.metadata["Name"]: found.version for found in importlib.metadata.distributions()}
    problems = [
        *_identity(versions),
        *_user(),
        *_folders(),
        *_caches(),
        *_programs(holds["programs"]),
        *_versions(holds["versions"]),
        *_twice(),
        *_imports(holds["imports"]),
        *_workers(holds["worker_imports"]),
    ]
    print(f"\n{MARK}{json.dumps({'problems': problems, 'versions': versions})}", flush=True)


def _identity(versions: Mapping[str, str]) -> Iterator[str]:
    try:
        identity = json.loads(_IDENTITY.read_text(encoding="utf-8"))
        at_build = identity["versions"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield f"identity: {_IDENTITY} does not say which image this is ({error})"
        return
    for name in sorted({*at_build, *versions}):
        before, now = at_build.get(name, "absent"), versions.get(name, "absent")
        if before != now:
            yield f"identity: {name} was {before} when the image was built, and is {now}"


def _user() -> Iterator[str]:
    if os.getuid() == 0:
        yield "user: the image starts as root"


def _folders() -> Iterator[str]:
    for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if folder and not Path(folder).is_dir():
            yield f"PYTHONPATH: there is no {folder}"


def _caches() -> Iterator[str]:
    """Name caches: nobody keeps them equal to a lock, and jobs that move UV_CACHE_DIR pass them by."""
    homes = {"/root", os.environ.get("HOME", "/root")}
    found = [Path(home, ".cache", tool) for home in sorted(homes) for tool in ("uv", "pip")]
    if moved := os.environ.get("UV_CACHE_DIR"):
        found.append(Path(moved))
    for folder in found:
        try:
            full = folder.is_dir() and any(folder.iterdir())
        except PermissionError:
            continue  # another user's home, which this one cannot use either
        if full:
            yield f"cache: {folder} was left in the image, and nothing keeps it equal to a lock"


def _programs(wanted: Sequence[str]) -> Iterator[str]:
    for program in wanted:
        if shutil.which(program) is None:
            yield f"program: there is no {program} on PATH"


def _versions(wanted: Mapping[str, str]) -> Iterator[str]:
    for package, version in wanted.items():
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            yield f"package: {package} {version} is missing"
            continue
        if found.split("+")[0] != version:
            yield f"version: {package} is {found}, not {version}"


def _twice() -> Iterator[str]:
    """Name packages that were installed over each other: which of the two is imported is chance."""
    names = Counter(found.metadata["Name"].lower().replace("_", "-") for found in importlib.metadata.distributions())
    for name, count in names.items():
        if count > 1:
            yield f"package: {name} is installed {count} times"


def _imports(modules: Sequence[str]) -> Iterator[str]:
    for name in modules:
        try:
            module = importlib.import_module(name)
        except Exception as error:  # noqa: BLE001  # whatever a module raises, the image cannot import it
            yield f"import: {name}: {type(error).__name__}: {error}"
            continue
        # What is imported can be another copy than the one whose version was read.
        claimed = getattr(module, "__version__", None)
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if isinstance(claimed, str) and claimed.split("+")[0] != installed.split("+")[0]:
            yield f"import: {name} says {claimed}, and {installed} is what is installed"


def _workers(modules: Sequence[str]) -> Iterator[str]:
    """Import in a Ray worker: it does not inherit the driver's PYTHONPATH, so it is started without."""
    if not modules:
        return
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", _WORKER, MARK, *modules],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        yield f"ray: no worker could be asked: {last}"
        return
    for module, error in json.loads(lines[-1][len(MARK) :]).items():
        yield f"ray worker: {module}: {error}"


if __name__ == "__main__":
    main(sys.argv[1:])
