//! Mount points, whose names are chosen by whoever mounts.

use tidemill_corpus::corpus;

use super::Mounts;

/// Whatever is mounted, every path is below the mount point that is told for it.
#[test]
fn every_path_is_below_its_mount_point() {
    corpus!("mounts").fuzz(1_000, |input| {
        let text = String::from_utf8_lossy(input);
        let mounts = Mounts::parse(&text);
        let points = mounts.0.iter().map(|point| format!("{point}/x"));
        for path in points.chain(["/".to_owned(), "/data/x".to_owned()]).take(64) {
            let point = mounts.of(&path);
            assert!(path.starts_with(&*point) || &*point == "/", "{path} is below {point}");
        }
    });
}
