from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ci.devices.probe import Device, ascend_devices, machine_target, nvidia_devices, parse_npu_smi, probe

# The layouts of npu-smi 25.2 on Atlas A2, 24.1 on Atlas A3, and 25.2 on Atlas 300I Duo.
A2 = """
+------------------------------------------------------------------------------------------------+
| npu-smi 25.2.1                   Version: 25.2.1                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 91.0        36                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3401 / 65536         |
+===========================+===============+====================================================+
| 2     910B3               | OK            | 92.3        32                0    / 0             |
| 0                         | 0000:81:00.0  | 0           0    / 0          41052/ 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
| 2       0                 | 1333928       |                          | 37709                   |
+===========================+===============+====================================================+
"""
A3 = """
+------------------------------------------------------------------------------------------------------------------+
| npu-smi 26.0.rc2                            Version: 26.0.rc2                                                    |
+---------------------------+---------------+----------------------------------------------------------------------+
| NPU   Name                | Health        | Power(W)             Temp(C)                 Hugepages-Usage(page)   |
| Chip  Phy-ID              | Bus-Id        | AICore(%)            Memory-Usage(MB)        HBM-Usage(MB)           |
+===========================+===============+======================================================================+
| 0     Ascend910           | OK            | 162.6                34                      0    / 0                |
| 0     0                   | 0000:9D:00.0  | 0                    0    / 0                3419 / 65536            |
+------------------------------------------------------------------------------------------------------------------+
| 0     Ascend910           | OK            | -                    34                      0    / 0                |
| 1     1                   | 0000:9F:00.0  | 0                    0    / 0                2874 / 65536            |
+===========================+===============+======================================================================+
| 5     Ascend910           | OK            | 174.5                51                      0    / 0                |
| 0     10                  | 0000:89:00.0  | 17                   0    / 0                50719/ 65536            |
+------------------------------------------------------------------------------------------------------------------+
| 5     Ascend910           | OK            | -                    50                      0    / 0                |
| 1     11                  | 0000:8B:00.0  | 17                   0    / 0                50242/ 65536            |
+===========================+===============+======================================================================+
+---------------------------+---------------+----------------------------------------------------------------------+
| NPU     Chip              | Process id    | Process name       | Process memory(MB)    | Process id in container |
+===========================+===============+======================================================================+
| No running processes found in NPU 0                                                                              |
+===========================+===============+======================================================================+
| 5       0                 | 632268        | python3.1          | 197                   | NA                      |
| 5       1                 | 632268        | python3.1          | 50119                 | NA                      |
| 5       1                 | 632300        | VLLMWorker_TP      | 122                   | NA                      |
+===========================+===============+======================================================================+
"""
DUO = """
+-------------------------------+-----------------+------------------------------------------------------+
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
+===============================+=================+======================================================+
| 2       310P3                 | OK              | NA           45                0     / 0             |
| 0       0                     | 0000:01:00.0    | 0            1529 / 44280                            |
+-------------------------------+-----------------+------------------------------------------------------+
| 2       310P3                 | OK              | NA           43                0     / 0             |
| 1       1                     | 0000:01:00.0    | 0            1412 / 43693                            |
+===============================+=================+======================================================+
"""
MEBIBYTE = 1024**2


def test_a2_counts_cards() -> None:
    assert parse_npu_smi(A2) == (
        Device(kind="npu", id=0, name="910B3", memory_total=65536 * MEBIBYTE, memory_used=3401 * MEBIBYTE),
        Device(
            kind="npu",
            id=2,
            name="910B3",
            memory_total=65536 * MEBIBYTE,
            memory_used=41052 * MEBIBYTE,
            busy_by=("? (1333928)",),
        ),
    )


def test_a3_counts_chips_by_their_physical_id() -> None:
    devices = parse_npu_smi(A3)
    assert [(device.id, device.free) for device in devices] == [(0, True), (1, True), (10, False), (11, False)]
    assert devices[3].busy_by == ("python3.1 (632268)", "VLLMWorker_TP (632300)")
    assert devices[3].memory_used == 50242 * MEBIBYTE


def test_a_card_without_hbm_tells_its_memory() -> None:
    assert [(device.id, device.memory_total // MEBIBYTE) for device in parse_npu_smi(DUO)] == [(0, 44280), (1, 43693)]


@pytest.mark.parametrize("text", ["", "dcmi module initialize failed. ret is -8005", "| |\n|||\n| 0 | 1 |\n", A2[:700]])
def test_broken_output_is_no_device_and_no_crash(text: str) -> None:
    assert parse_npu_smi(text) == ()


def test_npu_smi_of_the_path_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "npu-smi"
    program.write_text(f"#!/bin/sh\ncat <<'TABLE'\n{A3}\nTABLE\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert len(ascend_devices()) == 4
    assert {device.kind for device in probe()} >= {"npu"}
    if not nvidia_devices():
        assert machine_target() == "npu"
