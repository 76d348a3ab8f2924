from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ci.rehearsal.torch_index import cpu_torch_index


class _Index(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        content = (
            b'<a href="torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl">' if self.path == "/cpu/torch/" else b"sign in"
        )
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Stay quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Index) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_an_index_that_answers_is_used(server: str) -> None:
    assert cpu_torch_index({}, url=f"{server}/cpu") == f"{server}/cpu"


def test_a_page_without_torch_is_not_an_index(server: str) -> None:
    assert cpu_torch_index({}, url=f"{server}/portal") is None


def test_a_silent_index_costs_two_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        assert cpu_torch_index({}, url=f"http://127.0.0.1:{silent.getsockname()[1]}") is None
        assert time.monotonic() - start < 3


@pytest.mark.parametrize("variable", ["PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"])
def test_the_callers_own_sources_come_first(server: str, variable: str) -> None:
    assert cpu_torch_index({variable: "somewhere"}, url=f"{server}/cpu") is None
