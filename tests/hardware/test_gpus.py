"""Which GPUs a process trains on, from an object with torch.cuda's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eroica_otel.hardware.gpus import NO_GPU, PART, UNKNOWN, Gpu, current_gpu, gpus_of, unreadable
from factories_hardware import Tree

UUIDS = tuple(f"{n}{n}{n}{n}{n}{n}{n}{n}-aaaa-bbbb-cccc-dddddddddddd" for n in range(4))
INFORMATION = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 100\nGPU UUID: \t {uuid}\nBus Location: \t {address}\n"


@dataclass
class Cuda:
    """torch.cuda of a process that sees ``devices``; ``current`` is the calling thread's, ``held`` bytes by device."""

    devices: list[SimpleNamespace]
    current: int = 0
    held: Mapping[int, int] = field(default_factory=dict)
    initialized: bool = True
    allocator: str = "native"

    def is_initialized(self) -> bool:
        return self.initialized

    def current_device(self) -> int:
        return self.current

    def device_count(self) -> int:
        return len(self.devices)

    def get_allocator_backend(self) -> str:
        return self.allocator

    def memory_reserved(self, number: int) -> int:
        return self.held.get(number, 0)

    def get_device_properties(self, number: int) -> SimpleNamespace:
        return self.devices[number]


def device(number: int, **changes: Any) -> SimpleNamespace:
    usual: dict[str, Any] = {
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": UUIDS[number],
        "pci_domain_id": 0,
        "pci_bus_id": 0x83 + number,
        "pci_device_id": 0,
    }
    return SimpleNamespace(**{name: value for name, value in (usual | changes).items() if value is not None})


def gpu(number: int) -> Gpu:
    return Gpu(f"GPU-{UUIDS[number]}", f"0000:{0x83 + number:02x}:00.0", f"GPU-{UUIDS[number]}")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def found(tree: Tree, cuda: Any, **environment: str) -> tuple[Gpu, ...]:
    return gpus_of(cuda, environment, current_gpu(cuda), tree.proc, tree.sys)


def test_the_calling_threads_gpu_is_this_processs_whatever_number_cuda_gives_it(tree: Tree) -> None:
    cuda = Cuda([device(2), device(3)], current=1, held={1: 1 << 30})
    assert found(tree, cuda, CUDA_VISIBLE_DEVICES="2,3") == (gpu(3),)
    assert unreadable(found(tree, cuda)) == ""


def test_a_process_with_several_gpus_has_all_that_it_holds_memory_on_its_own_first(tree: Tree) -> None:
    devices = [device(n) for n in range(4)]
    assert found(tree, Cuda(devices, current=2, held={0: 1, 2: 1, 3: 1})) == (gpu(2), gpu(0), gpu(3))
    # A training that says .to("cuda:3") and never makes it the current one.
    assert found(tree, Cuda(devices, current=0, held={3: 1})) == (gpu(3),)
    assert found(tree, Cuda(devices, current=1)) == (gpu(1),)


def test_an_allocator_that_would_ask_cuda_is_not_asked(tree: Tree) -> None:
    class Asking(Cuda):
        def memory_reserved(self, number: int) -> int:
            raise AssertionError("asked")

    devices = [device(n) for n in range(2)]
    assert found(tree, Asking(devices, current=1, allocator="cudaMallocAsync")) == (gpu(1),)


def test_an_allocator_that_does_not_tell_leaves_the_current_device(tree: Tree) -> None:
    class Silent(Cuda):
        def memory_reserved(self, number: int) -> int:
            raise RuntimeError("this allocator does not support memory statistics")

    assert found(tree, Silent([device(0), device(1)], current=1)) == (gpu(1),)


def test_cuda_is_never_initialised_and_torch_never_imported(tree: Tree) -> None:
    assert found(tree, None) == ()
    assert found(tree, Cuda([device(0)], initialized=False)) == ()
    assert unreadable(()) == NO_GPU


def test_where_torch_does_not_tell_the_drivers_table_does(tree: Tree) -> None:
    for number in range(2):
        address, uuid = f"0000:{0x83 + number:02x}:00.0", f"GPU-{UUIDS[number]}"
        path = tree.proc / "driver" / "nvidia" / "gpus" / address / "information"
        tree.write(path, INFORMATION.format(uuid=uuid, address=address))
    assert found(tree, Cuda([device(1, uuid=None)])) == (gpu(1),)
    without = device(1, pci_bus_id=None)
    assert found(tree, Cuda([without])) == (gpu(1),)
    odd = device(0, pci_bus_id="83", pci_domain_id="none")
    assert found(tree, Cuda([odd])) == (gpu(0),)


def test_an_old_torch_leaves_what_the_user_made_visible(tree: Tree) -> None:
    bare = [device(n, uuid=None, pci_bus_id=None) for n in range(2)]
    one = f"GPU-{UUIDS[1]}"
    assert found(tree, Cuda(bare, current=1), CUDA_VISIBLE_DEVICES=f"GPU-{UUIDS[0]}, {one}") == (Gpu(one, "", one),)
    for told in ("0,1", "", "GPU-x"):
        assert unreadable(found(tree, Cuda(bare, current=1), CUDA_VISIBLE_DEVICES=told)) == UNKNOWN


def test_a_uuid_of_zeros_is_none(tree: Tree) -> None:
    assert found(tree, Cuda([device(0, uuid="00000000-0000-0000-0000-000000000000")]))[0].uuid == ""


@pytest.mark.parametrize(
    ("name", "visible"),
    [("NVIDIA H100 80GB HBM3 MIG 1g.10gb", ""), ("NVIDIA H100 80GB HBM3", "MIG-12345678-1234-1234-1234-123456789012")],
)
def test_a_part_of_a_gpu_has_no_counters_of_its_own(name: str, visible: str, tree: Tree) -> None:
    (one,) = found(tree, Cuda([device(0, name=name)]), CUDA_VISIBLE_DEVICES=visible)
    assert one.part
    assert unreadable((one,)) == PART


def test_an_amd_gpu_goes_by_its_unique_id(tree: Tree) -> None:
    tree.pci("0000:83:00.0", unique_id="1234567890abcdef")
    (one,) = found(tree, Cuda([device(0)]))
    assert one.device == "1234567890abcdef"
