#!/usr/bin/env python3
"""Clients that are made from the OpenAPI document work.

API-3: from schemas/openapi.json, openapi-typescript and openapi-python-client (versions pinned) make clients without an error.
A program with each (tests/clients) applies a job to a service of its own, runs it, lists its batches, and reads a refusal with its
fields; the one in TypeScript is type-checked first, and has mistakes in it that the types have to find. A document without the
answer of a call that the programs make, and one without a field that they read, are tried as well: the compiler has to refuse the
program, and the Python one has to fail.

Wants Node.js with npm and the Python of `deploy/dev/services`. TIDEMILL_BIN names the program to test; without it, it is built
with what the tests build.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from running import ROOT, fail
from service import Service

CLIENTS = ROOT / "tests/clients"
DOCUMENT = ROOT / "schemas/openapi.json"
DOWNLOADS = pathlib.Path(os.environ.get("TIDEMILL_DEV_DIR") or ROOT / ".services") / "downloads/npm"
MOST_S = 120
# What openapi-python-client cannot make, by what its warnings begin with: a stream of lines of JSON, and variants that hold an object
# of their own without a name. The rest of the client is whole. A warning that is not here fails the test.
UNMADE = (
    "parsing GET /api/audit/export within ",
    "Unable to process schema /components/schemas/Program_type_",
    "Unable to process schema /components/schemas/Waiver_type_",
    "Unable to process schema /components/schemas/When_type_",
)


def run(command, directory, **environment):
    """Its exit code, and what it wrote."""
    done = subprocess.run(
        [str(word) for word in command], cwd=directory, env={**os.environ, **environment}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=MOST_S, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def succeed(what, command, directory, **environment):
    code, text = run(command, directory, **environment)
    if code:
        fail(f"{what} ended with {code}:\n{text[-4000:]}")
    return text


class TypeScript:
    """A copy of tests/clients/typescript with its modules, of exactly the versions of its lock file."""

    def __init__(self, directory):
        self.directory = directory
        shutil.copytree(CLIENTS / "typescript", directory, ignore=shutil.ignore_patterns("node_modules"))
        install = ["npm", "ci", "--cache", DOWNLOADS, "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"]
        succeed("npm ci", install, directory)
        self.bin = directory / "node_modules/.bin"

    def make(self, document):
        # A default is what an absent field means, so fields that have one may be absent.
        command = [self.bin / "openapi-typescript", document, "--default-non-nullable=false", "-o", "api.d.ts"]
        told = succeed("openapi-typescript", command, self.directory)
        if re.search(r"warn|error", told, re.IGNORECASE):
            fail(f"openapi-typescript has something to say of the document:\n{told}")

    def compile(self):
        return run([self.bin / "tsc", "--project", "."], self.directory)

    def work(self, service):
        code, text = self.compile()
        if code:
            fail(f"the program in TypeScript does not fit the client:\n{text}")
        return succeed("the program in TypeScript", ["node", "built/work.js"], self.directory, **address(service))


class Python:
    """The package `made` in a directory of its own."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir()

    def make(self, document):
        command = [
            sys.executable, "-m", "openapi_python_client", "generate", "--path", document, "--output-path", "made",
            "--overwrite", "--meta", "none", "--config", CLIENTS / "python/generator.yaml",
        ]  # fmt: skip
        told = succeed("openapi-python-client", command, self.directory)
        warnings = re.findall(r"^(?:WARNING (.*)|(Unable to process .*)|ERROR (.*))$", told, re.MULTILINE)
        unknown = [text for text in map("".join, warnings) if not text.startswith(UNMADE)]
        if unknown:
            fail(f"openapi-python-client cannot make all of the client: {unknown}\n{told[-4000:]}")

    def run(self, service):
        environment = {"PYTHONPATH": str(self.directory), "PYTHONDONTWRITEBYTECODE": "1", **address(service)}
        return run([sys.executable, CLIENTS / "python/work.py"], self.directory, **environment)

    def work(self, service):
        code, text = self.run(service)
        if code:
            fail(f"the program in Python ended with {code}:\n{text[-4000:]}")
        return text


def address(service):
    return {"TIDEMILL_SERVER": service.url, "TIDEMILL_KEY": service.key}


def check(name, told, service):
    """What the program read is what the service says without it."""
    told = json.loads(told)
    batch = service.done("GET", f"/api/batches/{told['batch']}")
    seen = (batch["job_name"], batch["state"], batch["result"], batch["parameters"])
    if seen != (f"from-{name}", "finished", "success", {"city": "Berlin"}):
        fail(f"{name}: the batch is {seen}")
    same_time = re.sub(r"(\.000)?(Z|\+00:00)$", "", told["logical_time"]) == "2026-01-01T00:00:00"
    if told["result"] != "success" or told["parameters"] != {"city": "Berlin"} or not same_time:
        fail(f"{name}: it read of the batch {told}")
    job = {"group": "default", "name": "a/b", "type": "noop", "retries": -1}
    status, problem = service.call("POST", "/api/jobs/apply", {"jobs": [job]})
    fields = [{"field": error["field"], "rule": error["rule"]} for error in problem["errors"]]
    if (told["status"], told["code"], told["fields"]) != (status, problem["code"], fields) or not fields:
        fail(f"{name}: it read of the refusal {told}, and it was {status} {problem}")


def faults_are_found(directory, document, typescript, python, service):
    """A document that does not say what a run answers, and one in which a batch has another name for its logical time."""
    unsaid = json.loads(json.dumps(document))
    del unsaid["paths"]["/api/jobs/{id}/run"]["post"]["responses"]["200"]["content"]
    other = json.loads(json.dumps(document))
    batch = other["components"]["schemas"]["BatchView"]
    batch["properties"]["time_of_the_run"] = batch["properties"].pop("logical_time")
    batch["required"] = ["time_of_the_run" if name == "logical_time" else name for name in batch["required"]]
    for what, fault in (("an answer is not said", unsaid), ("a field has another name", other)):
        path = directory / "fault.json"
        path.write_text(json.dumps(fault))
        typescript.make(path)
        code, text = typescript.compile()
        if not code or "work.ts" not in text:
            fail(f"{what}, and the program in TypeScript is taken:\n{text}")
        python.make(path)
        code, text = python.run(service)
        if not code:
            fail(f"{what}, and the program in Python does its work:\n{text}")


def main():
    document = json.loads(DOCUMENT.read_text())
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        typescript, python = TypeScript(directory / "typescript"), Python(directory / "python")
        typescript.make(DOCUMENT)
        python.make(DOCUMENT)
        with Service(directory) as service:
            check("typescript", typescript.work(service), service)
            print("ok  openapi-typescript", flush=True)
            check("python", python.work(service), service)
            print("ok  openapi-python-client", flush=True)
            faults_are_found(directory, document, typescript, python, service)
            print("ok  faults in the document are found")


if __name__ == "__main__":
    main()
