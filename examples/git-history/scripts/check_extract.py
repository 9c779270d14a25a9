"""Is the extract there and whole? Lines and SHA-256 as history.tsv.check says."""

import hashlib
import os

from attempt import EXIT_INPUT, attempt, fail, work_dir


def main():
    with attempt():
        path = os.path.join(work_dir(), "history.tsv")
        try:
            with open(path, "rb") as extract, open(path + ".check", encoding="ascii") as check:
                content = extract.read()
                expected = check.read().split()
        except FileNotFoundError as missing:
            fail(EXIT_INPUT, f"{missing.filename} is missing: run extract.sh")
        found = [str(content.count(b"\n")), hashlib.sha256(content).hexdigest()]
        if found != expected:
            fail(EXIT_INPUT, f"{path} is not whole: expected {expected}, found {found}")
        print(f"{path} is whole: {found[0]} lines")


if __name__ == "__main__":
    main()
