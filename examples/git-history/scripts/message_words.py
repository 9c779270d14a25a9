"""word of the commit subjects, uses. The switch of the example breaks this one."""

import collections
import os
import re

import history
from attempt import EXIT_BROKEN_ON_PURPOSE, attempt, fail, work_dir

SWITCH = "break-message-words"


def main():
    with attempt():
        switch = os.path.join(work_dir(), SWITCH)
        if os.path.exists(switch):
            fail(EXIT_BROKEN_ON_PURPOSE, f"broken on purpose: remove {switch}, then rerun this batch")
        words = collections.Counter()
        for commit in history.commits():
            words.update(re.findall(r"[^\W\d_]{3,}", commit.subject.lower()))
        history.write_output(sorted(words.items(), key=lambda item: (-item[1], item[0])))


if __name__ == "__main__":
    main()
