# shellcheck shell=bash
# One Redis server.

REDIS_DIR=$SERVICES_DIR/redis
REDIS_MARKER=$REDIS_DIR/redis.conf

redis_address() { printf 'redis://127.0.0.1:%s' "$(port_of redis)"; }

redis_packages() { need redis-server redis-server; }

redis_install() { mkdir -p "$REDIS_DIR/data"; }

redis_launch() {
  choose_port redis 16379
  sed -e "s|@PORT@|$(port_of redis)|g" -e "s|@DATA@|$REDIS_DIR/data|g" \
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
