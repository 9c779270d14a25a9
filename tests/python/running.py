"""What tests of the program as it runs have in common: which program it is, and waiting for it."""

import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 60
# What the Rust tests build, too.
FEATURES = re.search(r"^FEATURES = (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
BUILD = ("--workspace", "--features", FEATURES, "--all-targets")


def fail(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {message}")


def program():
    """The one that TIDEMILL_BIN names; without it, the one that cargo builds."""
    named = os.environ.get("TIDEMILL_BIN")
    if not named:
        print(f"building the program: {' '.join(BUILD)} (TIDEMILL_BIN names another)", flush=True)
        subprocess.run(["cargo", "build", "--locked", "--quiet", *BUILD], cwd=ROOT, check=True)
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    path = pathlib.Path(named) if named else target / "debug/tidemill"
    if not path.is_file():
        fail(f"{path} is missing; TIDEMILL_BIN has to name the program")
    return path


def until(what, look, goes_on=lambda: None):
    """Looks until there is something to see. Before each look `goes_on` ends the test where it is in vain."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        goes_on()
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            fail(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.05)


class Stopped:
    """Whoever has a program as `process`, which prints into the file `log`: it is looked after, and stopped in the end."""

    def goes_on(self):
        if self.process.poll() is not None:
            fail(f"the program has ended: {self.log.read_text()[-2000:]}")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
