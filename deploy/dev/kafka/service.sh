# shellcheck shell=bash
# One Kafka node, broker and controller in one process, from Maven's jars.

KAFKA_DIR=$SERVICES_DIR/kafka
KAFKA_MARKER=$KAFKA_DIR/server.properties
KAFKA_LIB=$(jars_of kafka)
# What SCRAM knows of a user lies in the storage.
KAFKA_USER_KNOWN=$KAFKA_DIR/data/user.known
KAFKA_HEAP=${TIDEMILL_DEV_KAFKA_HEAP:-512m}

# Beside the port that asks nobody: one with TLS that asks for a name and password, by SCRAM or PLAIN, and one with TLS
# that asks for a certificate. The jars have Kafka's own tools, too.
kafka_more_env() {
  printf 'export TIDEMILL_TEST_KAFKA_JARS=%q\n' "$KAFKA_LIB"
  [[ -n $(port_of kafka-login) ]] || return 0
  printf 'export TIDEMILL_TEST_KAFKA_LOGIN=127.0.0.1:%s\n' "$(port_of kafka-login)"
  printf 'export TIDEMILL_TEST_KAFKA_CERTIFICATE=127.0.0.1:%s\n' "$(port_of kafka-certificate)"
}

kafka_address() { printf '127.0.0.1:%s' "$(port_of kafka)"; }

kafka_packages() {
  need java openjdk-17-jre-headless
  need_jars kafka
  certificates_packages
}

kafka_install() {
  fetch_jars kafka
  certificates_install
}

kafka_configure() {
  local parts=("$DEV_DIR/kafka/server.properties")
  [[ ! -e $KAFKA_DIR/more.properties ]] || parts+=("$KAFKA_DIR/more.properties")
  sed -e "s|@PORT@|$(port_of kafka)|g" \
    -e "s|@CONTROLLER_PORT@|$(port_of kafka-controller)|g" \
    -e "s|@LOGIN_PORT@|$(port_of kafka-login)|g" \
    -e "s|@CERTIFICATE_PORT@|$(port_of kafka-certificate)|g" \
    -e "s|@CERTIFICATES@|$CERTIFICATES_DIR|g" \
    -e "s|@USER@|$TEST_USER|g" \
    -e "s|@PASSWORD@|$TEST_PASSWORD|g" \
    -e "s|@DATA@|$KAFKA_DIR/data|g" \
    "${parts[@]}" >"$KAFKA_DIR/server.properties"
}

kafka_format() {
  [[ ! -e $KAFKA_DIR/data/meta.properties ]] || return 0
  mkdir -p "$KAFKA_DIR/data"
  local id
  id=$(java -cp "$KAFKA_LIB/*" kafka.tools.StorageTool random-uuid 2>/dev/null) ||
    die "kafka: no cluster id (is java 17 or newer on the path?)"
  local user="name=$TEST_USER,password=$TEST_PASSWORD"
  if ! java -cp "$KAFKA_LIB/*" kafka.tools.StorageTool format --ignore-formatted -t "$id" \
    --add-scram "SCRAM-SHA-256=[$user]" --add-scram "SCRAM-SHA-512=[$user]" -c "$KAFKA_DIR/server.properties" \
    >"$(log_file kafka)" 2>&1; then
    show_log kafka
    die "kafka: the storage could not be formatted"
  fi
  touch "$KAFKA_USER_KNOWN"
}

kafka_launch() {
  choose_port kafka 19092
  choose_port kafka-controller 19093
  choose_port kafka-login 19094
  choose_port kafka-certificate 19095
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

# Storage that was made before there was a user.
kafka_add_user() {
  [[ ! -e $KAFKA_USER_KNOWN ]] || return 0
  local mechanism
  # One by one: Kafka takes no two for one user at once.
  for mechanism in SCRAM-SHA-256 SCRAM-SHA-512; do
    java -cp "$KAFKA_LIB/*" kafka.admin.ConfigCommand --bootstrap-server "$(kafka_address)" --alter \
      --entity-type users --entity-name "$TEST_USER" --add-config "$mechanism=[password=$TEST_PASSWORD]" \
      >"$(log_file kafka-user)" 2>&1 || {
      show_log kafka-user
      die "kafka: the user could not be added"
    }
  done
  touch "$KAFKA_USER_KNOWN"
}

kafka_wait() {
  wait_ready kafka "$KAFKA_MARKER" 90 kafka_answers
  kafka_add_user
}
