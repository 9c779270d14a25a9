#!/usr/bin/env bash
# Runs the seven jobs by hand, as a worker would, and checks what they leave.
# Needs bash, python3 and gzip; takes about three seconds.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT
export PYTHONDONTWRITEBYTECODE=1

batch=0

fail() {
  printf 'selftest: %s\n' "$*" >&2
  exit 1
}

equal() { [[ $2 == "$3" ]] || fail "$1: expected '$2', found '$3'"; }

script_of() {
  case $1 in
    load-*) printf 'load.py' ;;
    *) printf '%s.py' "${1//-/_}" ;;
  esac
}

# job NAME LOGICAL_TIME [RUN]: one attempt with a job's environment. `exec` so
# that the pid of a background attempt is the script's own.
job() {
  exec env TIDEMILL_JOB="$1" TIDEMILL_LOGICAL_TIME="$2" TIDEMILL_RUN="${3:-1}" \
    TIDEMILL_BATCH="$batch" TIDEMILL_ATTEMPT=1 TIDEMILL_TOKEN="selftest.$batch" \
    TIDEMILL_PARAM_DIR="$DIR" TIDEMILL_PARAM_SCRIPTS="$HERE/scripts" \
    python3 "$HERE/scripts/$(script_of "$1")"
}

# expect CODE NAME LOGICAL_TIME [RUN]: the attempt ends with this exit code.
expect() {
  local wanted=$1 code=0
  shift
  batch=$((batch + 1))
  (job "$@") >"$DIR/stdout" 2>"$DIR/stderr" || code=$?
  ((code == wanted)) || fail "$1: exit code $code instead of $wanted: $(cat "$DIR/stderr")"
}

sql() { python3 -c 'import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone()[0])' "$DIR/history.db" "$1"; }
lines_of() { grep -c "$1" "$DIR/history.tsv"; }

seven_succeed() {
  local name
  for name in check-extract commits-per-day churn-per-file authors message-words load-1 load-2; do
    expect 0 "$name" "$1"
  done
}

bundle_is_what_the_generator_writes() {
  cmp <(gzip -dc "$HERE/bundled/history.tsv.gz") <(python3 "$HERE/bundled/generate.py") ||
    fail "bundled/history.tsv.gz differs from bundled/generate.py"
}

tables_hold_the_history() {
  "$HERE/extract.sh" --dir "$DIR" --bundled >/dev/null
  seven_succeed 2024-01-01T00:00:00Z
  equal commits "$(lines_of '^C')" "$(sql 'SELECT sum(commits) FROM commits_per_day')"
  equal commits "$(lines_of '^C')" "$(sql 'SELECT sum(commits) FROM authors')"
  equal touches "$(lines_of '^F')" "$(sql 'SELECT sum(commits) FROM churn_per_file')"
  equal added "$(awk -F'\t' '/^F/ { n += $3 } END { print n }' "$DIR/history.tsv")" \
    "$(sql 'SELECT sum(added) FROM churn_per_file')"
  equal added "$(sql 'SELECT sum(added) FROM authors')" "$(sql 'SELECT sum(added) FROM churn_per_file')"
  equal word "$(awk -F'\t' '/^C/' "$DIR/history.tsv" | grep -ow retry | wc -l)" \
    "$(sql "SELECT uses FROM message_words WHERE word = 'retry'")"
}

repeated_load_leaves_the_same_tables() {
  local before
  before=$(sql 'SELECT count(*) FROM message_words')
  expect 0 load-2 2024-01-01T00:00:00Z 2
  equal rows "$before" "$(sql 'SELECT count(*) FROM message_words')"
  equal run 2 "$(sql "SELECT run FROM loads WHERE job = 'load-2'")"
  seven_succeed 2024-01-01T01:00:00Z
  equal rows $((2 * before)) "$(sql 'SELECT count(*) FROM message_words')"
}

