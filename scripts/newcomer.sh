#!/usr/bin/env bash
# What a newcomer does: install Godwit into an empty folder, run a broker, publish and subscribe. Nothing of the checkout
# is used but the wheels that are built from it. Then the same as another user, with read-only libraries and without HOME,
# and once more where no folder can be written, and with uvx and pipx. It fails if the core is larger than `installed_mb_max`.
# Usage: scripts/newcomer.sh [PYTHON]    A Python with hatchling builds the wheel (default: .venv/bin/python).
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
builder=${1:-$checkout/.venv/bin/python}
folder=$(mktemp -d)
installed_mb_max=120 # MiB beside Python; NumPy alone takes 73
broker=
finish() {
    [ -z "$broker" ] || kill "$broker" 2>/dev/null || true
    chmod -R u+w "$folder" && rm -rf "$folder"
}
trap finish EXIT
chmod 755 "$folder"
cd "$folder"

say() { printf 'newcomer: %s\n' "$*"; }
fail() { say "FAILED: $*" >&2; exit 1; }

say "build the wheels"
wheel_of() { "$builder" -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w wheels "$1"; }
wheel_of "$checkout"
wheel_of "$checkout/clients/python"
wheel=$(echo wheels/godwit-[0-9]*.whl)

say "install it"
python3 -m venv venv
sed -n 's/^\([A-Za-z0-9_.-]*==.*[^ \\]\) *\\$/\1/p' "$checkout/requirements.lock" >constraints.txt # the versions that were tested
venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt "$wheel"
for library in numba pyarrow pyspark matplotlib dd rich; do
    ! venv/bin/python -c "import $library" 2>/dev/null || fail "the core brings $library"
done
packages=$(venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
size_kb=$(du -sk --exclude='pip*' --exclude='setuptools*' --exclude=pkg_resources --exclude=_distutils_hack "$packages" | cut -f1)
[ "$size_kb" -le $((installed_mb_max * 1024)) ] || fail "the core takes $((size_kb / 1024)) MB, more than $installed_mb_max"
say "wheel $(du -k "$wheel" | cut -f1) kB, installed $((size_kb / 1024)) MB"

say "install the client alone"
python3 -m venv client
client/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt wheels/godwit_client-*.whl
client='
import sys, godwit_client
with godwit_client.connect_blocking(sys.argv[1]) as client:
    prices = client.subscribe("price < 10")
    client.publish({"price": 4})
    assert next(prices.events(timeout=60)).attributes == {"price": 4}
assert not {"numpy", "godwit"} & sys.modules.keys()
'

# try HOW COMMAND…: a broker on free ports, an event in, the same event out. COMMAND… comes before each `godwit`.
try() {
    local how=$1 address
    shift
    rm -f ready log
    mkfifo ready
    "$@" "$folder/venv/bin/python" -m godwit serve --native 127.0.0.1:0 --mqtt 127.0.0.1:0 --http 127.0.0.1:0 \
        --durability memory >ready 2>log &
    broker=$!
    read -r line <ready || { cat log >&2; fail "$how: the broker did not start"; }
    address=$(printf '%s' "$line" | "$folder/venv/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["native"])')
    "$@" "$folder/venv/bin/python" -m godwit pub price=4 sym=A --retain A --broker "$address" >/dev/null
    "$@" "$folder/venv/bin/python" -m godwit sub 'price < 10' --retained --count 1 --broker "$address" | grep -q '"sym"' ||
        fail "$how: the event did not arrive"
    "$folder/client/bin/python" -c "$client" "$address" || fail "$how: the client alone"
    ! grep -q Traceback log || { cat log >&2; fail "$how: the broker logged a traceback"; }
    kill "$broker" && wait "$broker" || true
    broker=
    say "$how: an event was published and received"
}

clean=(env -i PATH=/usr/bin:/bin LANG=C.UTF-8)
"${clean[@]}" venv/bin/godwit filter covers 'price < 10' 'price < 5' | grep -q '"covers": true' || fail "godwit filter"
"${clean[@]}" venv/bin/godwit simulate city --seed 1 --set clients.publishers=5 >/dev/null || fail "godwit simulate"
try "clean environment" "${clean[@]}"

say "install it with uvx and pipx"
python3 -m venv tools
tools/bin/python -m pip install -q --disable-pip-version-check uv pipx
export UV_CACHE_DIR="$folder/tools/cache" UV_TOOL_DIR="$folder/tools/uv" PIPX_HOME="$folder/tools/pipx" PIPX_BIN_DIR="$folder/tools/ways"
tools/bin/uvx -q --python "$(command -v python3)" --from "$wheel" godwit --version >/dev/null || fail "uvx"
tools/bin/pipx install -q --python "$(command -v python3)" "$wheel" >/dev/null || fail "pipx"
tools/ways/godwit --version >/dev/null || fail "the command that pipx has installed"

chmod -R a-w venv
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then # to root nothing is read-only
    clean+=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
try "read-only libraries, no HOME" "${clean[@]}"

# Nothing can be written at all, with the builder's Numba, which looks for a place for compiled code.
read_only='for each in /tmp /var/tmp "$0"; do mount --bind "$each" "$each"; mount -o remount,bind,ro "$each"; done; exec "$@"'
minor='import sys; print(sys.version_info[:2])'
numba=$("$builder" -c 'import numba, pathlib; print(pathlib.Path(numba.__file__).parents[1])' 2>/dev/null || true)
if [ -n "$numba" ] && [ "$(venv/bin/python -c "$minor")" = "$("$builder" -c "$minor")" ] && unshare -m true 2>/dev/null; then
    chmod u+w "$packages" && echo "$numba" >"$packages/numba.pth" && chmod a-w "$packages"
    try "nothing can be written, Numba" unshare -m sh -c "$read_only" "$folder" "${clean[@]}"
    grep -q 'no folder for compiled code can be written' log || fail "Numba was not tried, or has found a folder"
else
    say "nothing can be written, Numba: skipped (needs Numba beside the same Python, and the right to mount)"
fi

say "done"
