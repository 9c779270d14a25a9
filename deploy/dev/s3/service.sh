# shellcheck shell=bash
# One S3-compatible server, from npm: s3rver.

S3_DIR=$SERVICES_DIR/s3
S3_MARKER=$S3_DIR/data
S3_MODULES=$INSTALL_DIR/s3/modules
# Signed with the keys S3RVER and S3RVER, which it has built in.
S3_BUCKET=tidemill

s3_address() { printf 'http://127.0.0.1:%s/%s' "$(port_of s3)" "$S3_BUCKET"; }

s3_packages() {
  need node nodejs
  [[ -e $S3_MODULES/complete ]] || need npm npm
}

# Exactly the versions of package-lock.json, made beside their place first.
s3_install() {
  local lock=$DEV_DIR/s3/package-lock.json
  mkdir -p "$S3_DIR/data"
  cmp -s "$lock" "$S3_MODULES/complete" && return 0
  say "s3: fetching the server"
  rm -rf "$S3_MODULES" "$S3_MODULES.partial"
  mkdir -p "$S3_MODULES.partial"
  cp "$DEV_DIR/s3/package.json" "$lock" "$S3_MODULES.partial/"
  if ! fetch npm ci --cache "$DOWNLOADS/npm" --prefix "$S3_MODULES.partial" --omit=dev --no-audit --no-fund --ignore-scripts \
    >"$(log_file s3)" 2>&1; then
    show_log s3
    die "s3: npm could not fetch the server"
  fi
  cp "$lock" "$S3_MODULES.partial/complete"
  mv "$S3_MODULES.partial" "$S3_MODULES"
}

s3_launch() {
  choose_port s3 19902
  # The server enciphers the tokens of its listings with DES.
  spawn s3 "$(program node)" --openssl-legacy-provider "$S3_MODULES/node_modules/s3rver/bin/s3rver.js" \
    -d "$S3_DIR/data" -a 127.0.0.1 -p "$(port_of s3)" --no-vhost-buckets --silent \
    --configure-bucket "$S3_BUCKET"
}

s3_answers() { port_open "$(port_of s3)"; }

s3_wait() { wait_ready s3 "$S3_MARKER" 30 s3_answers; }
