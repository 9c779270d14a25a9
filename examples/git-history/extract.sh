#!/usr/bin/env bash
# Prepares a directory for the example: the input, and the jobs that read it.
#
# usage: extract.sh --dir DIR [--repository REPO] [--min-commits N] [--bundled]
#
#   --dir DIR          where everything goes (default: DEMO_DIR)
#   --repository REPO  whose history to take (default: the repository of this example)
#   --min-commits N    with fewer, the bundled extract is taken (default: 20)
#   --bundled          take the bundled extract
#
# Writes history.tsv (layout: scripts/history.py), history.tsv.check (its lines
# and SHA-256) and jobs.yaml with the paths filled in. Repeatable.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
MAX_COMMITS=5000

directory=${DEMO_DIR:-}
repository=$HERE
min_commits=20
bundled=no

fail() {
  printf 'extract.sh: %s\n' "$*" >&2
  exit 2
}

while (($# > 0)); do
  case $1 in
    --bundled) bundled=yes ;;
    --dir | --repository | --min-commits)
      (($# > 1)) || fail "$1 wants a value"
      case $1 in
        --dir) directory=$2 ;;
        --repository) repository=$2 ;;
        --min-commits) min_commits=$2 ;;
      esac
      shift
      ;;
    *) fail "unknown argument '$1'" ;;
  esac
  shift
done

# The history as lines C and F; tabs inside a subject or a path become blanks.
write_history() {
  git -C "$repository" -c core.quotePath=false log -n "$MAX_COMMITS" --numstat --no-renames \
    --no-show-signature --format='%x01%H%x01%aI%x01%aN%x01%s' |
    awk '
      /^\001/ {
        gsub(/\t/, " ")
        split($0, c, "\001")
        hash = c[2]
        printf "C\t%s\t%s\t%s\t%s\n", hash, c[3], c[4], c[5]
        next
      }
      split($0, f, "\t") >= 3 {
        path = f[3]
        for (i = 4; i in f; i++) path = path " " f[i]
        printf "F\t%s\t%d\t%d\t%s\n", hash, f[1] + 0, f[2] + 0, path
      }'
}

enough_commits() {
  local count
  command -v git >/dev/null 2>&1 || return 1
  count=$(git -C "$repository" rev-list --count HEAD 2>/dev/null) || return 1
  ((count >= min_commits))
}

[[ -n $directory ]] || fail "say where to write: --dir DIR"
[[ $min_commits =~ ^[0-9]+$ ]] || fail "--min-commits wants a number, not '$min_commits'"
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

if [[ $bundled == no ]] && enough_commits; then
  source="the history of $repository"
  write_history >"$directory/history.tsv.new"
else
  source="the bundled extract"
  gzip -dc "$HERE/bundled/history.tsv.gz" >"$directory/history.tsv.new"
fi
lines=$(wc -l <"$directory/history.tsv.new")
sum=$(sha256sum <"$directory/history.tsv.new")
printf '%d %s\n' "$lines" "${sum%% *}" >"$directory/history.tsv.check.new"
mv "$directory/history.tsv.new" "$directory/history.tsv"
mv "$directory/history.tsv.check.new" "$directory/history.tsv.check"

python3 - "$HERE/jobs.yaml" "$directory" "$HERE/scripts" >"$directory/jobs.yaml.new" <<'PYTHON'
import json, sys
template, directory, scripts = sys.argv[1:]
text = open(template, encoding="utf-8").read()
# A JSON string is a YAML string, whatever the path holds.
text = text.replace('"@DEMO_DIR@"', json.dumps(directory)).replace('"@SCRIPTS@"', json.dumps(scripts))
sys.stdout.reconfigure(encoding="utf-8")
sys.stdout.write(text)
PYTHON
mv "$directory/jobs.yaml.new" "$directory/jobs.yaml"
printf '%d lines from %s in %s\n' "$lines" "$source" "$directory"
