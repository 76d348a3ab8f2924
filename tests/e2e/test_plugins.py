"""What of the plug-ins needs torch: run by the Python of the rehearsal's environment, which has no pytest."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ci.cache import cache_directory
from ci.plan import Verl
from ci.rehearsal.environment import Environment, ensure_environment
from ci.rehearsal.location import PLUGINS

_DIGESTS = """
import json, torch
from verl_observer import digest
from verl_observer.digest import WeightDigest
torch.manual_seed(0)
digest.PIECE = 64  # so that these tensors come in several pieces
weights = {"a": torch.randn(16, 16), "b": torch.randn(16, 16), "c": torch.randn(33).bfloat16(), "d": torch.tensor(2.0),
           "e": torch.arange(9), "f": torch.tensor([True, False]), "g": torch.empty(0),
           "h": torch.ones(3, dtype=torch.float64)}
def of(weights):
    taken = WeightDigest()
    for name, weight in weights.items():
        taken.add(name, weight)
    assert taken.tensors == len(weights)
    return taken.hexdigest()
def changed(name, change):
    copy = weights[name].clone()
    change(copy.reshape(-1))
    return of({**weights, name: copy})
def swap(flat, i, j):
    flat[[i, j]] = flat[[j, i]]
def swap_pieces(flat):
    flat[:64], flat[64:128] = flat[64:128].clone(), flat[:64].clone()
flipped = weights["a"].clone()
flipped.view(torch.int32)[3, 5] ^= 1
print(json.dumps({
    "same": {
        "again": of(weights),
        "other order": of(dict(reversed(weights.items()))),
        "other memory layout": of({**weights, "a": weights["a"].t().contiguous().t()}),
    },
    "different": {
        "as it is": of(weights),
        "the lowest bit of one element": of({**weights, "a": flipped}),
        "one element of bfloat16": changed("c", lambda flat: flat.__setitem__(32, 9.0)),
        "one element of int64": changed("e", lambda flat: flat.__setitem__(0, 1 << 62)),
        "the sign of one element": of({**weights, "d": torch.tensor(-2.0)}),
        "two elements swapped": changed("a", lambda flat: swap(flat, 0, 1)),
        "two elements of different pieces swapped": changed("a", lambda flat: swap(flat, 0, 200)),
        "two pieces swapped": changed("a", swap_pieces),
        "two tensors swapped": of({**weights, "a": weights["b"], "b": weights["a"]}),
        "a tensor missing": of({name: weight for name, weight in weights.items() if name != "g"}),
        "another name": of({("z" if name == "a" else name): weight for name, weight in weights.items()}),
        "another shape": of({**weights, "a": weights["a"].reshape(-1)}),
        "another dtype": of({**weights, "h": weights["h"].float()}),
    },
}))
"""

_SYNC = """
import asyncio, json, os, sys
import ray, torch
ray.util.get_node_ip_address = lambda: "127.0.0.1"
from verl_rehearsal.checkpoint_engine import GlooCheckpointEngine, Rendezvous
rank = int(sys.argv[1])
engine = GlooCheckpointEngine(bucket_size=300, is_master=rank == 0)
torch.manual_seed(7)
weights = {"a": torch.randn(7, 3).bfloat16(), "b": torch.randn(5), "c": torch.randn(90, 3), "d": torch.tensor(1.5)}
for sync in (1, 2):  # a process group of its own for each
    if rank == 0:
        rendezvous = engine.prepare()
        with open(f"port-{sync}.part", "w") as file:
            file.write(str(rendezvous.port))
        os.rename(f"port-{sync}.part", f"port-{sync}")
    else:
        while not os.path.exists(f"port-{sync}"):
            pass
        rendezvous = Rendezvous("127.0.0.1", int(open(f"port-{sync}").read()), sync)
    engine.init_process_group(rank, 3, rendezvous)
    if rank == 0:
        asyncio.run(engine.send_weights(iter(weights.items()), global_steps=sync))
    else:
        async def receive():
            return {name: weight async for name, weight in engine.receive_weights(global_steps=sync)}
        received = asyncio.run(receive())
        assert list(received) == list(weights)
        assert all(torch.equal(received[name], weights[name]) and received[name].dtype == weights[name].dtype
                   for name in weights), received
    engine.finalize()
print("done")
"""


def _run(argv: Sequence[str], variables: Mapping[str, str]) -> None:
    subprocess.run(argv, check=True, env={**os.environ, **variables}, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def environment() -> Environment:
    return ensure_environment(verl=Verl(kind="release", name="0.9.1"), cache=cache_directory(), run=_run)


def _variables(environment: Environment) -> dict[str, str]:
    path = f"{PLUGINS}:{environment.site}"
    return {
        **os.environ,
        "PYTHONPATH": path,
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "verl_observer,verl_rehearsal",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }


def _printed(environment: Environment, code: str) -> str:
    argv = (environment.python, "-c", code)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=_variables(environment), timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_digest_tells_weights_apart_and_nothing_else(environment: Environment) -> None:
    digests = json.loads(_printed(environment, _DIGESTS))
    assert len(set(digests["same"].values())) == 1, digests["same"]
    assert digests["same"]["again"] == digests["different"]["as it is"]
    by_digest = {digest: what for what, digest in digests["different"].items()}
    assert len(by_digest) == len(digests["different"]), "some change went unseen"


def test_every_rollout_rank_receives_what_was_sent(environment: Environment, tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            (environment.python, "-c", _SYNC, str(rank)),
            cwd=tmp_path, env=_variables(environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(3)
    ]  # fmt: skip
    answers = [rank.communicate(timeout=180) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0], answers
    assert [out.strip().splitlines()[-1] for out, _ in answers] == ["done"] * 3


def test_two_makings_of_the_assets_give_the_same_bytes(environment: Environment, tmp_path: Path) -> None:
    contents = []
    for name in ("first", "second"):
        folder = tmp_path / name
        argv = (str(environment.python), "-m", "verl_rehearsal.assets", str(folder))
        subprocess.run(argv, check=True, env=_variables(environment), capture_output=True, timeout=120)
        contents.append(
            {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        )
    assert contents[0] == contents[1]
    assert {"train.parquet", "test.parquet", "model/model.safetensors", "model/tokenizer.json"} <= set(contents[0])
