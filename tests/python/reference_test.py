#!/usr/bin/env python3
"""The browsable reference works in a browser, and asks nobody but its server.

    reference_test.py [--all] [--pictures DIR]

API-3: Chromium opens /reference/ of a service of its own. Every part of the document is shown with what is said of it, and in it every
call by its name; the details of one call of each part are opened. After a key has been entered, a call is tried: the request has the key, and the page shows the
answer. An error or warning in the console, something that the policy of the page refuses, and a request to another host each fail the
test. In the end one of each is made, and has to be found.

Wants chromium and the Python of `deploy/dev/services`. TIDEMILL_BIN names the program to test; without it, it is built with what
the tests build.
"""

import argparse
import json
import pathlib
import tempfile

from browser import Browser
from running import fail, until
from service import Service

# Each is a fault of a page, and words by which it is told.
FAULTS = (
    ("console.error('planted')", "the console has error: planted"),
    ("setTimeout(() => { throw new Error('planted') })", "an exception"),
    ("document.body.setAttribute('style', 'color: red')", "the policy refuses style-src"),
    ("document.head.append(Object.assign(document.createElement('script'), {text: '1'}))", "the policy refuses script-src"),
    ("fetch('http://other.example/').catch(() => 0)", "the policy refuses connect-src"),
)  # fmt: skip


# Its body has every field of a job.
LARGEST = "operations-Jobs-applyJobs"


def compact(value):
    """As a browser writes it."""
    return json.dumps(value, separators=(",", ":"))


class Reference:
    def __init__(self, browser, service, options):
        self.browser, self.service, self.options, self.pictures = browser, service, options, options.pictures
        self.document = service.done("GET", "/api/openapi.json")

    def clean(self, what):
        if self.pictures:
            self.browser.picture(self.pictures / f"{what.replace(' ', '-')}.png")
        wrong = self.browser.faults()
        if wrong:
            fail(f"{what}: " + "\n".join(wrong))
        print(f"ok  {what}", flush=True)

    def parts(self):
        wanted = [(tag["name"], tag["description"]) for tag in self.document["tags"]]
        shown = """Array.from(document.querySelectorAll(".opblock-tag"), (it) =>
            [it.dataset.tag, it.querySelector("small").innerText.trim()])"""
        self.browser.open("/reference/")
        self.browser.until("the parts are shown", "document.querySelectorAll('.opblock-tag').length > 0")
        found = [tuple(part) for part in self.browser.value(shown)]
        if found != wanted:
            fail(f"the page shows the parts {found}, and the document has {wanted}")
        script = self.browser.answers[f"{self.service.url}/reference/start.js"]
        if script["mimeType"] != "text/javascript":
            fail(f"the script is {script['mimeType']}")
        self.clean("parts")

    def calls(self):
        """One part after the other: where more than 149 rows are open, only those in sight are there."""
        for part in self.document["tags"]:
            wanted = sorted(
                f"operations-{part['name'].replace(' ', '_')}-{call['operationId']}"
                for calls in self.document["paths"].values()
                for call in calls.values()
                if call["tags"] == [part["name"]]
            )
            tag = f'.opblock-tag[data-tag="{part["name"]}"]'
            self.browser.click(tag)
            ids = "Array.from(document.querySelectorAll('.opblock'), (it) => it.id).sort()"
            self.browser.until(
                f"the calls of {part['name']}", f"JSON.stringify({ids}) === {json.dumps(compact(wanted))}"
            )
            # Each takes a second.
            for call in wanted if self.options.all else [call for call in wanted if call in (wanted[0], LARGEST)]:
                self.details(call)
            self.browser.click(tag)
            self.browser.until(f"{tag} is closed", "document.querySelectorAll('.opblock').length === 0")
        self.clean("calls")

    def details(self, call):
        self.browser.click(f"#{call} .opblock-summary-control")
        shown = f"document.querySelector('#{call} .opblock-body .responses-wrapper') !== null"
        self.browser.until(f"the details of {call}", shown)
        if self.pictures and call == LARGEST:
            self.browser.value(f"document.querySelector('#{call}').scrollIntoView()")
            self.browser.picture(self.pictures / "details.png")
        self.browser.click(f"#{call} .opblock-summary-control")

    def authorize(self):
        self.browser.click(".auth-wrapper .authorize")
        # One for each kind of key.
        forms = "Array.from(document.querySelectorAll('.auth-container'))"
        mine = f"{forms}.find((it) => it.querySelector('h4 code').innerText === 'key')"
        self.browser.until("keys are asked for", f"{mine} !== undefined")
        self.browser.value(f"{mine}.id = 'of-key'")
        self.browser.write("#of-key input", self.service.key)
        self.clean("a key")
        self.browser.click("#of-key .authorize")
        self.browser.until("the key is taken", f"{mine}.querySelector('input') === null")
        self.browser.click(".close-modal")

    def a_try(self):
        call = "#operations-Jobs-listJobs"
        self.browser.click('.opblock-tag[data-tag="Jobs"]')
        self.browser.click(f"{call} .opblock-summary-control")
        self.browser.click(f"{call} .try-out__btn")
        self.browser.click(f"{call} .execute")
        live = f"{call} .live-responses-table .response"
        self.browser.until("the call is answered", f"document.querySelector('{live}') !== null")
        status, body = self.browser.value(
            f"((it) => [it.querySelector('.response-col_status').innerText.trim(), it.innerText])(document.querySelector('{live}'))"
        )
        self.browser.value(f"document.querySelector('{call} .responses-wrapper').scrollIntoView()")
        sent = [it for it in self.browser.requests if it["url"].split("?")[0] == f"{self.service.url}/api/jobs"]
        keys = [it["headers"].get("Authorization") for it in sent]
        if keys != [f"Bearer {self.service.key}"] or not status.startswith("200") or "from-reference" not in body:
            fail(f"{len(sent)} requests, {status}: {body}")
        self.clean("a call with a key")

    def faults_are_found(self):
        for script, words in FAULTS:
            self.browser.value(f"{script}, 0")
            self.is_found(script, words)
        # No policy keeps a page from leading elsewhere. The last, for the page is gone.
        self.browser.ask("Page.navigate", url="http://other.example/")
        self.is_found("another page", "a request to http://other.example/")
        print("ok  faults are found", flush=True)

    def is_found(self, what, words):
        wrong = []
        look = lambda: wrong.extend(self.browser.faults()) or any(words in it for it in wrong)
        until(f"{what} is told as {words}", look)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=pathlib.Path, help="write what is seen on the way into this directory")
    parser.add_argument("--all", action="store_true", help="open the details of every call, which takes minutes")
    options = parser.parse_args()
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, Service(pathlib.Path(directory)) as service:
        service.done(
            "POST", "/api/jobs/apply", {"jobs": [{"group": "default", "name": "from-reference", "type": "noop"}]}
        )
        service.until("the job is listed", lambda: service.items("/api/jobs"))
        with Browser(service.url) as browser:
            reference = Reference(browser, service, options)
            reference.parts()
            reference.calls()
            reference.authorize()
            reference.a_try()
            reference.faults_are_found()


if __name__ == "__main__":
    main()
