"""A service as tests call it: one process with everything in it. cluster.py has one of many processes."""

import json
import os
import subprocess
import urllib.error
import urllib.request

from running import PATIENCE_S, Stopped, fail, program, until


class Calls:
    """Calls with the administrator's key. Who inherits this has `url` and `key`."""

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {self.key}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                text, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            text, status = error.read(), error.code
        return status, json.loads(text) if text[:1] in (b"{", b"[") else text

    def done(self, method, path, body=None):
        status, answer = self.call(method, path, body)
        if status not in (200, 202):
            fail(f"{method} {path}: {status} {answer}")
        return answer

    def items(self, path):
        return self.done("GET", path)["items"]


class Service(Stopped, Calls):
    """One process with everything in it, and its data in a directory of its own."""

    def __init__(self, directory):
        self.directory = directory
        self.log = directory / "log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}
        built = program()
        command = [built, "standalone", "--listen", "127.0.0.1:0", "--data", directory / "data"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, env=environment)
        files = [directory / "data" / name for name in ("api.address", "admin.key")]
        self.until("the service listens", lambda: all(it.is_file() and it.read_text().strip() for it in files))
        address, self.key = (it.read_text().strip() for it in files)
        self.url = f"http://{address}"
        self.until("the service is ready", lambda: self.call("GET", "/readyz")[0] == 200)

    def __enter__(self):
        return self

    def until(self, what, look):
        return until(what, look, self.goes_on)
