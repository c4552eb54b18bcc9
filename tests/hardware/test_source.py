"""Resources as keys: what is unknown of two is no difference."""

from __future__ import annotations

from dataclasses import replace

from eroica_otel.hardware.source import Resource


def test_two_resources_whose_peak_is_unknown_are_one_and_another_peak_is_another_resource() -> None:
    one, same = (Resource("nic_tx", "eth0", "By", float("nan"), counter=True) for _ in range(2))
    assert one == same
    assert {one: 1}[same] == 1
    assert one != replace(one, peak=1e9)
    assert one != replace(one, device="eth1")
    assert one != "eth0 nic_tx"
