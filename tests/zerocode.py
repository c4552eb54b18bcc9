"""The wheel in an environment of its own with the zero-code loader, and an OTLP endpoint that tells who sent."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

import remote_write
from eroica_otel import names
from eroica_otel.export.remotewire import STALE_BITS
from factories_worker import Endpoint

ROOT = Path(__file__).resolve().parent.parent
_SCRIPTS = {
    "opentelemetry-instrument": "from opentelemetry.instrumentation.auto_instrumentation import run as main",
    "torchrun": "from torch.distributed.run import main",
}


def environment(folder: Path) -> Path:
    """Install the wheel into a new environment that borrows all else from this one; return its folder of commands."""
    made = folder / "venv"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    for command in (build, [sys.executable, "-m", "venv", "--without-pip", str(made)]):
        subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    install = [*pip, "--python", str(made / "bin" / "python"), "install", "--no-deps", "--no-compile", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = made.glob("lib/python*/site-packages")
    # Lines of a .pth file are not looked through for .pth files: the editable install of the checkout stays out.
    (packages / "borrowed.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    for name, line in _SCRIPTS.items():
        script = made / "bin" / name
        script.write_text(f"#!{made / 'bin' / 'python'}\nimport sys\n{line}\nsys.exit(main())\n")
        script.chmod(0o755)
    return made / "bin"


def run(
    commands: Path, endpoint: Endpoint, folder: Path, *command: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command with the environment's programs first, its series to ``endpoint``; assert that it ends well."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EROICA_", "OTEL_", "PYTHON"))}
    settings = {
        "PATH": f"{commands}{os.pathsep}{kept['PATH']}",
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint.url,
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "EROICA_DIR": str(folder / "workers"),
        "EROICA_REFERENCE": "0",
    }
    done = subprocess.run(
        command, env=kept | settings | variables, cwd=folder, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def senders(endpoint: Endpoint) -> list[tuple[str, int, float]]:
    """Return (instance, process, most iterations) of each process whose deliveries held series of ours."""
    found: dict[tuple[str, int], float] = {}
    for body in endpoint.bodies:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            about = {item.key: item.value for item in resource.resource.attributes}
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                if metric.name.startswith("eroica."):
                    who = (about["service.instance.id"].string_value, about["process.pid"].int_value)
                    counted = metric.sum.data_points if metric.name == "eroica.iterations" else ()
                    found[who] = max([found.get(who, 0.0), *(point.as_double for point in counted)])
    return sorted((instance, process, most) for (instance, process), most in found.items())


def counted(bodies: Iterable[bytes]) -> dict[tuple[str, str, str], list[tuple[int, float]]]:
    """Return (job, host, rank) -> (milliseconds, iterations) of the remote write requests in their order.

    The role comes with the first iteration that is known, so that one worker's count is two series one after the other.
    """
    found: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for labels, bits, millis in (sample for body in bodies for sample in remote_write.series(body)):
        if labels["__name__"] == names.ITERATIONS.name and bits != STALE_BITS:
            who = (labels["training_job"], labels["host"], labels["rank"])
            found.setdefault(who, []).append((millis, struct.unpack("<d", bits.to_bytes(8, "little"))[0]))
    return found


def windows(endpoint: Endpoint) -> set[str]:
    """Return the reasons of all windows that the deliveries tell of."""
    return {
        item.value.string_value
        for body in endpoint.bodies
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "eroica.window_id"
        for point in metric.gauge.data_points
        for item in point.attributes
        if item.key == "reason"
    }
