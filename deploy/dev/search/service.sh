# shellcheck shell=bash
# One OpenSearch node, from Maven's jars.

SEARCH_DIR=$SERVICES_DIR/search
SEARCH_MARKER=-Dtidemill.search=$SEARCH_DIR
SEARCH_LIB=$(jars_of search)
SEARCH_HEAP=${TIDEMILL_DEV_SEARCH_HEAP:-512m}

search_address() { printf 'http://127.0.0.1:%s' "$(port_of search)"; }

# javac: the node's main class is started from its source.
search_packages() {
  need javac openjdk-17-jdk-headless
  need curl curl
  need_jars search
}

search_install() { fetch_jars search -DincludeScope=runtime; }

search_launch() {
  choose_port search 19200
  choose_port search-transport 19300
  mkdir -p "$SEARCH_DIR/home/config"
  spawn search java "-Xmx$SEARCH_HEAP" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto \
    "$SEARCH_MARKER" -cp "$SEARCH_LIB/*" "$DEV_DIR/search/SearchNode.java" \
    "$SEARCH_DIR/home" "$(port_of search)" "$(port_of search-transport)"
}

search_answers() {
  curl -fsS --max-time 2 "$(search_address)/_cluster/health" | grep -Eq '"status" ?: ?"(green|yellow)"'
}

search_wait() { wait_ready search "$SEARCH_MARKER" 120 search_answers; }
