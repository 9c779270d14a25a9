//! Where control groups can be had on this host: below the worker's own group where that is handed over to it, or where the
//! configuration says. Where it says so, the shims are there as well ([`Found::shims`]): a unit of systemd can then be restarted
//! whatever its attempts do.
//!
//! Of version 1 that is any directory that the worker can write to. Of version 2 a directory belongs to whoever manages the tree
//! (systemd), unless it is marked as delegated or is the account's own; below it controllers have to be switched on, for which
//! it must have no process of its own, so the worker moves itself one down where it has to.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::geteuid;
use tidemill_model::WorkerId;

use super::{Place, Tree, Version};

/// In the configuration: use no control groups.
pub(crate) const NONE: &str = "none";
/// The controllers, the file of version 1 by which each is known, and what they are for.
const CONTROLLERS: [(&str, &str); 3] =
    [("memory", "memory.limit_in_bytes"), ("pids", "pids.max"), ("cpu", "cpu.cfs_quota_us")];
/// Below the group that has been handed over: where the worker itself moves to.
const OWN_LEAF: &str = "tidemill-worker";
/// The group of the shims.
pub(super) const SHIMS: &str = "shims";
/// Made to see whether groups can be entered.
const PROBE: &str = "probe";
const PROBE_TRIES: u32 = 20;
const PROBE_PAUSE: Duration = Duration::from_millis(5);
/// By which systemd marks what it hands over.
const MARKS: [&str; 2] = ["trusted.delegate", "user.delegate"];

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Found {
    /// Below which directories groups of attempts are made.
    pub(crate) tree: Tree,
    /// The groups of the shims, and of attempts without limits, where the configuration names a place for attempts: then none
    /// of them is in the worker's own.
    pub(crate) shims: Vec<PathBuf>,
    /// Why a controller is not there, for people.
    pub(crate) lacks: Vec<String>,
}

impl Found {
    /// Looks for control groups, and makes the worker's own directory in each tree.
    pub(crate) fn find(wanted: Option<&str>, worker: &WorkerId) -> Self {
        if wanted == Some(NONE) {
            return Self { lacks: vec!["executor.cgroup is none".to_owned()], ..Self::default() };
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let name = format!("tidemill-{worker}");
        let mut found = Self::default();
        let mut unified = None;
        for (controller, file) in CONTROLLERS {
            let place = match mount_of(&mounts, Some(controller)) {
                Some(mount) => {
                    let dir = mount.dir(wanted.or_else(|| path_of(&own, Some(controller))));
                    first_version(&dir, &name, file)
                }
                None => unified
                    .get_or_insert_with(|| second_version(&mounts, &own, wanted, &name))
                    .clone()
                    .and_then(|dir| has_controller(dir, controller)),
            };
            match place.and_then(|place| can_be_entered(&place.dir).map(|()| place)) {
                Ok(place) => found.put(controller, place),
                Err(why) => found.lacks.push(format!("{controller}: {why}")),
            }
        }
        if wanted.is_some() {
            let groups = found.tree.dirs().into_iter().map(|dir| dir.join(SHIMS));
            found.shims = groups.filter(|group| make(group).is_ok()).collect();
        }
        found
    }

    fn put(&mut self, controller: &str, place: Place) {
        let slot = match controller {
            "memory" => &mut self.tree.memory,
            "pids" => &mut self.tree.processes,
            _ => &mut self.tree.cpu,
        };
        *slot = Some(place);
    }
}

/// Where a tree is mounted, and which part of it.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    root: &'a str,
    at: &'a str,
}

impl Mount<'_> {
    /// The directory of a group.
    fn dir(&self, group: Option<&str>) -> PathBuf {
        let group = group.unwrap_or("/");
        let below = group.strip_prefix(self.root).filter(|_| self.root != "/").unwrap_or(group);
        Path::new(self.at).join(below.trim_start_matches('/'))
    }
}

/// The mount of a controller of version 1, or of version 2.
fn mount_of<'a>(mounts: &'a str, controller: Option<&str>) -> Option<Mount<'a>> {
    mounts.lines().find_map(|line| {
        let (of_mount, of_system) = line.split_once(" - ")?;
        let mut fields = of_mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let mut fields = of_system.split(' ');
        let (system, options) = (fields.next()?, fields.nth(1).unwrap_or_default());
        let is_it = match controller {
            Some(controller) => system == "cgroup" && options.split(',').any(|option| option == controller),
            None => system == "cgroup2",
        };
        is_it.then_some(Mount { root, at })
    })
}

/// The group of this process.
fn path_of<'a>(own: &'a str, controller: Option<&str>) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match controller {
            Some(controller) => controllers.split(',').any(|name| name == controller),
            None => number == "0" && controllers.is_empty(),
        };
        is_it.then_some(path)
    })
}

fn first_version(dir: &Path, name: &str, file: &str) -> Result<Place, String> {
    let dir = dir.join(name);
    make(&dir)?;
    match dir.join(file).exists() {
        true => Ok(Place { dir, version: Version::V1 }),
        false => {
            // Nothing of it is needed, and it is empty.
            let _ = fs::remove_dir(&dir);
            Err(format!("{} has no file {file}", dir.display()))
        }
    }
}

