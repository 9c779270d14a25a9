//! What every store has to do. The directory runs it here, a bucket behind the feature `s3`.

use std::fs;

use tidemill_archive::{DirectoryStore, Object, Store};

fn object(name: &str, bytes: u64) -> Object {
    Object { name: name.to_owned(), bytes }
}

/// The facts, of a store that is empty.
fn store_keeps_objects(store: &dyn Store) {
    assert_eq!(store.list("").unwrap(), tidemill_archive::Listing::default());
    assert_eq!(store.list("a/b").unwrap(), tidemill_archive::Listing::default());
    assert_eq!(store.read("a/b/one", 0..4).unwrap(), None);
    store.write("a/b/two", b"12345").unwrap();
    store.write("a/b/one", b"abc").unwrap();
    store.write("a/c/three", b"").unwrap();
    let listing = store.list("a/b").unwrap();
    assert_eq!(listing.objects, [object("one", 3), object("two", 5)]);
    assert_eq!(store.list("a").unwrap().directories, ["b", "c"]);
    assert_eq!(store.list("").unwrap().directories, ["a"]);
    assert_eq!(store.read("a/b/two", 1..3).unwrap().unwrap(), b"23");
    assert_eq!(store.read("a/b/two", 3..9).unwrap().unwrap(), b"45");
    assert_eq!(store.read("a/b/two", 0..0).unwrap().unwrap(), b"");
    store.write("a/b/two", b"another").unwrap();
    assert_eq!(store.read("a/b/two", 0..99).unwrap().unwrap(), b"another");
    assert_eq!(store.list("a/b").unwrap().objects, [object("one", 3), object("two", 7)]);
    let large = vec![7; 9 << 20];
    store.write("a/large", &large).unwrap();
    assert_eq!(store.read("a/large", 0..large.len() as u64).unwrap().unwrap(), large);
    store.remove("a/large").unwrap();
    assert_eq!(store.read("a/large", 0..1).unwrap(), None);
    store.remove("a/large").unwrap();
    assert_eq!(store.list("a").unwrap().objects, []);
}

#[test]
fn directory_keeps_objects() {
    let ground = tempfile::tempdir().unwrap();
    store_keeps_objects(&DirectoryStore::new(&ground.path().join("not/yet/there")));
}

/// A process that was killed while it wrote left no object, and the next one writes it all the same.
#[test]
fn half_written_file_is_no_object() {
    let ground = tempfile::tempdir().unwrap();
    let store = DirectoryStore::new(ground.path());
    let name = "l/journal-00000/00000000000000000000-00000000000000000005.segment";
    store.write(name, b"whole").unwrap();
    let partial = format!("l/journal-00000/.{}.partial", name.rsplit('/').next().unwrap());
    fs::rename(ground.path().join(name), ground.path().join(&partial)).unwrap();
    let log_id = tidemill_log::LogId::try_from("l".to_owned()).unwrap();
    let segments = |store: DirectoryStore| {
        let archive = tidemill_archive::Archive::new(std::sync::Arc::new(store), log_id.clone());
        archive.catalog(0).unwrap().segments().count()
    };
    assert_eq!(segments(DirectoryStore::new(ground.path())), 0);
    store.write(name, b"whole again").unwrap();
    assert_eq!(segments(DirectoryStore::new(ground.path())), 1);
    assert!(!ground.path().join(partial).exists());
}

/// A place that cannot be written is an error that says why.
#[test]
fn file_in_the_place_of_a_directory_is_an_error() {
    let ground = tempfile::tempdir().unwrap();
    fs::write(ground.path().join("a"), b"").unwrap();
    let store = DirectoryStore::new(&ground.path().join("a"));
    assert!(store.write("b/c", b"x").is_err());
    assert!(store.list("b").is_err());
}

/// EVT-6: the same facts of a bucket, on the server that `TIDEMILL_TEST_S3` names; and a journal is archived there and read back.
#[cfg(feature = "s3")]
mod s3 {
    use std::sync::Arc;

    use tidemill_archive::{Archive, ArchivedLog, Archiver, Config, S3Store, Store, When, open_store};
    use tidemill_log::{Log, LogId, MemoryLog};

    use super::store_keeps_objects;
    use crate::kit::{ALL, Step, read_all, write};

    /// A prefix of its own in the bucket of the server.
    fn config() -> Config {
        let server = std::env::var("TIDEMILL_TEST_S3").expect(
            "TIDEMILL_TEST_S3 names a server and a bucket: run `deploy/dev/services start s3`, \
             then `eval \"$(deploy/dev/services env)\"`",
        );
        let (endpoint, bucket) = server.rsplit_once('/').unwrap();
        let place = Some(format!("s3://{bucket}/archive/{}", LogId::random()));
        let mut config = Config { place, ..Config::default() };
        config.s3.endpoint = Some(endpoint.to_owned());
        let key = Some("S3RVER".to_owned());
        (config.s3.access_key_id, config.s3.secret_access_key) = (key.clone(), key);
        config.check().unwrap();
        config
    }

    #[test]
    fn bucket_keeps_objects() {
        let config = config();
        store_keeps_objects(&S3Store::new(config.place.as_ref().unwrap(), &config.s3).unwrap());
    }

    #[test]
    fn journal_is_archived_in_a_bucket_and_read_back() {
        let store: Arc<dyn Store> = open_store(&config()).unwrap().unwrap();
        let log: Arc<dyn Log> = Arc::new(MemoryLog::new(1));
        write(
            &*log,
            0,
            &[Step::Claim, Step::Envelope(10), Step::Garbage(5), Step::Envelope(400_000), Step::Resign],
        );
        let before = read_all(&*log, 0);
        let archive = || Arc::new(Archive::new(Arc::clone(&store), log.log_id().clone()));
        let bounds = tidemill_archive::Bounds { segment_bytes: 1_000, ..ALL };
        let cycle =
            Archiver::new(Arc::clone(&log), archive(), bounds).cycle(&[0], When::Now, &|| false).unwrap();
        assert!(cycle.segments > 0 && cycle.released[&0] == before.len() as u64 - 1, "{cycle:?}");
        let through = ArchivedLog::new(Arc::clone(&log), Some(archive())).unwrap();
        assert_eq!(read_all(&through, 0), before);
    }
}
