# shellcheck shell=bash
# One Kafka node, broker and controller in one process, from Maven's jars.

KAFKA_DIR=$SERVICES_DIR/kafka
KAFKA_MARKER=$KAFKA_DIR/server.properties
KAFKA_LIB=$(jars_of kafka)
KAFKA_HEAP=${TIDEMILL_DEV_KAFKA_HEAP:-512m}

kafka_address() { printf '127.0.0.1:%s' "$(port_of kafka)"; }

kafka_packages() {
  need java openjdk-17-jre-headless
  need_jars kafka
}

kafka_install() { fetch_jars kafka; }

kafka_configure() {
  local parts=("$DEV_DIR/kafka/server.properties")
  [[ ! -e $KAFKA_DIR/more.properties ]] || parts+=("$KAFKA_DIR/more.properties")
  sed -e "s|@PORT@|$(port_of kafka)|g" \
    -e "s|@CONTROLLER_PORT@|$(port_of kafka-controller)|g" \
    -e "s|@DATA@|$KAFKA_DIR/data|g" \
    "${parts[@]}" >"$KAFKA_DIR/server.properties"
}

kafka_format() {
  [[ ! -e $KAFKA_DIR/data/meta.properties ]] || return 0
  mkdir -p "$KAFKA_DIR/data"
  local id
  id=$(java -cp "$KAFKA_LIB/*" kafka.tools.StorageTool random-uuid 2>/dev/null) ||
    die "kafka: no cluster id (is java 17 or newer on the path?)"
  if ! java -cp "$KAFKA_LIB/*" kafka.tools.StorageTool format --ignore-formatted \
    -t "$id" -c "$KAFKA_DIR/server.properties" >"$(log_file kafka)" 2>&1; then
    show_log kafka
    die "kafka: the storage could not be formatted"
  fi
}

kafka_launch() {
  choose_port kafka 19092
  choose_port kafka-controller 19093
  kafka_configure
  kafka_format
  spawn kafka java "-Xms128m" "-Xmx$KAFKA_HEAP" -XX:+UseG1GC -XX:MaxGCPauseMillis=20 \
    -Dorg.slf4j.simpleLogger.showDateTime=true \
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS" \
    -cp "$KAFKA_LIB/*" kafka.Kafka "$KAFKA_DIR/server.properties"
}

kafka_answers() {
  grep -q 'Kafka Server started' "$(log_file kafka)" && port_open "$(port_of kafka)"
}

kafka_wait() { wait_ready kafka "$KAFKA_MARKER" 90 kafka_answers; }
