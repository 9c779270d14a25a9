# shellcheck shell=bash
# One YARN: Hadoop's mini cluster, a resource manager, a node manager and a history server in one process, from
# Maven's jars; and the commands `yarn` and `hadoop` of its clients.

YARN_DIR=$SERVICES_DIR/yarn
YARN_MARKER=-Dtidemill.yarn=$YARN_DIR
YARN_LIB=$(jars_of yarn)
YARN_HEAP=${TIDEMILL_DEV_YARN_HEAP:-512m}

# The directory of its clients' commands.
yarn_address() { printf '%s' "$YARN_DIR/bin"; }

yarn_packages() {
  need java openjdk-17-jre-headless
  need_jars yarn
}

yarn_install() { fetch_jars yarn -DincludeScope=runtime; }

yarn_configure() {
  local name
  mkdir -p "$YARN_DIR/conf" "$YARN_DIR/bin" "$YARN_DIR/data"
  cp "$DEV_DIR/yarn/log4j.properties" "$YARN_DIR/conf/"
  # Each part of Hadoop has defaults of its own, which only a file of its own name stands above.
  for name in core mapred yarn; do
    sed -e "s|@PORT@|$(port_of yarn)|g" -e "s|@SCHEDULER_PORT@|$(port_of yarn-scheduler)|g" -e "s|@LIB@|$YARN_LIB|g" -e "s|@DATA@|$YARN_DIR/data|g" \
      "$DEV_DIR/yarn/site.xml" >"$YARN_DIR/conf/$name-site.xml"
  done
  yarn_client yarn org.apache.hadoop.yarn.client.cli.ApplicationCLI
  yarn_client yarn-node org.apache.hadoop.yarn.client.cli.NodeCLI
  yarn_client hadoop
}

# yarn_client NAME [CLASS]: a command; `hadoop` takes the class from its arguments, behind `jar` and a file.
yarn_client() {
  local file=$YARN_DIR/bin/$1 java
  java=$(program java)
  printf '#!/bin/sh\n[ "$1" != jar ] || shift 2\nexec %q %s -cp %q %s "$@"\n' "$java" \
    "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1" "$YARN_DIR/conf:$YARN_LIB/*" "${2:-}" >"$file"
  chmod 755 "$file"
}

# Everything listens on this host alone; what no client has to find, on free ports.
yarn_launch() {
  local free=() name
  choose_port yarn 18032
  choose_port yarn-scheduler 18030
  choose_port yarn-history 18020
  yarn_configure
  for name in mapreduce.jobhistory.webapp.address mapreduce.jobhistory.admin.address \
    yarn.resourcemanager.webapp.address yarn.resourcemanager.resource-tracker.address yarn.resourcemanager.admin.address; do
    free+=(-D "$name=127.0.0.1:0")
  done
  (
    cd "$YARN_DIR/data"
    spawn yarn "$(program java)" "-Xmx$YARN_HEAP" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
      --add-opens java.base/java.lang=ALL-UNNAMED "$YARN_MARKER" -cp "$YARN_DIR/conf:$YARN_LIB/*" \
      org.apache.hadoop.mapreduce.MiniHadoopClusterManager -nodfs -nodemanagers 1 \
      -rmport "$(port_of yarn)" -jhsport "$(port_of yarn-history)" \
      -D yarn.nodemanager.resource.memory-mb=4096 "${free[@]}"
  )
}

# Not before its node would start something.
yarn_answers() { port_open "$(port_of yarn)" && "$YARN_DIR/bin/yarn-node" -list -states RUNNING 2>/dev/null | grep -q 'RUNNING'; }

yarn_wait() { wait_ready yarn "$YARN_MARKER" 120 yarn_answers; }
