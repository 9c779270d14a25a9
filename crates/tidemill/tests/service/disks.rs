//! Disks that are mounted for a test. They need root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn run(program: &str, arguments: &[&str]) {
    assert!(
        Command::new(program).args(arguments).status().unwrap().success(),
        "{program}: tests run as root"
    );
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A small disk of its own.
pub(crate) struct Disk(PathBuf);

impl Disk {
    pub(crate) fn mount(path: &Path) -> Self {
        Self::mount_as(path, &["-t", "tmpfs", "-o", "size=6m", "tidemill-test"])
    }

    fn mount_as(path: &Path, what: &[&str]) -> Self {
        fs::create_dir_all(path).unwrap();
        run("mount", &[what, &[text(path)]].concat());
        Self(path.to_owned())
    }

    pub(crate) fn fill(&self) {
        let filler = fs::File::create(self.0.join("filler")).unwrap();
        let _ = std::io::copy(&mut std::io::repeat(0), &mut &filler).unwrap_err();
    }

    pub(crate) fn empty(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A disk that can hang: who writes to it then is in state D, and no signal reaches it.
pub(crate) struct Frozen {
    disk: Disk,
    _image: tempfile::NamedTempFile,
}

impl Frozen {
    pub(crate) fn mount(path: &Path) -> Self {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(16 << 20).unwrap();
        run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0", text(image.path())]);
        let disk = Disk::mount_as(path, &["-o", "loop", text(image.path())]);
        Self { disk, _image: image }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.disk.0
    }

    /// Until what is given is dropped: before a test that has failed waits for what waits for the disk.
    pub(crate) fn freeze(&self) -> Hang<'_> {
        // For a test that is killed meanwhile.
        let release = format!("sleep 300; fsfreeze -u {}", text(self.path()));
        let late = Command::new("sh").args(["-c", &release]).stderr(Stdio::null()).spawn().unwrap();
        run("fsfreeze", &["-f", text(self.path())]);
        Hang(self.path(), late)
    }
}

pub(crate) struct Hang<'a>(&'a Path, Child);

impl Drop for Hang<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(self.0).status();
        let _ = self.1.kill();
        let _ = self.1.wait();
    }
}
