# shellcheck shell=bash
# The virtual environment of the tests written in Python.

VENV_DIR=$INSTALL_DIR/venv
VENV_REQUIREMENTS=$REPO_DIR/tests/python/requirements.txt

venv_python() { printf '%s/bin/python' "$VENV_DIR"; }

venv_packages() {
  need python3 python3 python3-venv
  if has_program python3 && ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1; then
    MISSING_PACKAGES+=(python3-venv)
  fi
}

# Made again whenever the requirements change.
venv_install() {
  cmp -s "$VENV_REQUIREMENTS" "$VENV_DIR/complete" && return 0
  say "python: making the virtual environment"
  rm -rf "$VENV_DIR"
  if ! {
    python3 -m venv "$VENV_DIR" &&
      fetch "$VENV_DIR/bin/pip" install --cache-dir "$DOWNLOADS/pip" --quiet --disable-pip-version-check -r "$VENV_REQUIREMENTS"
  } >"$(log_file python)" 2>&1; then
    show_log python
    die "python: the virtual environment could not be made"
  fi
  cp "$VENV_REQUIREMENTS" "$VENV_DIR/complete"
}
