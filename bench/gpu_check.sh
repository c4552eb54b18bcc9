#!/usr/bin/env bash
# Two checks on one NVIDIA GPU. Needs a CUDA build of torch and nvidia-ml-py (eroica-otel[hardware]); at most 6 minutes.
#
# 1. The node agent's sources (bench/gpu_hardware.py): NVML and GPM answer, while a matrix product keeps the GPU busy; each
#    resource's mean share of its peak, mu, lies in [0, 1]; clock and power are there, the load is seen; the rates that are
#    reached at 100 Hz and in a window, and the share of a core that the real driver's calls take. A line a resource. And what
#    sampling does to the time of the load's iterations: not sampled, 100 Hz, in a window, three times in turn.
# 2. A window (bench/window_cost.py): kernels captured in light and exact, seconds for which training stood still, iteration
#    time before, in and after the window, events per second, and whether CUPTI stays behind. One JSON object a mode.
#
#   bash bench/gpu_check.sh [PYTHON]
#
# Ends with 0 where both hold, 1 where one does not (the last lines say which), 3 where there is no GPU to check.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-python3}
export PYTHONPATH="$here:$here/exporters${PYTHONPATH:+:$PYTHONPATH}" EROICA_DISABLED=1

if ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "gpu_check: torch of $python sees no CUDA device; nothing was measured" >&2
  exit 3
fi
command -v nvidia-smi > /dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

failed=0
status=0
timeout 120 "$python" -m bench.gpu_hardware --load "$python" || status=$?
case "$status" in
  0) ;;
  3) echo "gpu_check: torch sees a GPU and NVML none (no nvidia-ml-py, or no libnvidia-ml.so.1 in this container)" ;;
  124) echo "gpu_check: NVML did not answer in time" ;;
esac
[ "$status" = 0 ] || failed=1

for mode in light exact; do
  timeout 110 "$python" "$here/bench/window_cost.py" --mode "$mode" --device cuda || { failed=1; echo "gpu_check: $mode failed"; }
done
if [ "$failed" = 0 ]; then
  echo "gpu_check: NVML and GPM are live with mu in [0, 1], and both modes captured kernels"
else
  echo "gpu_check: FAILED, see above"
fi
exit "$failed"
