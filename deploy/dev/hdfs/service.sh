# shellcheck shell=bash
# One HDFS: a name node and a data node, two processes, from Maven's jars.

HDFS_DIR=$SERVICES_DIR/hdfs
# Both processes have it in their command line.
HDFS_MARKER=-Dtidemill.hdfs=$HDFS_DIR
HDFS_LIB=$(jars_of hdfs)
HDFS_HEAP=${TIDEMILL_DEV_HDFS_HEAP:-256m}

hdfs_address() { printf 'hdfs://127.0.0.1:%s' "$(port_of hdfs)"; }

hdfs_packages() {
  need java openjdk-17-jre-headless
  need curl curl
  need_jars hdfs
}

hdfs_install() { fetch_jars hdfs -DincludeScope=runtime; }

hdfs_configure() {
  local file
  mkdir -p "$HDFS_DIR/conf/webapps/hdfs" "$HDFS_DIR/conf/webapps/datanode"
  for file in core-site.xml hdfs-site.xml log4j.properties; do
    sed -e "s|@PORT@|$(port_of hdfs)|g" \
      -e "s|@HTTP_PORT@|$(port_of hdfs-http)|g" \
      -e "s|@BLOCK_PORT@|$(port_of hdfs-block)|g" \
      -e "s|@IPC_PORT@|$(port_of hdfs-ipc)|g" \
      -e "s|@DATA_HTTP_PORT@|$(port_of hdfs-data-http)|g" \
      -e "s|@DATA@|$HDFS_DIR/data|g" \
      "$DEV_DIR/hdfs/$file" >"$HDFS_DIR/conf/$file"
  done
}

# The command of one node, in COMMAND; its last word is the class.
hdfs_command() {
  COMMAND=(java "-Xmx$HDFS_HEAP" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto
    "$HDFS_MARKER" -cp "$HDFS_DIR/conf:$HDFS_LIB/*" "org.apache.hadoop.hdfs.server.$1")
}

hdfs_format() {
  local COMMAND
  [[ ! -e $HDFS_DIR/data/name/current/VERSION ]] || return 0
  hdfs_command namenode.NameNode
  if ! "${COMMAND[@]}" -format -force -nonInteractive >"$(log_file hdfs)" 2>&1; then
    show_log hdfs
    die "hdfs: the name node could not be formatted"
  fi
}

# Starts whichever of the two does not run: the name node alone may have been ended.
hdfs_launch() {
  local COMMAND
  if ! running_pid hdfs "$HDFS_MARKER" >/dev/null; then
    choose_port hdfs 19820
    choose_port hdfs-http 19870
    if ! running_pid hdfs-data "$HDFS_MARKER" >/dev/null; then
      choose_port hdfs-block 19866
      choose_port hdfs-ipc 19867
      choose_port hdfs-data-http 19864
    fi
    hdfs_configure
    hdfs_format
    hdfs_command namenode.NameNode
    spawn hdfs "${COMMAND[@]}"
  fi
  if ! running_pid hdfs-data "$HDFS_MARKER" >/dev/null; then
    hdfs_command datanode.DataNode
    spawn hdfs-data "${COMMAND[@]}"
  fi
}

# One answer of the name node's own description of itself.
hdfs_says() {
  curl -fsS --max-time 2 "http://127.0.0.1:$(port_of hdfs-http)/jmx?qry=Hadoop:service=NameNode,name=$1" |
    grep -Eq "$2"
}

hdfs_answers() {
  hdfs_says NameNodeInfo '"Safemode" : ""' && hdfs_says FSNamesystemState '"NumLiveDataNodes" : 1,'
}

hdfs_wait() { wait_ready hdfs "$HDFS_MARKER" 90 hdfs_answers; }
