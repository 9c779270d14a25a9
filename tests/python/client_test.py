#!/usr/bin/env python3
"""The client of Python (clients/python, API-8) against the program as it is.

It builds the wheel, installs it into a virtual environment of its own with the pinned packages beside this file, and runs there: every
public method of `Client` and `AsyncClient` against a server that it starts, through a proxy that breaks connections where that matters
(client_proxy.py); the programs of docs/python.md as they stand there; the jobs of docs/from-*.md; and `mypy --strict`.

TIDEMILL_BIN names the program to test; without it, it is built.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from running import PATIENCE_S, ROOT, Stopped, fail, program, until

CLIENT = ROOT / "clients/python"
# They take less than 30 s.
CASES_S = 240
HERE = pathlib.Path(__file__).resolve().parent


def environment(**variables):
    """Without what names another server."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}, **variables}


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode:
        fail(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def install(directory):
    """The Python of a new environment that has the wheel, and no sources."""
    run(sys.executable, "-m", "venv", directory / "venv")
    python = directory / "venv/bin/python"
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "-r", HERE / "client-requirements.txt")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", directory / "dist", CLIENT)
    (wheel,) = (directory / "dist").glob("tidemill-*.whl")
    run(*pip, "install", "--no-deps", wheel)
    version = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    if not wheel.name.startswith(f"tidemill-{version}-"):
        fail(f"{wheel.name} is not of the workspace's version, {version}: change clients/python/pyproject.toml")
    return python


def typed(python, directory):
    """`mypy --strict`, begun: of the sources, and of programs of others that import the wheel."""
    pages = directory / "programs"
    pages.mkdir()
    for number, block in enumerate(blocks(ROOT / "docs/python.md", "python")):
        (pages / f"program_{number}.py").write_text(block)
    mypy = (python, "-m", "mypy", "--strict", "--python-version", "3.10")
    # Two that share a cache disturb each other.
    caches = iter((directory / "mypy-client", directory / "mypy-programs"))
    start = lambda what: subprocess.Popen(
        [*mypy, "--cache-dir", next(caches), what], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=pages
    )
    return [start(CLIENT / "src/tidemill"), start(pages)]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


class Server(Stopped):
    """One process with everything in it."""

    def __init__(self, directory, **settings):
        self.data = directory / "data"
        self.log = directory / "log"
        directory.mkdir()
        command = [program(), "standalone", "--listen", "127.0.0.1:0", "--data", self.data]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, env=environment(**settings))

    def __enter__(self):
        files = [self.data / name for name in ("api.address", "admin.key")]
        until("the server listens", lambda: all(it.is_file() and it.read_text().strip() for it in files), self.goes_on)
        self.address, self.key = (it.read_text().strip() for it in files)
        self.url = f"http://{self.address}"
        return self


def main():
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        python = install(directory)
        print("ok  the wheel is built and installed", flush=True)
        checks = typed(python, directory)
        try:
            with Server(directory / "server") as server:
                names = {"TIDEMILL_SERVER": server.url, "TIDEMILL_KEY": server.key, "TIDEMILL_BIN": str(program())}
                # Nothing but the wheel is found under its name: the tests run with what others get.
                try:
                    tested = subprocess.run([python, HERE / "client_cases.py", directory], env=environment(**names), timeout=CASES_S)
                except subprocess.TimeoutExpired:
                    fail(f"the cases have not ended within {CASES_S} s")
            if tested.returncode:
                sys.exit(tested.returncode)
            for check in checks:
                told, _ = check.communicate(timeout=PATIENCE_S)
                if check.returncode:
                    fail(f"mypy --strict: {told}")
        finally:
            for check in checks:
                check.kill()
                check.wait()
        print("ok  mypy --strict, of the client and of the programs of docs/python.md", flush=True)


if __name__ == "__main__":
    main()
