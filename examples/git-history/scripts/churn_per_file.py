"""path, commits that touched it, lines added, lines deleted."""

import history
from attempt import attempt


def main():
    with attempt():
        churn = {}
        for line in history.lines():
            if isinstance(line, history.Touch):
                row = churn.setdefault(line.path, [0, 0, 0])
                row[0] += 1
                row[1] += line.added
                row[2] += line.deleted
        history.write_output((path, *churn[path]) for path in sorted(churn))


if __name__ == "__main__":
    main()
