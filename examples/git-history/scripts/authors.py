"""author, commits, lines added, lines deleted, first day, last day."""

import history
from attempt import attempt


def main():
    with attempt():
        author_of = {}
        rows = {}
        for line in history.lines():
            if isinstance(line, history.Commit):
                author_of[line.hash] = line.author
                day = line.date[:10]
                row = rows.setdefault(line.author, [0, 0, 0, day, day])
                row[0] += 1
                row[3] = min(row[3], day)
                row[4] = max(row[4], day)
            else:
                row = rows[author_of[line.hash]]
                row[1] += line.added
                row[2] += line.deleted
        history.write_output((author, *rows[author]) for author in sorted(rows))


if __name__ == "__main__":
    main()
