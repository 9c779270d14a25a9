#!/usr/bin/env bash
# Runs the consumers against a small cluster of its own and compares what they have with the journal. Needs bash and java, the
# services Kafka and MariaDB with their addresses, jars and Python (see deploy/dev/services), and the program: TIDEMILL_BIN names
# it, else it is built. Takes a minute and a half.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONDONTWRITEBYTECODE=1

fail() {
  printf 'selftest: %s\n' "$*" >&2
  exit 1
}

for variable in TIDEMILL_TEST_KAFKA TIDEMILL_TEST_KAFKA_JARS TIDEMILL_TEST_MYSQL TIDEMILL_TEST_PYTHON; do
  [[ -n ${!variable:-} ]] ||
    fail "$variable is not set: run \`deploy/dev/services start kafka mariadb\`, then \`eval \"\$(deploy/dev/services env)\"\`"
done
if [[ -z ${TIDEMILL_BIN:-} ]]; then
  (cd "$HERE/../.." && cargo build --locked -q -p tidemill --features kafka,mysql)
  TIDEMILL_BIN=${CARGO_TARGET_DIR:-$HERE/../../target}/debug/tidemill
fi

DIR=$(mktemp -d)
NAME=$(basename "$DIR" | tr -dc '[:alnum:]' | tr '[:upper:]' '[:lower:]')
PREFIX=tidemill-test-$NAME
TOPIC=$PREFIX.events
PARTITIONS=3
BATCHES=40
SERVER_OF_MYSQL=${TIDEMILL_TEST_MYSQL%/*}
TABLES=$SERVER_OF_MYSQL/tidemill_test_$NAME
WAREHOUSE=$SERVER_OF_MYSQL/tidemill_test_${NAME}_feed
BROKERS=$TIDEMILL_TEST_KAFKA
# By name: what runs.
declare -A RUNNING

# A copy: a build beside the test does not replace it.
cp "$TIDEMILL_BIN" "$DIR/tidemill"
for variable in $(compgen -e TIDEMILL_); do
  [[ $variable == TIDEMILL_TEST_* ]] || unset "$variable"
done
export TIDEMILL__LOG__BACKEND=kafka TIDEMILL__LOG__BROKERS=$BROKERS TIDEMILL__LOG__PREFIX=$PREFIX \
  TIDEMILL__LOG__PARTITIONS=$PARTITIONS TIDEMILL__LOG__SINGLE_BROKER=true TIDEMILL__STORE__URL=$TABLES \
  TIDEMILL__INTERNAL_KEY=key-of-$NAME TIDEMILL__EXECUTOR__GROUP=demo TIDEMILL__API__LISTEN=127.0.0.1:0

python() { "$TIDEMILL_TEST_PYTHON" "$@"; }
tidemill() { (cd "$DIR" && TIDEMILL_DATA=$DIR/admin ./tidemill "$@"); }
java_of_kafka() { exec java -Xmx256m -cp "$TIDEMILL_TEST_KAFKA_JARS/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn "$@"; }

# sql URL STATEMENT: its rows, a line each, columns divided by a tab.
sql() {
  python - "$HERE" "$@" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[1])
import pymysql, sqlite3, urllib.parse
url, statement = sys.argv[2:]
parts = urllib.parse.urlsplit(url)
if parts.scheme == "sqlite":
    connection = sqlite3.connect(parts.path[1:], timeout=30)
else:
    connection = pymysql.connect(host=parts.hostname, port=parts.port, user=parts.username, password=parts.password or "",
                                 database=parts.path[1:] or None)
cursor = connection.cursor()
cursor.execute(statement)
for row in cursor.fetchall():
    print(*row, sep="\t")
connection.commit()
PYTHON
}

# start NAME COMMAND…: in the background, its output in a file of its name; its pid in RUNNING.
start() {
  local name=$1
  shift
  (cd "$DIR" && exec "$@") >"$DIR/$name.out" 2>"$DIR/$name.log" &
  RUNNING[$name]=$!
}

# wait_for NAME: until it has ended, for 60 seconds at most; its exit code in CODE.
wait_for() {
  local deadline=$((SECONDS + 60))
  until ! kill -0 "${RUNNING[$1]}" || ((SECONDS >= deadline)); do sleep 0.05; done 2>/dev/null
  ! kill -0 "${RUNNING[$1]}" 2>/dev/null || fail "$1 goes on: $(tail -3 "$DIR/$1.log")"
  CODE=0
  wait "${RUNNING[$1]}" 2>/dev/null || CODE=$?
  unset "RUNNING[$1]"
}

# end SIGNAL NAME: ends it.
end() {
  kill "-$1" "${RUNNING[$2]}" 2>/dev/null || true
  wait_for "$2"
}

# until_true WHAT COMMAND…: within 60 seconds.
until_true() {
  local what=$1 deadline=$((SECONDS + 60)) name
  shift
  until "$@" 2>"$DIR/until.log"; do
    for name in "${!RUNNING[@]}"; do
      kill -0 "${RUNNING[$name]}" 2>/dev/null || fail "$name has ended: $(tail -5 "$DIR/$name.log")"
    done
    ((SECONDS < deadline)) || fail "not within 60 seconds: $what $(tail -3 "$DIR/until.log")"
    sleep 0.1
  done
}

clean_up() {
  local name
  for name in "${!RUNNING[@]}"; do end KILL "$name"; done 2>/dev/null
  sql "$SERVER_OF_MYSQL/" "DROP DATABASE IF EXISTS ${TABLES##*/}" || true
  sql "$SERVER_OF_MYSQL/" "DROP DATABASE IF EXISTS ${WAREHOUSE##*/}" || true
  python - "$BROKERS" "$PREFIX" <<'PYTHON' || true
