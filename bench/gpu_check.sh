#!/usr/bin/env bash
# What a window costs on one NVIDIA GPU, and whether it sees anything: kernels captured in light and exact, seconds for which
# training stood still, iteration time before, in and after the window, events per second, and whether CUPTI stays behind.
# Needs a machine with a GPU and a CUDA build of torch; takes at most 4 minutes. Prints one JSON object a mode, last a verdict.
#
#   bash bench/gpu_check.sh [PYTHON]
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
python=${1:-python3}
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" EROICA_DISABLED=1

if ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  echo "gpu_check: torch of $python sees no CUDA device; nothing was measured" >&2
  exit 3
fi
command -v nvidia-smi > /dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

failed=0
for mode in light exact; do
  timeout 110 "$python" "$here/bench/window_cost.py" --mode "$mode" --device cuda || failed=1
done
if [ "$failed" = 0 ]; then
  echo "gpu_check: both modes captured kernels"
else
  echo "gpu_check: FAILED, see above"
fi
exit "$failed"
