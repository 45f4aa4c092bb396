#!/usr/bin/env bash
# Installs the wheel with each extra in a clean virtual environment and checks what a user would try first.
# Takes minutes and the package index; run it before a release: packaging/try-extras.sh [EXTRA ...]
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
extras=("$@")
[ ${#extras[@]} -gt 0 ] || extras=(none cpu openvino optimize gui agent all)

.venv/bin/python -m build --quiet --wheel --no-isolation --outdir "$work/dist" .
cp edgeopt/data/demo/digits_cnn.* "$work"  # so that no word of the commands below holds a space
wheel=$(echo "$work"/dist/edgeopt-*.whl)

for extra in "${extras[@]}"; do
  "${PYTHON:-python3}" -m venv "$work/venv-$extra"
  python="$work/venv-$extra/bin/python"
  wanted="$wheel"
  [ "$extra" = none ] || wanted="$wheel[$extra]"
  "$python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$wanted"
  echo "== $extra: $(du -sm "$work/venv-$extra" | cut -f1) MiB"
  cd "$work"
  "$python" -m edgeopt --version
  "$python" -m edgeopt probe --json | "$python" -c 'import json, sys
record = json.loads(sys.stdin.readlines()[-1])["data"]
print("probe:", record["cpu"]["simd_level"], [r["name"] for r in record["runtimes"]])'
  for command in \
    "edgeopt optimize digits_cnn.onnx --data digits_cnn.npz -o $extra.edgeopt --time-limit 30" \
    "edgeopt simplify digits_cnn.onnx -o $extra.onnx" \
    "edgeopt_gui.main --version" \
    "edgeopt_gui.main" \
    "edgeopt_agent.main --version" \
    "edgeopt_agent.main status" \
    "edgeopt_agent.main trust list --data-dir agent-$extra"; do
    code=0
    # shellcheck disable=SC2086 # the words of a command
    said=$("$python" -m $command 2>&1 </dev/null | tail -2) || code=$?
    echo "-- $command: exit $code: $(echo "$said" | tr '\n' ' ' | cut -c1-220)"
  done
  cd "$root"
done
