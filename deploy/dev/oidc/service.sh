# shellcheck shell=bash
# One OpenID Connect provider, from npm: oidc-provider, with the people and clients of provider.mjs.

OIDC_DIR=$SERVICES_DIR/oidc
OIDC_MARKER=$OIDC_DIR/data
OIDC_MODULES=$INSTALL_DIR/oidc/modules

oidc_address() { printf 'http://127.0.0.1:%s' "$(port_of oidc)"; }

# What a test runs that wants a provider of its own, to stop it.
oidc_more_env() { printf 'export TIDEMILL_TEST_OIDC_PROGRAM=%q\n' "$OIDC_MODULES/provider.mjs"; }

oidc_packages() {
  need node nodejs
  [[ -e $OIDC_MODULES/complete ]] || need npm npm
}

# Exactly the versions of package-lock.json, made beside their place first. The program stands beside its modules, where
# node looks for them.
oidc_install() {
  local lock=$DEV_DIR/oidc/package-lock.json
  mkdir -p "$OIDC_DIR/data"
  if ! cmp -s "$lock" "$OIDC_MODULES/complete"; then
    say "oidc: fetching the provider"
    rm -rf "$OIDC_MODULES" "$OIDC_MODULES.partial"
    mkdir -p "$OIDC_MODULES.partial"
    cp "$DEV_DIR/oidc/package.json" "$lock" "$OIDC_MODULES.partial/"
    if ! fetch npm ci --cache "$DOWNLOADS/npm" --prefix "$OIDC_MODULES.partial" --omit=dev --no-audit --no-fund \
      --ignore-scripts >"$(log_file oidc)" 2>&1; then
      show_log oidc
      die "oidc: npm could not fetch the provider"
    fi
    cp "$lock" "$OIDC_MODULES.partial/complete"
    mv "$OIDC_MODULES.partial" "$OIDC_MODULES"
  fi
  cmp -s "$DEV_DIR/oidc/provider.mjs" "$OIDC_MODULES/provider.mjs" ||
    cp "$DEV_DIR/oidc/provider.mjs" "$OIDC_MODULES/provider.mjs"
}

oidc_launch() {
  choose_port oidc 19500
  spawn oidc "$(program node)" "$OIDC_MODULES/provider.mjs" "$(port_of oidc)" "$OIDC_DIR/data"
}

oidc_answers() { port_open "$(port_of oidc)"; }

oidc_wait() { wait_ready oidc "$OIDC_MARKER" 30 oidc_answers; }
