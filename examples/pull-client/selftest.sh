#!/usr/bin/env bash
# Runs clients against a server of their own, and checks what the server has on record. Needs bash and python3, and
# the program: TIDEMILL_BIN names it, else it is built. Takes about half a minute.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DIR=$(mktemp -d)
export PYTHONDONTWRITEBYTECODE=1
unset TIDEMILL_SERVER TIDEMILL_KEY TIDEMILL_CONFIG

fail() {
  printf 'selftest: %s\n' "$*" >&2
  exit 1
}

equal() { [[ $2 == "$3" ]] || fail "$1: expected '$2', found '$3'"; }

if [[ -z ${TIDEMILL_BIN:-} ]]; then
  (cd "$HERE/../.." && cargo build --locked -q -p tidemill)
  TIDEMILL_BIN=${CARGO_TARGET_DIR:-$HERE/../../target}/debug/tidemill
fi

"$TIDEMILL_BIN" standalone --listen 127.0.0.1:0 --data "$DIR/data" >"$DIR/server.log" 2>&1 &
SERVER=$!
trap 'kill $SERVER 2>/dev/null || true; wait $SERVER 2>/dev/null || true; rm -rf "$DIR"' EXIT

# until WHAT COMMAND…: within 30 seconds.
until_true() {
  local what=$1 deadline=$((SECONDS + 30))
  shift
  until "$@"; do
    kill -0 "$SERVER" 2>/dev/null || fail "the server has ended: $(tail -5 "$DIR/server.log")"
    ((SECONDS < deadline)) || fail "not within 30 seconds: $what"
    sleep 0.1
  done
}

tidemill() { "$TIDEMILL_BIN" "$@" --data "$DIR/data"; }

# client USER OPTION…: `exec`, so that the pid of one in the background is its own.
client() {
  exec env TIDEMILL_SERVER="http://$(cat "$DIR/data/api.address")" TIDEMILL_KEY="$(cat "$DIR/data/admin.key")" \
    python3 "$HERE/client.py" "$@"
}

