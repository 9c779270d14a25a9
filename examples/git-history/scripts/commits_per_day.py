"""day, commits, authors of that day."""

import collections

import history
from attempt import attempt


def main():
    with attempt():
        commits = collections.Counter()
        authors = collections.defaultdict(set)
        for commit in history.commits():
            day = commit.date[:10]
            commits[day] += 1
            authors[day].add(commit.author)
        history.write_output((day, commits[day], len(authors[day])) for day in sorted(commits))


if __name__ == "__main__":
    main()
