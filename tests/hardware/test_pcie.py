"""PCIe links as sources: against their maximum, unknown, down, of the devices that count."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from eroica_otel.hardware.pcie import PcieSource
from eroica_otel.hardware.shares import share
from factories_hardware import Tree, Turned, peaks, reading


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "machine")


def pcie(tree: Tree) -> PcieSource:
    source = PcieSource(tree.sys, clock=Turned())
    source.look()
    return source


def test_a_link_that_fell_back_is_a_share_of_its_maximum(tree: Tree) -> None:
    tree.pci(current_link_speed="8.0 GT/s PCIe", current_link_width="4")
    source = pcie(tree)
    values = source.read()
    assert list(values) == [8e9, 4]
    assert [share(*pair) for pair in zip(source.resources, values, strict=True)] == [0.25, 0.25]


@pytest.mark.parametrize("kind", ["0x020000", "0x020700", "0x030200", "0x120000", "0x010802"])
def test_what_training_waits_for(kind: str, tree: Tree) -> None:
    tree.pci("0000:01:00.0", kind)
    tree.pci("0000:00:00.0", "0x060400")
    assert {resource.device for resource in pcie(tree).resources} == {"0000:01:00.0"}


@pytest.mark.parametrize(("file", "text"), [("current_link_speed", "Unknown"), ("current_link_width", "255"),
                                            ("current_link_width", "0"), ("current_link_speed", "")])  # fmt: skip
def test_a_link_that_is_down_or_unknown_is_missing(file: str, text: str, tree: Tree) -> None:
    tree.pci(**{file: text})
    source = pcie(tree)
    name = "0000:83:00.0 pcie_link_" + file.rpartition("_")[2]
    assert math.isnan(reading(source)[name])
    assert list(source.missing) == [name]


def test_a_device_without_a_maximum_is_missing_and_the_others_go_on(tree: Tree) -> None:
    tree.pci("0000:01:00.0", max_link_speed="Unknown")
    tree.pci("0000:02:00.0")
    source = pcie(tree)
    assert list(peaks(source)) == [
        "0000:01:00.0 pcie_link_width",
        "0000:02:00.0 pcie_link_speed",
        "0000:02:00.0 pcie_link_width",
    ]
    assert list(source.missing) == ["0000:01:00.0 pcie_link_speed"]


def test_a_machine_without_pcie(tmp_path: Path) -> None:
    source = PcieSource(tmp_path)
    source.look()
    assert (source.resources, list(source.missing)) == ((), ["pcie"])