import sys
import confluent_kafka.admin
admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": sys.argv[1]})
topics = [topic for topic in admin.list_topics(timeout=30).topics if topic.startswith(sys.argv[2] + ".")]
for future in admin.delete_topics(topics).values() if topics else ():
    future.result()
PYTHON
  rm -rf "$DIR"
}
trap clean_up EXIT

role() {
  local name=$1
  shift
  start "$name" env TIDEMILL_DATA="$DIR/$name" "$@" "$DIR/tidemill" "$name"
}

cluster_runs() {
  local port
  sql "$SERVER_OF_MYSQL/" "CREATE DATABASE ${TABLES##*/}"
  sql "$SERVER_OF_MYSQL/" "CREATE DATABASE ${WAREHOUSE##*/}"
  tidemill topics create >/dev/null
  port=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  role dispatcher TIDEMILL__DISPATCHER__ADDRESS="127.0.0.1:$port"
  role projector
  role api
  tidemill bootstrap >/dev/null
  until_true 'the interface listens' grep -q 'listens on [^ ]' "$DIR/api.log" "$DIR/api.out"
  TIDEMILL_SERVER=http://$(grep -ho 'listens on [0-9.:]*' "$DIR/api.log" "$DIR/api.out" | head -1 | cut -d' ' -f3)
  export TIDEMILL_SERVER
  until_true 'the tables have the key' tidemill group ls >/dev/null
}

# There are jobs of a parent and a child, whose batches end at once, and one batch whose result is overridden.
cluster_works() {
  local number
  printf 'jobs:\n- {name: first, group: demo, type: anchor}\n- {name: second, group: demo, type: anchor, parents: [first]}\n' \
    >"$DIR/jobs.yaml"
  tidemill job apply -f "$DIR/jobs.yaml" >/dev/null
  for ((number = 0; number < BATCHES; number++)); do
    until_true "run $number is accepted" tidemill job run demo/first --concurrent --idempotency-key "run-$number" \
      --logical-time "$(date -u -d "2024-01-01 $number minutes" +%Y-%m-%dT%H:%M:00Z)" >/dev/null
  done
  until_true 'the batches end' all_have_ended
  MARKED=$(tidemill batch ls --job demo/second -o json | of 'value["items"][-1]["id"]')
  tidemill batch mark "$MARKED" failed --reason 'to see it' >/dev/null
}