/// Whether a process can be put into a group below this directory: that takes a right to the groups above both, too.
fn can_be_entered(dir: &Path) -> Result<(), String> {
    let probe = dir.join(PROBE);
    make(&probe)?;
    let failed = |error: io::Error| format!("no process can be put into {}: {error}", probe.display());
    let entered =
        Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().map_err(failed).and_then(|mut child| {
            let entered = fs::write(probe.join("cgroup.procs"), child.id().to_string()).map_err(failed);
            let ended = child.kill().and_then(|()| child.wait()).map_err(failed);
            entered.and(ended.map(drop))
        });
    // The kernel may need a moment.
    let _ = (0..PROBE_TRIES).any(|_| {
        fs::remove_dir(&probe).is_ok() || {
            thread::sleep(PROBE_PAUSE);
            false
        }
    });
    entered
}

fn make(dir: &Path) -> Result<(), String> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(format!("cannot make {}: {error}", dir.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The worker's directory in the tree of version 2, its controllers switched on.
fn second_version(mounts: &str, own: &str, wanted: Option<&str>, name: &str) -> Result<PathBuf, String> {
    let mount = mount_of(mounts, None).ok_or("no tree of control groups is mounted")?;
    let base = match wanted {
        Some(group) => mount.dir(Some(group)),
        None => {
            let own = mount.dir(path_of(own, None));
            // With a subgroup of its own, what is handed over is the group above.
            let above = own.parent().filter(|above| own != Path::new(mount.at) && is_marked(above));
            let given = above.or_else(|| Some(&*own).filter(|own| is_marked(own) || is_own(own)));
            given
                .map(Path::to_owned)
                .ok_or_else(|| format!("{} is not delegated to the worker", own.display()))?
        }
    };
    switch_on(&base, true)?;
    let dir = base.join(name);
    make(&dir)?;
    switch_on(&dir, false)?;
    Ok(dir)
}

/// By whoever manages the tree.
fn is_marked(dir: &Path) -> bool {
    MARKS.into_iter().any(|name| {
        let mut value = [0; 8];
        rustix::fs::getxattr(dir, name, &mut value[..]).is_ok_and(|size| &value[..size] == b"1")
    })
}

/// Whether it is of the account's own, which is not root.
fn is_own(dir: &Path) -> bool {
    let owner = fs::metadata(dir).map(|metadata| metadata.uid());
    owner.is_ok_and(|uid| uid != 0 && uid == geteuid().as_raw())
}

/// Groups below it have the controllers that it has.
fn switch_on(dir: &Path, may_move: bool) -> Result<(), String> {
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
    let (there, on) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
    let has = |text: &str, name: &str| text.split_whitespace().any(|word| word == name);
    let off = CONTROLLERS.iter().map(|(name, _)| *name).filter(|name| has(&there, name) && !has(&on, name));
    let wanted: Vec<String> = off.map(|name| format!("+{name}")).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let file = dir.join("cgroup.subtree_control");
    let failed = |error: io::Error| format!("cannot switch controllers on in {}: {error}", dir.display());
    match fs::write(&file, wanted.join(" ")) {
        Ok(()) => Ok(()),
        Err(error) if may_move && error.kind() == io::ErrorKind::ResourceBusy => {
            let leaf = dir.join(OWN_LEAF);
            make(&leaf)?;
            fs::write(leaf.join("cgroup.procs"), "0").map_err(failed)?;
            fs::write(&file, wanted.join(" ")).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

fn has_controller(dir: PathBuf, controller: &str) -> Result<Place, String> {
    let there = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    match there.split_whitespace().any(|name| name == controller) {
        true => Ok(Place { dir, version: Version::V2 }),
        false => Err(format!("{} has no such controller", dir.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
         32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
         35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const OWN: &str = "9:cpu,cpuacct:/a\n4:memory:/docker/abc/b\n0::/system.slice/x.service\n";

    /// EXE-2: the group of this process in each tree, also where only a part of it is mounted, as in a container.
    #[test]
    fn own_group_is_found_in_each_tree() {
        let dir = |controller| mount_of(HYBRID, controller).map(|mount| mount.dir(path_of(OWN, controller)));
        assert_eq!(dir(Some("cpu")), Some("/sys/fs/cgroup/cpu,cpuacct/a".into()));
        assert_eq!(dir(Some("memory")), Some("/sys/fs/cgroup/memory/b".into()));
        assert_eq!(dir(Some("pids")), None);
        assert_eq!(dir(None), Some("/sys/fs/cgroup/unified/system.slice/x.service".into()));
        let memory = mount_of(HYBRID, Some("memory")).unwrap();
        assert_eq!(memory.dir(Some("/jobs")), Path::new("/sys/fs/cgroup/memory/jobs"));
    }

    /// EXE-2: a plain directory stands in for a delegated group of version 2: its controllers are switched on below it.
    #[test]
    fn controllers_are_switched_on_where_they_are_there() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.controllers"), "cpuset cpu io memory\n").unwrap();
        fs::write(dir.path().join("cgroup.subtree_control"), "memory\n").unwrap();
        switch_on(dir.path(), false).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap(), "+cpu");
        assert!(has_controller(dir.path().to_owned(), "memory").is_ok());
        assert!(has_controller(dir.path().to_owned(), "pids").unwrap_err().contains("no such controller"));
    }

    /// EXE-2: switched off, or without a tree that is mounted, nothing is found, and why is said.
    #[test]
    fn no_control_groups_is_said_with_its_reason() {
        let none = Found::find(Some(NONE), &WorkerId::new("w"));
        assert_eq!((none.tree, none.lacks), (Tree::default(), vec!["executor.cgroup is none".to_owned()]));
        assert!(second_version("", "", None, "n").unwrap_err().contains("mounted"));
    }
}
