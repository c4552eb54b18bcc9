"""What /proc and the cgroups say, with folders in their place: version 1, version 2, a container, nothing at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from eroica_otel.hardware.host import free_memory_bytes, process_state, run_delay_ns, throttled_ns

PID = 42
MIB = 1 << 20


class Machine:
    """Folders that stand for /proc and /sys."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.cgroups = self.sys / "fs" / "cgroup"

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def process(self, name: str, text: str) -> None:
        self.write(self.proc / str(PID) / name, text)

    def memory(self, mib: int) -> None:
        self.write(self.proc / "meminfo", f"MemTotal: 99 kB\nMemAvailable: {mib * 1024} kB\nHugePages_Total: 0\n")

    def throttled(self) -> dict[str, int]:
        """Return what each cgroup tells, by its path below the mount."""
        found = throttled_ns(PID, self.proc, self.sys)
        return {path.removeprefix(str(self.cgroups)): value for path, value in found.items()}

    def free(self) -> int | None:
        return free_memory_bytes(PID, self.proc, self.sys)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def v2(machine: Machine, path: str, **files: str) -> None:
    for name, text in files.items():
        controller, _, rest = name.partition("_")
        machine.write(machine.cgroups / path / f"{controller}.{rest}", text)


def test_the_run_delay_is_the_second_number_of_the_threads_schedstat(machine: Machine) -> None:
    machine.process("task/43/schedstat", "900 12345 7\n")
    assert run_delay_ns(PID, 43, machine.proc) == 12345


@pytest.mark.parametrize("text", ["", "900\n", "a b c\n"])
def test_a_schedstat_of_another_form_is_none(text: str, machine: Machine) -> None:
    assert run_delay_ns(PID, 43, machine.proc) is None
    machine.process("task/43/schedstat", text)
    assert run_delay_ns(PID, 43, machine.proc) is None


@pytest.mark.parametrize("name", ["python", "a) T (b", "evil) R 1"])
def test_the_state_comes_after_the_name_whatever_the_name(name: str, machine: Machine) -> None:
    machine.process("stat", f"{PID} ({name}) S 1 2 3\n")
    assert process_state(PID, machine.proc) == "S"


@pytest.mark.parametrize("text", [None, "", "42 (python"])
def test_a_process_that_is_gone_has_no_state(text: str | None, machine: Machine) -> None:
    if text is not None:
        machine.process("stat", text)
    assert process_state(PID, machine.proc) is None
    assert process_state(PID + 1, machine.proc) is None


def test_v2_the_own_cgroup_was_throttled(machine: Machine) -> None:
    machine.process("cgroup", "0::/kubepods/pod1/container\n")
    v2(machine, "kubepods/pod1/container", cpu_stat="usage_usec 5\nnr_throttled 2\nthrottled_usec 70\n")
    assert machine.throttled() == {"/kubepods/pod1/container": 70_000}


def test_v2_each_cgroup_around_it_tells_of_itself(machine: Machine) -> None:
    machine.process("cgroup", "0::/slurm/job_1/step_0\n")
    v2(machine, "slurm/job_1/step_0", cpu_stat="throttled_usec 0\n")
    v2(machine, "slurm/job_1", cpu_stat="throttled_usec 90\n")
    v2(machine, "", cpu_stat="usage_usec 5\n")
    assert machine.throttled() == {"/slurm/job_1/step_0": 0, "/slurm/job_1": 90_000}


def test_v2_a_container_sees_its_root_only_whatever_its_path(machine: Machine) -> None:
    machine.process("cgroup", "0::/../../kubepods/pod1\n")
    v2(machine, "", cpu_stat="throttled_usec 3\n")
    machine.write(machine.cgroups.parent.parent / "kubepods" / "pod1" / "cpu.stat", "throttled_usec 999\n")
    assert machine.throttled() == {"": 3_000}


def test_v1_throttled_time_is_in_nanoseconds(machine: Machine) -> None:
    machine.process("cgroup", "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n1:name=systemd:/\n")
    machine.write(machine.cgroups / "cpu,cpuacct" / "docker" / "x" / "cpu.stat", "nr_periods 1\nthrottled_time 555\n")
    assert machine.throttled() == {"/cpu,cpuacct/docker/x": 555}


def test_v1_inside_a_container_the_path_does_not_exist(machine: Machine) -> None:
    machine.process("cgroup", "3:cpu,cpuacct:/docker/x\n")
    machine.write(machine.cgroups / "cpu" / "cpu.stat", "throttled_time 555\n")
    assert machine.throttled() == {"/cpu": 555}


@pytest.mark.parametrize("text", [None, "", "nonsense\n", "0::/\n", "0:/\n\n"])
def test_without_a_controller_throttling_is_not_known_which_is_not_zero(text: str | None, machine: Machine) -> None:
    if text is not None:
        machine.process("cgroup", text)
    assert machine.throttled() == {}


def test_v2_free_memory_is_the_least_room_on_the_way_up_and_of_the_machine(machine: Machine) -> None:
    machine.memory(1000)
    machine.process("cgroup", "0::/job/step\n")
    assert machine.free() == 1000 * MIB
    v2(machine, "job/step", memory_max="max\n", memory_current=f"{5 * MIB}\n")
    assert machine.free() == 1000 * MIB
    v2(machine, "job", memory_max=f"{300 * MIB}\n", memory_current=f"{100 * MIB}\n")
    assert machine.free() == 200 * MIB
    v2(machine, "job/step", memory_max=f"{50 * MIB}\n", memory_current=f"{5 * MIB}\n")
    assert machine.free() == 45 * MIB
    machine.memory(10)
    assert machine.free() == 10 * MIB


def test_v2_file_cache_that_the_kernel_drops_on_demand_is_free(machine: Machine) -> None:
    """A training that has read its data has filled its cgroup with cache: without this no window would fit."""
    machine.memory(1000)
    machine.process("cgroup", "0::/\n")
    v2(machine, "", memory_max=f"{300 * MIB}\n", memory_current=f"{300 * MIB}\n",
       memory_stat=f"anon {90 * MIB}\nfile {210 * MIB}\ninactive_file {200 * MIB}\n")  # fmt: skip
    assert machine.free() == 200 * MIB


def test_v1_free_memory(machine: Machine) -> None:
    machine.memory(1000)
    machine.process("cgroup", "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n")
    folder = machine.cgroups / "memory" / "docker" / "x"
    machine.write(folder / "memory.limit_in_bytes", str(80 * MIB))
    machine.write(folder / "memory.usage_in_bytes", str(60 * MIB))
    assert machine.free() == 20 * MIB
    machine.write(folder / "memory.stat", f"cache 7\ntotal_inactive_file {30 * MIB}\n")
    assert machine.free() == 50 * MIB
    machine.write(folder / "memory.limit_in_bytes", "9223372036854771712")  # its word for none
    assert machine.free() == 1000 * MIB


def test_more_in_use_than_allowed_leaves_nothing(machine: Machine) -> None:
    machine.process("cgroup", "0::/\n")
    v2(machine, "", memory_max="10\n", memory_current="20\n")
    assert machine.free() == 0


def test_nothing_readable_is_none(machine: Machine) -> None:
    assert machine.free() is None


def test_the_real_machine_answers_for_this_process() -> None:
    delay = run_delay_ns(os.getpid(), threading.get_native_id())
    assert delay is None or delay >= 0
    assert process_state(os.getpid()) == "R"
    free = free_memory_bytes(os.getpid())
    assert free is not None
    assert free > 0
