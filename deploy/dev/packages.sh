# shellcheck shell=bash
# Debian packages, asked for only where the program they bring is missing.

MISSING_PACKAGES=()

# A new shell keeps nothing hashed, so a program just installed is found.
has_program() { PATH="$PATH:/usr/sbin:/sbin" type -P "$1" >/dev/null 2>&1; }
program() { PATH="$PATH:/usr/sbin:/sbin" type -P "$1"; }

# need PROGRAM PACKAGE…: notes the packages when the program is not there.
need() {
  local program=$1
  shift
  has_program "$program" || MISSING_PACKAGES+=("$@")
}

# need_file FILE PACKAGE…: the same for what is no program.
need_file() {
  local file=$1
  shift
  [[ -e $file ]] || MISSING_PACKAGES+=("$@")
}

# Runs a command as root: directly, or through sudo.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif has_program sudo; then
    sudo "$@"
  else
    die "installing ${MISSING_PACKAGES[*]} needs root: run as root, or install sudo, or install the packages by hand"
  fi
}

# fetch COMMAND…: runs a command that downloads, and once more where it fails.
fetch() {
  "$@" || {
    printf 'failed; once more: %s\n' "$*"
    sleep 5
    "$@"
  }
}

# Installs everything that was noted, in one go.
install_missing_packages() {
  ((${#MISSING_PACKAGES[@]} > 0)) || return 0
  has_program apt-get ||
    die "apt-get is missing; install the equivalents of these Debian packages by hand: ${MISSING_PACKAGES[*]}"
  say "packages: installing ${MISSING_PACKAGES[*]}"
  local log
  log=$(log_file packages)
  if ! {
    fetch as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
      fetch as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${MISSING_PACKAGES[@]}"
  } >"$log" 2>&1; then
    show_log packages
    die "packages: apt-get failed"
  fi
  MISSING_PACKAGES=()
}
