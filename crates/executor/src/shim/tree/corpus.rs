//! Names of processes, which jobs give to theirs as they like.

use tidemill_corpus::corpus;

use super::parse;

/// EXE-5: whatever a process calls itself, its parent and its start are those that the kernel wrote behind the name.
#[test]
fn no_name_of_a_process_hides_its_parent() {
    corpus!("process-name").fuzz(1_000, |input| {
        let text = String::from_utf8_lossy(input);
        // Whatever it is, it is read or not.
        parse(&text);
        let line = format!("12 ({text}) S 7 1 1 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 9876 1 2");
        let stat = parse(&line).expect("the kernel's own form");
        assert_eq!((stat.parent, stat.started, stat.zombie), (7, 9876, false));
    });
}