of() { python -c 'import json, sys; value = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"; }
all_have_ended() { [[ $(tidemill batch ls --state finished --limit 1000 -o json | of 'len(value["items"])') == $((2 * BATCHES)) ]]; }

# Events once each, in the order of each partition, in one way to write JSON.
once() {
  python "$HERE/once.py" | python -c 'import json, sys
for line in sys.stdin:
    print(json.dumps(json.loads(line), sort_keys=True))'
}

# Sums of the ends of the topic's partitions: how many records it has.
records() {
  python - "$BROKERS" "$1" <<'PYTHON'
import sys
import confluent_kafka as kafka
consumer = kafka.Consumer({"bootstrap.servers": sys.argv[1], "group.id": "selftest"})
parts = [kafka.TopicPartition(sys.argv[2], number) for number in consumer.list_topics(sys.argv[2], 30).topics[sys.argv[2]].partitions]
print(sum(consumer.get_watermark_offsets(part, timeout=30)[1] for part in parts))
PYTHON
}

# The publisher is done once the topic has what the interface gives; the interface waits for more than there is.
feed_is_published() {
  EVENTS=$(records "$TOPIC")
  until_true 'the marked batch is on the feed' bash -c "grep -q batch.result_overridden <(cd '$DIR' && timeout 2 env TIDEMILL_DATA=admin \
    ./tidemill events tail --from start --type batch.result_overridden --limit 1 -o json)"
  until_true 'nothing more is published' no_more_records
  tidemill events tail --from start --limit "$EVENTS" -o json | once >"$DIR/journal.jsonl"
  ((EVENTS > 4 * BATCHES)) || fail "the topic has $EVENTS records only"
  [[ $(wc -l <"$DIR/journal.jsonl") == "$EVENTS" ]] || fail "the journal has other events than the topic's $EVENTS records"
}
no_more_records() {
  local before=$EVENTS
  sleep 1
  EVENTS=$(records "$TOPIC")
  [[ $EVENTS == "$before" ]]
}

# same WHAT FILE: the events in it are those of the journal, each as often.
same() { cmp -s "$DIR/journal.jsonl" "$2" || fail "$1: the events differ from the journal's: $(diff "$DIR/journal.jsonl" "$2" | head -3)"; }

console_consumer_reads_the_feed() {
  (java_of_kafka org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$BROKERS" --topic "$TOPIC" \
    --from-beginning --max-messages "$EVENTS" --timeout-ms 30000) >"$DIR/console.jsonl" 2>"$DIR/console.log" ||
    fail "the console consumer failed: $(tail -5 "$DIR/console.log")"
  once <"$DIR/console.jsonl" >"$DIR/console.once"
  same 'console' "$DIR/console.once"
}

# load DATABASE OPTION…: in the background. With a name of its own in the group, one that was killed has its partitions again at once.
load() {
  local url=$1
  shift
  start loader "$TIDEMILL_TEST_PYTHON" "$HERE/to_sql.py" --brokers "$BROKERS" --topic "$TOPIC" --group "$PREFIX-$GROUP" --database "$url" \
    --setting group.instance.id=one "$@"
}
# load_all DATABASE OPTION…: to the end.
load_all() {
  load "$@" --until-end
  wait_for loader
  ((CODE == 0)) || fail "the loader failed: $(tail -5 "$DIR/loader.log")"
}

# In the form in which the interface gives them; `data` is compared in full.
tables_hold_the_journal() {
  local url=$1 what=$2
  sql "$url" 'SELECT source, id, type, subject, time, data FROM feed_events' >"$DIR/events.tsv"
  python - "$DIR/events.tsv" "$DIR/journal.jsonl" <<'PYTHON' || fail "$what: the events differ from the journal's"
import json, sys
rows = [line.rstrip("\n").split("\t", 5) for line in open(sys.argv[1])]
names = ("source", "id", "type", "subject", "time")
loaded = [{**dict(zip(names, row)), "data": json.loads(row[5])} for row in rows]
journal = [json.loads(line) for line in open(sys.argv[2])]
wanted = [{name: event[name] for name in (*names, "data")} for event in journal]
key = lambda event: (event["source"], event["id"])
if sorted(loaded, key=key) != sorted(wanted, key=key):
    sys.exit(f"{len(loaded)} events are loaded, {len(wanted)} in the journal")
PYTHON
  tidemill batch ls --limit 1000 -o json | of '"\n".join(sorted("\t".join((str(b["id"]), b["job_name"], b["logical_time"], b["result"])) for b in value["items"]))' \
    >"$DIR/wanted.tsv"
  sql "$url" 'SELECT batch, job_name, logical_time, result FROM batch_results' | LC_ALL=C sort >"$DIR/batches.tsv"
  LC_ALL=C sort -o "$DIR/wanted.tsv" "$DIR/wanted.tsv"
  grep -q failed "$DIR/wanted.tsv" || fail 'no batch has another result'
  cmp -s "$DIR/wanted.tsv" "$DIR/batches.tsv" || fail "$what: the batches differ: $(diff "$DIR/wanted.tsv" "$DIR/batches.tsv" | head -3)"
}

loaded_records() { sql "$1" 'SELECT COALESCE(SUM(next_offset), 0) FROM feed_positions'; }
loaded_events() { sql "$1" 'SELECT count(*) FROM feed_events'; }

# killed_in_the_middle DATABASE: three times behind the rows and before the commit, and three times between commits.
killed_in_the_middle() {
  local url=$1 round before
  GROUP=killed-${url%%:*}
  for round in 1 2 3; do
    load "$url" --batch 5 --pause-s 60
    until_true 'it holds rows' grep -q '^holds' "$DIR/loader.log"
    before=$(loaded_records "$url")
    end KILL loader
    ((CODE == 137)) || fail "the loader was to be killed, and ended with $CODE"
    # The transaction is gone whole.
    [[ $(loaded_records "$url") == "$before" ]] || fail "$url: the position moved without its rows"
    [[ $(loaded_events "$url") == "$before" ]] || fail "$url: there are $(loaded_events "$url") events at position $before"
    load "$url" --batch 5 --pause-s 0.5
    until_true 'it has committed' grep -q '^committed' "$DIR/loader.log"
    end KILL loader
    (($(loaded_records "$url") > before)) || fail "$url: the position is where it was, $before"
    [[ $(loaded_events "$url") == "$(loaded_records "$url")" ]] || fail "$url: events and position differ"
  done
  ((before < EVENTS)) || fail 'it was killed at the end only'
  load_all "$url"
  tables_hold_the_journal "$url" "$url"
  [[ $(loaded_records "$url") == "$EVENTS" ]] || fail "$url: the position is $(loaded_records "$url"), not $EVENTS"
}

sqlite_is_loaded_once_though_killed() { killed_in_the_middle "sqlite:///$DIR/killed.db"; }
mariadb_is_loaded_once_though_killed() { killed_in_the_middle "$WAREHOUSE"; }

# The same records in another topic: in each partition the last one first, then all again in any order.
repeats_and_late_events_change_nothing() {
  local TOPIC=$TOPIC
  python - "$BROKERS" "$TOPIC" "$PREFIX.shuffled" "$PARTITIONS" <<'PYTHON'
import random, sys
import confluent_kafka as kafka
import confluent_kafka.admin
brokers, topic, other, partitions = *sys.argv[1:4], int(sys.argv[4])
admin = kafka.admin.AdminClient({"bootstrap.servers": brokers})
[future.result() for future in admin.create_topics([kafka.admin.NewTopic(other, partitions, 1)]).values()]
consumer = kafka.Consumer({"bootstrap.servers": brokers, "group.id": "selftest", "enable.auto.commit": False})
producer = kafka.Producer({"bootstrap.servers": brokers})
for number in range(partitions):
    part = kafka.TopicPartition(topic, number, kafka.OFFSET_BEGINNING)
    end = consumer.get_watermark_offsets(part, timeout=30)[1]
    consumer.assign([part])
    found = []
    while len(found) < end:
        found += [message for message in consumer.consume(500, timeout=1) if not message.error()]
    again = found[:]
    random.Random(number).shuffle(again)
    for message in [*reversed(found), *again]:
        producer.produce(other, message.value(), message.key(), partition=number)
    producer.flush(30)
PYTHON
  TOPIC=$PREFIX.shuffled GROUP=shuffled
  load_all "sqlite:///$DIR/shuffled.db" --batch 7
  tables_hold_the_journal "sqlite:///$DIR/shuffled.db" 'shuffled'
  grep -q ' [1-9][0-9]* of them repeats' "$DIR/loader.log" || fail 'no repeat was seen'
  [[ $(loaded_records "sqlite:///$DIR/shuffled.db") == $((2 * EVENTS)) ]] || fail 'not all was read'
}

# Who lost the partition without knowing it must not write.
moved_position_is_noticed() {
  local url=sqlite:///$DIR/moved.db before
  GROUP=moved
  load "$url"
  until_true 'all is loaded' test_equal "$EVENTS" loaded_records "$url"
  sql "$url" 'UPDATE feed_positions SET next_offset = next_offset - 1'
  before=$(loaded_events "$url")
  tidemill job run demo/first --logical-time 2024-02-01T00:00:00Z --idempotency-key moved >/dev/null
  wait_for loader
  ((CODE == 1)) || fail "the loader ended with $CODE"
  grep -q 'another consumer has it; nothing was written' "$DIR/loader.log" || fail "it did not say why: $(tail -3 "$DIR/loader.log")"
  [[ $(loaded_events "$url") == "$before" ]] || fail 'it wrote what another consumer has'
}
test_equal() { local wanted=$1; shift; [[ $("$@") == "$wanted" ]]; }

# A position that the topic does not have any more is not passed over.
lost_position_is_told() {
  local url=sqlite:///$DIR/lost.db
  GROUP=lost
  load_all "$url"
  sql "$url" 'UPDATE feed_positions SET next_offset = next_offset + 1000000'
  load "$url"
  wait_for loader
  ((CODE == 1)) && grep -q 'events are missing' "$DIR/loader.log" || fail "it ended with $CODE: $(tail -3 "$DIR/loader.log")"
}

connect() {
  start connect bash -c 'exec java -Xmx256m -cp "$1/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
    org.apache.kafka.connect.cli.ConnectStandalone worker.properties file-sink.properties' connect "$TIDEMILL_TEST_KAFKA_JARS"
}
lines_in_file() { [[ -e $DIR/events.jsonl && $(wc -l <"$DIR/events.jsonl") -ge $1 ]]; }

# It is killed before it has noted an offset, so all that it wrote comes again.
connect_writes_every_event_and_repeats_after_a_kill() {
  local port
  port=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  # What comes last counts.
  printf '%s\n' "bootstrap.servers=$BROKERS" "listeners=http://127.0.0.1:$port" 'offset.flush.interval.ms=600000' |
    cat "$HERE/connect/worker.properties" - >"$DIR/worker.properties"
  printf '%s\n' "topics=$TOPIC" "name=$PREFIX-sink" |
    cat "$HERE/connect/file-sink.properties" - >"$DIR/file-sink.properties"
  connect
  until_true 'the file has all' lines_in_file "$EVENTS"
  end KILL connect
  connect
  until_true 'all is there again' lines_in_file $((2 * EVENTS))
  end TERM connect
  [[ $(sort -u "$DIR/events.jsonl" | wc -l) == "$EVENTS" ]] || fail 'a repeat is another event'
  once <"$DIR/events.jsonl" >"$DIR/events.once"
  same 'connect' "$DIR/events.once"
}

cluster_runs
cluster_works
feed_is_published
for check in console_consumer_reads_the_feed connect_writes_every_event_and_repeats_after_a_kill \
  sqlite_is_loaded_once_though_killed mariadb_is_loaded_once_though_killed repeats_and_late_events_change_nothing \
  lost_position_is_told moved_position_is_noticed; do
  "$check"
  printf 'ok  %s\n' "$check"
done