switch_breaks_message_words() {
  touch "$DIR/break-message-words"
  expect 3 message-words 2024-01-01T02:00:00Z
  grep -q 'broken on purpose' "$DIR/stderr" || fail "no reason on standard error"
  expect 0 authors 2024-01-01T02:00:00Z
  expect 2 load-2 2024-01-01T02:00:00Z
  rm "$DIR/break-message-words"
  expect 0 message-words 2024-01-01T02:00:00Z 2
  expect 0 load-2 2024-01-01T02:00:00Z
}

damaged_extract_is_noticed() {
  cp "$DIR/history.tsv" "$DIR/whole"
  head -n -1 "$DIR/whole" >"$DIR/history.tsv"
  expect 2 check-extract 2024-01-01T03:00:00Z
  rm "$DIR/history.tsv"
  expect 2 check-extract 2024-01-01T03:00:00Z
  mv "$DIR/whole" "$DIR/history.tsv"
  expect 0 check-extract 2024-01-01T03:00:00Z
}

# held NAME LOGICAL_TIME: an attempt that is in the middle; its pid in HELD.
held() {
  local deadline=$((SECONDS + 20))
  touch "$DIR/hold-$1"
  batch=$((batch + 1))
  job "$@" >/dev/null 2>&1 &
  HELD=$!
  until grep -q "^start.*selftest\.$batch	" "$DIR/attempts.log"; do
    ((SECONDS < deadline)) || fail "$1: did not start"
    sleep 0.02
  done
}

second_live_attempt_is_refused_and_recorded() {
  held authors 2024-01-01T04:00:00Z
  expect 4 authors 2024-01-01T04:00:00Z
  equal overlaps 1 "$(grep -c '^overlap' "$DIR/attempts.log")"
  rm "$DIR/hold-authors"
  wait "$HELD" || fail "the held attempt failed"
}

killed_attempt_frees_its_place() {
  local code=0
  held authors 2024-01-01T05:00:00Z
  kill -KILL "$HELD"
  wait "$HELD" 2>/dev/null || code=$?
  equal 'exit code' 137 "$code"
  equal 'ends of the killed' 0 "$(grep -c "^end.*selftest\.$batch	" "$DIR/attempts.log" || true)"
  code=0
  held authors 2024-01-01T05:00:00Z
  kill -TERM "$HELD"
  wait "$HELD" || code=$?
  equal 'exit code' 143 "$code"
  equal 'ends of the terminated' 1 "$(grep -c "^end.*selftest\.$batch	.*143$" "$DIR/attempts.log")"
  rm "$DIR/hold-authors"
  expect 0 authors 2024-01-01T05:00:00Z
}

extract_takes_a_real_history() {
  local repository=$DIR/repository
  command -v git >/dev/null 2>&1 || fail "git is missing"
  git init -q "$repository"
  printf 'one\ntwo\n' >"$repository/a file"
  git -C "$repository" add .
  git -C "$repository" -c user.name='A. Uthor' -c user.email=a@example.org commit -qm $'first\tcommit'
  "$HERE/extract.sh" --dir "$DIR/real" --repository "$repository" --min-commits 1 >/dev/null
  equal 'commit line' $'A. Uthor\tfirst commit' "$(grep '^C' "$DIR/real/history.tsv" | cut -f4-)"
  equal 'file line' $'2\t0\ta file' "$(grep '^F' "$DIR/real/history.tsv" | cut -f3-)"
  "$HERE/extract.sh" --dir "$DIR/real" --repository "$repository" >"$DIR/stdout"
  grep -q 'bundled' "$DIR/stdout" || fail "one commit is too few, but was taken"
  ! grep -q '@DEMO_DIR@\|@SCRIPTS@"' "$DIR/real/jobs.yaml" || fail "a path was not filled in"
}

for check in bundle_is_what_the_generator_writes tables_hold_the_history \
  repeated_load_leaves_the_same_tables switch_breaks_message_words damaged_extract_is_noticed \
  second_live_attempt_is_refused_and_recorded killed_attempt_frees_its_place \
  extract_takes_a_real_history; do
  "$check"
  printf 'ok  %s\n' "$check"
done
