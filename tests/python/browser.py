"""A page in Chromium without a window, led by the protocol of its developer tools over two pipes.

What the page does wrong is kept: errors and warnings of its console, what its policy refuses, requests to others than its server.
"""

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

from running import PATIENCE_S, fail, until

# Nothing but the page itself is to ask for anything.
QUIET = (
    "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--no-pings",
    "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--window-size=1280,1000",
    # The sandbox does not work for root, nor in many containers; what is loaded is our own.
    "--no-sandbox",
)  # fmt: skip
WATCH = """
window.refused = [];
document.addEventListener("securitypolicyviolation", (it) =>
  window.refused.push(`${it.effectiveDirective} ${it.blockedURI} ${it.sourceFile}:${it.lineNumber}`));
"""


class Browser:
    def __init__(self, origin):
        self.origin = origin
        self.wrong, self.requests, self.answers = [], [], {}
        program = shutil.which("chromium") or fail("chromium is missing: `deploy/dev/services install` brings it")
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.log = pathlib.Path(self.profile.name) / "log"
        # The browser reads from 3 and writes to 4; ours are further up, so that neither is put into the place of the other.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for pair in (os.pipe(), os.pipe()) for end in pair]
        theirs_in, self.to, self.of, theirs_out = ends
        start = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "chromium", program, *QUIET]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*start, f"--user-data-dir={self.profile.name}/profile", "about:blank"],
                stdout=log, stderr=log, pass_fds=(theirs_in, theirs_out),
            )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.number, self.rest, self.session = 0, b"", None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Page.addScriptToEvaluateOnNewDocument", source=WATCH)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.to)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.of)
        self.profile.cleanup()

    def ask(self, method, **parameters):
        """What the browser answers; what it tells meanwhile is noted."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data) :]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            told = self.next(method, deadline)
            if told.get("id") == self.number:
                if "error" in told:
                    fail(f"{method}: {told['error']}")
                return told["result"]
            self.note(told.get("method"), told.get("params", {}))

    def next(self, waiting_for, deadline):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.of], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.of, 1 << 20) if ready else b""
            if not more:
                text = self.log.read_text(errors="replace")[-2000:]
                fail(f"{waiting_for}: the browser {'has ended' if ready else 'does not answer'}: {text}")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def note(self, event, told):
        if event == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            said = " ".join(str(it.get("value", it.get("description"))) for it in told["args"])
            self.wrong.append(f"the console has {told['type']}: {said}")
        elif event == "Runtime.exceptionThrown":
            self.wrong.append(f"an exception: {told['exceptionDetails']}")
        elif event == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.wrong.append(f"the log has {told['entry']['text']} ({told['entry'].get('url')})")
        elif event == "Network.requestWillBeSent":
            request = told["request"]
            self.requests.append(request)
            if not request["url"].startswith((f"{self.origin}/", "data:", "about:")):
                self.wrong.append(f"a request to {request['url']}")
        elif event == "Network.responseReceived":
            self.answers[told["response"]["url"]] = told["response"]

    def open(self, path):
        self.ask("Page.navigate", url=self.origin + path)

    def value(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            fail(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, what, expression):
        return until(what, lambda: self.value(expression))

    def click(self, selector):
        at = f"document.querySelector({json.dumps(selector)})"
        self.until(f"{selector} is there", f"{at} !== null")
        self.value(f"{at}.click()")

    def write(self, selector, text):
        at = f"document.querySelector({json.dumps(selector)})"
        self.until(f"{selector} is there", f"{at} !== null")
        self.value(f"{at}.focus()")
        self.ask("Input.insertText", text=text)

    def faults(self):
        """What the page has done wrong since this was asked last."""
        refused = [f"the policy refuses {it}" for it in self.value("(window.refused ?? []).splice(0)")]
        wrong, self.wrong = self.wrong + refused, []
        return wrong

    def picture(self, file):
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))