# of FIELD…: one field of a JSON answer on standard input.
of() { python3 -c 'import json, sys
value = json.load(sys.stdin)
for name in sys.argv[1:]:
    value = value[int(name) if name.isdigit() else name]
print(value)' "$@"; }

# task FIELDS: adds a task that is due since a moment ago; its id in TASK.
task() {
  local start
  start=$(python3 -c 'import datetime as d; print((d.datetime.now(d.timezone.utc) - d.timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ"))')
  printf 'tasks: [{template: count-words, when: {once: {start: "%s"}}, %s}]\n' "$start" "$1" >"$DIR/tasks.yaml"
  TASK=$(tidemill pull task create -f "$DIR/tasks.yaml" -o json | of items 0 task)
}

# ledger FIELD: of the totals of TASK, as its owner has them now.
ledger() { tidemill pull task ledger "$TASK" --live -o json | of totals "$1"; }
is_ledger() { [[ $(ledger "$1") == "$2" ]]; }
balances() {
  tidemill pull task ledger "$TASK" --live -o json | python3 -c 'import json, sys
of = json.load(sys.stdin)["totals"]
assert of["balanced"] and of["taken"] == of["live"] + of["completed"] + of["returned"] + of["expired"], of'
}

client_works_and_completes() {
  task 'executor: {user: ann}, name: count, parameters: {text: to be or not to be}'
  (client ann --until-empty --wait 0) >"$DIR/out" 2>"$DIR/err" || fail "the client failed: $(cat "$DIR/err")"
  equal result "ann $TASK $(cut -d' ' -f3 "$DIR/out") 6 words" "$(cat "$DIR/out")"
  equal 'on record' '6 words' "$(tidemill pull grants --user ann -o json | of items 0 result)"
  balances
}

bad_task_is_refused_by_name() {
  local start code=0
  start=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  printf 'tasks: [{executor: {user: ann}, template: count-words, parameters: {words: 3}, when: {once: {start: "%s"}}}]\n' \
    "$start" >"$DIR/tasks.yaml"
  tidemill pull task create -f "$DIR/tasks.yaml" >"$DIR/out" 2>"$DIR/err" || code=$?
  equal 'exit code' 2 "$code"
  grep -q 'parameters.text' "$DIR/err" || fail "the missing parameter is not named: $(cat "$DIR/err")"
  grep -q 'parameters.words' "$DIR/err" || fail "the extra parameter is not named: $(cat "$DIR/err")"
}

six_of_twenty_get_it() {
  local number pids=()
  task 'executor: {group: default}, name: six, parameters: {text: a b}, dispatch_times: 6'
  for number in {1..20}; do
    (client "u$number" --until-empty --wait 0) >"$DIR/out.$number" 2>"$DIR/err.$number" &
    pids+=($!)
  done
  for number in "${!pids[@]}"; do
    wait "${pids[$number]}" || fail "a client failed: $(cat "$DIR/err.$((number + 1))")"
  done
  equal completed 6 "$(cat "$DIR"/out.* | grep -c " $TASK ")"
  equal users 6 "$(cat "$DIR"/out.* | grep " $TASK " | cut -d' ' -f1 | sort -u | wc -l)"
  equal 'in the ledger' 6 "$(ledger completed)"
  balances
}

killed_client_gets_the_same_again() {
  task 'executor: {user: bob}, parameters: {text: one, pause_s: 2}'
  (client bob --limit 1) >/dev/null 2>"$DIR/err" &
  local held=$!
  until_true 'bob has it' is_ledger live 1
  kill -KILL "$held"
  wait "$held" 2>/dev/null || true
  (client bob --limit 1) >"$DIR/out" 2>"$DIR/err" || fail "the client failed: $(cat "$DIR/err")"
  grep -q 'again' "$DIR/err" || fail "it is not the same grant: $(cat "$DIR/err")"
  equal taken 1 "$(ledger taken)"
  equal completed 1 "$(ledger completed)"
}

stopped_client_gives_it_back() {
  local code=0
  task 'executor: {user: bob}, parameters: {text: one, pause_s: 60}'
  # What an earlier client said there must not be taken for the words of this one.
  : >"$DIR/err"
  (client bob --limit 1) >/dev/null 2>"$DIR/err" &
  local held=$!
  # The client says so once it has it; only then it is at work.
  until_true 'bob works' grep -q 'has grant' "$DIR/err"
  kill -TERM "$held"
  wait "$held" || code=$?
  equal 'exit code' 143 "$code"
  equal returned 1 "$(ledger returned)"
  balances
  tidemill pull task delete "$TASK" >/dev/null
}

late_completion_changes_nothing() {
  task 'executor: {group: default}, parameters: {text: one, pause_s: 7}, lease_s: 5'
  (client carl --limit 1 --until-empty) >"$DIR/out" 2>"$DIR/err" &
  local late=$!
  until_true 'the lease runs out' is_ledger expired 1
  tidemill pull task delete "$TASK" >/dev/null
  wait "$late" || fail "the late client failed: $(cat "$DIR/err")"
  grep -q 'too late' "$DIR/err" || fail "nobody said that it was too late: $(cat "$DIR/err")"
  equal completed 0 "$(ledger completed)"
  balances
}

repeat_goes_on_with_the_same_user() {
  task 'executor: {group: default}, parameters: {text: one}, dispatch_times: 5, repeat: true'
  (client dora --until-empty --wait 0) >"$DIR/out" 2>"$DIR/err" || fail "the client failed: $(cat "$DIR/err")"
  equal 'times' 5 "$(grep -c " $TASK " "$DIR/out")"
  balances
}

until_true 'the server answers' test -s "$DIR/data/api.address"
until_true 'the group is there' bash -c "'$TIDEMILL_BIN' group ls --data '$DIR/data' 2>/dev/null | grep -q default"
tidemill pull template apply -f "$HERE/templates.yaml" >/dev/null
tidemill pull user assign default ann bob carl dora u{1..20} >/dev/null
for check in client_works_and_completes bad_task_is_refused_by_name six_of_twenty_get_it \
  killed_client_gets_the_same_again stopped_client_gives_it_back late_completion_changes_nothing \
  repeat_goes_on_with_the_same_user; do
  "$check"
  printf 'ok  %s\n' "$check"
done
