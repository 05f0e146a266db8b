# What the `prepare` scripts share: each installs below target/ what a test needs, and is harmless to repeat.
# Set `make_target` to the make target, and source this file at the root of the checkout.
set -euo pipefail
target="${CARGO_TARGET_DIR:-target}"

missing() {
  echo "make $make_target needs $1: $2" >&2
  exit 1
}

install() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
  else
    missing "$*" "install it with your package manager"
  fi
}

# Runs a command in an empty folder, unless that was done with the same file before.
once() {
  local folder=$1 wanted
  wanted=$(sha256sum "$2")
  shift 2
  if [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ]; then
    rm -rf "$folder"
    mkdir -p "$folder"
    "$@"
    echo "$wanted" >"$folder/installed"
  fi
}

# Makes a Python environment in a folder, with the packages of a file.
python_packages() {
  command -v python3 >/dev/null || install python3
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || missing "Python 3.11 or newer" "$(python3 --version) is too old"
  python3 -c 'import venv, ensurepip' 2>/dev/null || install python3-venv
  once "$1" "$2" make_environment "$1" "$2"
}

make_environment() {
  python3 -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check --requirement "$2" \
    || missing "the packages of $2" "pip could not install them, see above"
}

# Installs the packages of a folder's package-lock.json into another folder.
node_packages() {
  { command -v node && command -v npm; } >/dev/null || install nodejs npm
  node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' \
    || missing "Node.js 18 or newer" "$(node --version) is too old"
  once "$1" "$2/package-lock.json" copy_and_install "$1" "$2"
}

copy_and_install() {
  cp "$2/package.json" "$2/package-lock.json" "$1/"
  npm --prefix "$1" ci --ignore-scripts --no-audit --no-fund --loglevel error \
    || missing "the packages of $2" "npm could not install them, see above"
}
