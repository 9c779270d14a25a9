# shellcheck shell=bash
# One MariaDB server with a database `tidemill` and a user of the same name.

MARIADB_DIR=$SERVICES_DIR/mariadb
MARIADB_MARKER=--datadir=$MARIADB_DIR/data

mariadb_address() {
  printf 'mysql://tidemill:tidemill@127.0.0.1:%s/tidemill' "$(port_of mariadb)"
}

# The core packages bring the programs without a system service.
mariadb_packages() {
  need mariadbd mariadb-server-core
  need mariadb mariadb-client-core
}

# The user the server runs as. It refuses to be root unless told so; a checkout
# inside a closed home directory cannot be reached by anybody else.
mariadb_user() {
  if ((EUID != 0)); then
    id -un
  elif setpriv --reuid=mysql --regid=mysql --clear-groups test -x "$MARIADB_DIR" 2>/dev/null; then
    printf 'mysql\n'
  else
    printf 'root\n'
  fi
}

mariadb_install() {
  mkdir -p "$MARIADB_DIR"
  if ((EUID == 0)) && ! id mysql >/dev/null 2>&1; then
    useradd --system --user-group --no-create-home --home-dir /nonexistent \
      --shell /usr/sbin/nologin mysql || die "mariadb: the user mysql could not be added"
  fi
}

# The tables are made beside their place first: a cut install is never used.
mariadb_format() {
  [[ ! -d $MARIADB_DIR/data ]] || return 0
  local partial=$MARIADB_DIR/data.partial
  rm -rf "$partial"
  mkdir -p "$partial"
  ((EUID != 0)) || chown "$(mariadb_user)" "$partial"
  if ! "$(program mariadb-install-db)" --no-defaults --user="$(mariadb_user)" \
    --datadir="$partial" --auth-root-authentication-method=normal --skip-test-db \
    >"$(log_file mariadb)" 2>&1; then
    show_log mariadb
    die "mariadb: the data directory could not be made"
  fi
  mv "$partial" "$MARIADB_DIR/data"
}

mariadb_launch() {
  choose_port mariadb 13306
  mariadb_format
  cp "$DEV_DIR/mariadb/init.sql" "$MARIADB_DIR/init.sql"
  # The socket's name is relative to the data directory: a full path may be too long.
  spawn mariadb "$(program mariadbd)" --no-defaults --user="$(mariadb_user)" \
    "--datadir=$MARIADB_DIR/data" "--init-file=$MARIADB_DIR/init.sql" \
    --bind-address=127.0.0.1 "--port=$(port_of mariadb)" --socket=mariadb.sock \
    --pid-file=mariadb.pid --skip-name-resolve --skip-log-bin \
    --character-set-server=utf8mb4 --collation-server=utf8mb4_bin \
    --innodb-buffer-pool-size=64M --innodb-log-file-size=48M --max-connections=200
}

mariadb_answers() {
  "$(program mariadb)" --no-defaults --protocol=TCP --host=127.0.0.1 "--port=$(port_of mariadb)" \
    --user=tidemill --password=tidemill --connect-timeout=2 --execute='SELECT 1' tidemill
}

mariadb_wait() { wait_ready mariadb "$MARIADB_MARKER" 60 mariadb_answers; }
