# shellcheck shell=bash
# One Redis server.

REDIS_DIR=$SERVICES_DIR/redis
REDIS_MARKER=$REDIS_DIR/redis.conf

redis_address() { printf 'redis://127.0.0.1:%s' "$(port_of redis)"; }

redis_more_env() {
  [[ -n $(port_of redis-tls) ]] || return 0
  printf 'export TIDEMILL_TEST_REDIS_TLS=127.0.0.1:%s\n' "$(port_of redis-tls)"
}

redis_packages() {
  need redis-server redis-server
  certificates_packages
}

redis_install() {
  mkdir -p "$REDIS_DIR/data"
  certificates_install
}

redis_launch() {
  choose_port redis 16379
  choose_port redis-tls 16380
  sed -e "s|@PORT@|$(port_of redis)|g" -e "s|@DATA@|$REDIS_DIR/data|g" \
    -e "s|@TLS_PORT@|$(port_of redis-tls)|g" -e "s|@CERTIFICATES@|$CERTIFICATES_DIR|g" \
    -e "s|@USER@|$TEST_USER|g" -e "s|@PASSWORD@|$TEST_PASSWORD|g" \
    "$DEV_DIR/redis/redis.conf" >"$REDIS_DIR/redis.conf"
  spawn redis "$(program redis-server)" "$REDIS_DIR/redis.conf"
}

redis_answers() {
  local reply
  exec 4<>"/dev/tcp/127.0.0.1/$(port_of redis)" || return 1
  printf 'PING\r\n' >&4
  IFS= read -r -t 2 reply <&4
  exec 4>&-
  [[ $reply == +PONG* ]]
}

redis_ping() { (redis_answers); }

redis_wait() { wait_ready redis "$REDIS_MARKER" 30 redis_ping; }
