//! Job files as people write them, and worse.

use std::path::Path;

use serde_json::json;
use tidemill_corpus::corpus;
use tidemill_model::JobSpec;

use super::{parse, write};

/// JOB-5: a file is refused with its name, or gives jobs; jobs that are whole are written as YAML that reads back
/// the same.
#[test]
fn job_files_are_refused_by_name_or_read() {
    corpus!("yaml").fuzz(100, |input| {
        let text = String::from_utf8_lossy(input);
        let jobs = match parse(Path::new("a.yaml"), &text) {
            Ok(jobs) => jobs,
            Err(failure) => return assert!(failure.message.contains("a.yaml"), "{}", failure.message),
        };
        for job in jobs {
            let Ok(spec) = JobSpec::from_value(job) else { continue };
            let written = write::<JobSpec>("jobs", json!([&spec]));
            let written = written.unwrap_or_else(|failure| panic!("{spec:?}: {}", failure.message));
            let again =
                parse(Path::new("b.yaml"), &written).unwrap_or_else(|it| panic!("{written}\n{}", it.message));
            let again: Vec<_> = again.into_iter().map(|job| JobSpec::from_value(job).unwrap()).collect();
            assert_eq!(again, [spec], "{written}");
        }
    });
}
