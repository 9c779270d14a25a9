#!/usr/bin/env python3
"""A client that pulls its user's tasks, does them and completes them. Python's standard library is all it needs.

    TIDEMILL_SERVER=http://127.0.0.1:8780 TIDEMILL_KEY=app:secret ./client.py ann

The work here: count the words of the parameter `text`, after `pause_s` seconds where that is given. Put your own
into `work`. Three rules make it safe, whatever breaks in between:

- Every call may be repeated: a pull gives the same grant until that is completed, a completion with the same result
  is accepted twice. So whatever did not answer is simply asked again.
- A client that starts again pulls: what it had not completed it gets first (`redo`).
- A completion may come too late, when the grant's lease has run out: then the task is somebody else's, and the
  result is thrown away.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
import urllib.error
import urllib.request

# Between two tries of a call that found nobody, seconds; doubles up to the second one.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
# Longer than the longest poll.
TIMEOUT_S = 45
# Asked again after so long at the latest, where nothing is due.
IDLE_S = 60


class Refused(Exception):
    """The server understood, and says no. Repeating it changes nothing."""

    def __init__(self, status, problem):
        super().__init__(problem.get("detail") or f"status {status}")
        self.status = status
        self.code = problem.get("code", "")


class Stopped(Exception):
    """SIGTERM or Ctrl-C."""


class Client:
    def __init__(self, server, key):
        self.server = server.rstrip("/")
        self.key = key

    def pull(self, user, wait_s):
        """What the user has or gets, and when to ask again if that is nothing."""
        answer = self.call("/api/pull", {"user": user, "wait_s": wait_s})
        return answer.get("grant"), answer.get("retry_after_s")

    def complete(self, user, grant, result):
        self.call("/api/pull/complete", {"user": user, "grant": grant, "result": result})

    def give_back(self, user, grant, reason):
        try:
            self.call("/api/pull/return", {"user": user, "grant": grant, "reason": reason})
        except Refused as refused:
            # It is over already: by a lease that ran out, or because this was said before and the answer was lost.
            if refused.code != "grant_over":
                raise

    def call(self, path, body):
        """Asks until there is an answer."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                return self.call_once(path, body)
            except urllib.error.HTTPError as error:
                problem = read_problem(error)
                # 429 and 5xx pass, and so does a user on its way to another group; all else does not.
                passes = error.code == 429 or error.code >= 500 or problem.get("code") == "user_moving"
                if not passes:
                    raise Refused(error.code, problem) from None
                requested = error.headers.get("Retry-After", "")
                wait = float(requested) if requested.isdigit() else pause
                say(f"{path}: {problem.get('detail') or error}; again in {wait:.1f} s")
            except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
                wait = pause
                say(f"{path}: {error}; again in {wait:.1f} s")
            # Clients that were cut off together do not all come back together.
            time.sleep(wait * random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def call_once(self, path, body):
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.server + path, json.dumps(body).encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return json.load(response)


def read_problem(error):
    try:
        return json.load(error)
    except ValueError:
        return {}


def say(text):
    print(text, file=sys.stderr, flush=True)


def work(parameters):
    """The work itself; its result is what the server keeps, at most 4,096 bytes."""
    time.sleep(float(parameters.get("pause_s", 0)))
    return f"{len(str(parameters.get('text', '')).split())} words"


def do(client, user, grant):
    """Does what was given; whether it counts."""
    again = " again" if grant.get("redo") else ""
    try:
        say(f"{user} has grant {grant['grant']}{again}: {grant.get('name') or 'task'} of {grant['start']}")
        result = work(grant.get("parameters") or {})
    except Stopped:
        # Others need not wait until the lease runs out.
        client.give_back(user, grant["grant"], "the client was stopped")
        raise
    except (TypeError, ValueError) as error:
        client.give_back(user, grant["grant"], f"{type(error).__name__}: {error}"[:500])
        return False
    try:
        client.complete(user, grant["grant"], result)
    except Refused as refused:
        if refused.code != "grant_over":
            raise
        say(f"{user}: too late: {refused}")
        return False
    print(f"{user} {grant['task']} {grant['grant']} {result}", flush=True)
    return True


def run(client, args):
    done = 0
    while args.limit is None or done < args.limit:
        grant, again_s = client.pull(args.user, args.wait)
        if grant:
            done += do(client, args.user, grant)
        elif args.until_empty:
            break
        elif args.wait:
            # The poll itself has waited; whoever sleeps now hears of a new task later than others.
            time.sleep(1)
        else:
            time.sleep(min(again_s if again_s is not None else 1, IDLE_S))


def stop(_number, _frame):
    raise Stopped


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("user", help="whose tasks")
    parser.add_argument("--server", default=os.environ.get("TIDEMILL_SERVER", "http://127.0.0.1:8780"))
    parser.add_argument("--key", default=os.environ.get("TIDEMILL_KEY", ""), help="APP:SECRET")
    parser.add_argument("--wait", type=int, default=30, help="seconds that a poll may wait, 0 to 30")
    parser.add_argument("--limit", type=int, help="end after so many")
    parser.add_argument("--until-empty", action="store_true", help="end when nothing is due")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        run(Client(args.server, args.key), args)
    except Refused as refused:
        sys.exit(f"refused: {refused}")
    except Stopped:
        sys.exit(143)


if __name__ == "__main__":
    main()
