# shellcheck shell=bash
# Processes that outlive the script: ports, pid files, bounded waits, ends.
#
# A service is known by its name. Its pid and port live in .services/state, its
# output in .services/log. A pid file counts only while the command line of that
# process still holds the service's marker (a path inside SERVICES_DIR), so a
# reused pid is never taken for ours, and never killed.

pid_file() { printf '%s/state/%s.pid' "$SERVICES_DIR" "$1"; }
port_file() { printf '%s/state/%s.port' "$SERVICES_DIR" "$1"; }
log_file() { printf '%s/log/%s.log' "$SERVICES_DIR" "$1"; }

# Does anything listen on this port of 127.0.0.1?
port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# The port a service was given, or nothing.
port_of() { cat "$(port_file "$1")" 2>/dev/null || true; }

# Is this port remembered for another of our services?
port_remembered_elsewhere() {
  local name=$1 port=$2 file
  for file in "$SERVICES_DIR"/state/*.port; do
    [[ -e $file && $file != "$(port_file "$name")" ]] || continue
    [[ $(<"$file") == "$port" ]] && return 0
  done
  return 1
}

# Ports to try for a service that prefers one. A private instance takes any one
# below those that outgoing connections get, so that it is still free after a crash.
port_candidates() {
  port_of "$1"
  if [[ -n $PRIVATE ]]; then shuf -i 20000-31999 -n 200; else seq "$2" $(($2 + 200)); fi
}

# choose_port NAME PREFERRED: remembers a port nobody listens on. Only for a
# service that does not run: an open port is then somebody else's.
choose_port() {
  local name=$1 preferred=$2 candidate
  for candidate in $(port_candidates "$name" "$preferred"); do
    port_open "$candidate" && continue
    port_remembered_elsewhere "$name" "$candidate" && continue
    [[ $candidate == "$preferred" || -n $PRIVATE ]] || say "$name: using port $candidate instead of $preferred"
    printf '%s\n' "$candidate" >"$(port_file "$name")"
    return 0
  done
  die "$name: no free port among those tried"
}

# Prints the pid when the process NAME of this checkout is alive; else fails.
running_pid() {
  local name=$1 marker=$2 pid command
  pid=$(cat "$(pid_file "$name")" 2>/dev/null) || return 1
  [[ $pid =~ ^[0-9]+$ ]] || return 1
  command=$({ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null) || return 1
  [[ $command == *"$marker"* ]] || return 1
  printf '%s\n' "$pid"
}

# spawn NAME COMMAND…: starts it in a session of its own, without the lock.
spawn() {
  local name=$1 log
  shift
  log=$(log_file "$name")
  [[ ! -e $log ]] || mv "$log" "$log.previous"
  rm -f "$(pid_file "$name")"
  # shellcheck disable=SC2016 # expanded by the inner shell
  setsid bash -c 'printf "%s\n" "$$" >"$1"; shift; exec "$@"' spawn "$(pid_file "$name")" "$@" \
    >"$log" 2>&1 </dev/null 9>&- &
  wait_until 10 test -s "$(pid_file "$name")" || die "$name: could not be started"
}

# wait_until SECONDS CHECK…: true as soon as the check is, false at the bound.
wait_until() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

# wait_ready NAME MARKER SECONDS CHECK…: like wait_until, but gives up at once
# when the process has ended, and shows the end of its log on failure.
wait_ready() {
  local name=$1 marker=$2 bound=$3 deadline
  shift 3
  deadline=$((SECONDS + bound))
  until "$@" >/dev/null 2>&1; do
    if ! running_pid "$name" "$marker" >/dev/null; then
      show_log "$name"
      die "$name: ended before it was ready"
    fi
    if ((SECONDS >= deadline)); then
      show_log "$name"
      die "$name: not ready within $bound s"
    fi
    sleep 0.1
  done
  say "$name: ready on 127.0.0.1:$(port_of "$name")"
}

show_log() {
  printf -- '--- last lines of %s\n' "$(log_file "$1")" >&2
  tail -n 40 "$(log_file "$1")" >&2 || true
  printf -- '---\n' >&2
}

process_gone() { ! running_pid "$1" "$2"; }

# stop_process NAME MARKER: TERM, then KILL after 30 s; only what we started.
stop_process() {
  local name=$1 marker=$2 pid
  if pid=$(running_pid "$name" "$marker"); then
    kill -TERM "$pid" 2>/dev/null || true
    if ! wait_until 30 process_gone "$name" "$marker"; then
      say "$name: did not end within 30 s, killing it"
      kill -KILL "$pid" 2>/dev/null || true
      wait_until 10 process_gone "$name" "$marker" || die "$name: pid $pid cannot be killed"
    fi
    say "$name: stopped"
  fi
  rm -f "$(pid_file "$name")"
}
