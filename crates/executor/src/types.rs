//! Job types: how a program of each is started.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{JobType, Limits, Program};

use crate::Error;
use crate::external_work::{ExternalSuccess, ExternalWorkConfig};

/// How programs of one type are started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypeConfig {
    /// The command line, one element each; not read by a shell. Inside an element, `{script}` (or
    /// `{program}`, the same) stands for the file to run: the job's text as a file, or the path it names.
    /// `{class}` stands for the main class; an element with it is left out where the job has none. An element
    /// `{arguments}` stands for all arguments, one element each. An attempt of a job with arguments or a class, for
    /// which the type has no place, fails and says so. `{tag}` stands for the tag of the attempt, which what it starts elsewhere
    /// carries (`external_work`).
    pub command: Vec<String>,
    /// What the file name of a job's text ends in, without the dot; default none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub extension: String,
    /// Environment variables of every job of this type. They may replace what a job inherits, and may not
    /// begin with `TIDEMILL_`; `{tag}` as in the command; default none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Limits of attempts of jobs that name none of their own: `memory_mb`, `memory_alarm_mb`, `cpu_percent`, `processes`,
    /// `open_files` and `output_mb`, as in a job; default none.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// How work that its jobs start elsewhere is found and ended, such as applications of YARN; default none. For `mapreduce`, `hive`
    /// and `spark`: the applications of YARN that carry the tag of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_work: Option<Box<ExternalWorkConfig>>,
}

/// `shell`: plain `sh`; a script that wants more begins with `exec bash …`, or is of a type of its own.
/// `python`: output unbuffered, so that its log can be followed. `mapreduce`, `hive` and `spark` put the tag of the attempt on their
/// applications of YARN; a `mapreduce` program takes it if it reads Hadoop's generic options, as `Tool` does. The others run the client that their platform
/// installs. A worker runs only the types that it has slots for.
pub(crate) fn defaults() -> BTreeMap<JobType, TypeConfig> {
    let types: [(&str, &str, &[&str]); 7] = [
        ("shell", "sh", &["/bin/sh", "{script}", "{arguments}"]),
        ("python", "py", &["python3", "{script}", "{arguments}"]),
        ("java", "jar", &["java", "-cp", "{program}", "{class}", "{arguments}"]),
        (
            "mapreduce",
            "jar",
            &["hadoop", "jar", "{program}", "{class}", "-Dmapreduce.job.tags={tag}", "{arguments}"],
        ),
        (
            "hive",
            "hql",
            &[
                "hive",
                "--hiveconf",
                "mapreduce.job.tags={tag}",
                "--hiveconf",
                "tez.application.tags={tag}",
                "-f",
                "{script}",
                "{arguments}",
            ],
        ),
        (
            "spark",
            "py",
            &[
                "spark-submit",
                "--conf",
                "spark.yarn.tags={tag}",
                "--class={class}",
                "{program}",
                "{arguments}",
            ],
        ),
        ("datahub", "yaml", &["datahub", "ingest", "-c", "{script}", "{arguments}"]),
    ];
    let of_type = |(name, extension, command): (&str, &str, &[&str])| {
        let name = JobType::try_from(name).expect("a literal that is a name");
        let unbuffered = ("PYTHONUNBUFFERED".to_owned(), "1".to_owned());
        let env = if name.as_str() == "python" { BTreeMap::from([unbuffered]) } else { BTreeMap::new() };
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let external_work = match name.as_str() {
            // Its client may end, or lose the cluster, while the application of a cluster's driver goes on.
            "spark" => Some(ExternalSuccess::FinalState),
            // One query or chain of jobs may start several, and go on when one of them has failed.
            "mapreduce" | "hive" => Some(ExternalSuccess::ExitCode),
            _ => None,
        };
        let external_work = external_work.map(|success| Box::new(ExternalWorkConfig::yarn(success)));
        let (extension, limits) = (extension.to_owned(), Limits::default());
        (name, TypeConfig { command, extension, env, limits, external_work })
    };
    types.into_iter().map(of_type).collect()
}

/// Does everything but run a process.
pub(crate) fn is_noop(job_type: &JobType) -> bool {
    job_type.as_str() == "noop"
}

impl TypeConfig {
    /// The name of the file that holds a job's text.
    pub(crate) fn script_name(&self) -> String {
        if self.extension.is_empty() { "script".to_owned() } else { format!("script.{}", self.extension) }
    }

    /// The command line for a program; `script` is where its text stands, if it is text. The error says what of
    /// the job the type has no place for.
    pub(crate) fn argv(
        &self,
        name: &JobType,
        program: &Program,
        (script, tag): (&Path, &str),
    ) -> Result<Vec<String>, String> {
        let script = script.to_string_lossy();
        let (file, class, arguments): (&str, Option<&str>, &[String]) = match program {
            Program::Command(_) | Program::None => (&script, None, &[]),
            Program::Script { arguments, .. } => (&script, None, arguments),
            Program::Path { path, class, arguments } => (path, class.as_deref(), arguments),
        };
        let has = |place: &str| self.command.iter().any(|element| element.contains(place));
        if class.is_some() && !has("{class}") {
            return Err(format!(
                "class: jobs of type {name} have none; take it out of the job, or name {{class}} in the command of \
                 the type"
            ));
        }
        if !arguments.is_empty() && !self.command.iter().any(|element| element == "{arguments}") {
            return Err(format!(
                "arguments: jobs of type {name} take none; take them out of the job, or add the element \
                 {{arguments}} to the command of the type"
            ));
        }
        let mut argv = Vec::with_capacity(self.command.len() + arguments.len());
        for element in &self.command {
            if element == "{arguments}" {
                argv.extend_from_slice(arguments);
                continue;
            }
            let text = match (element.contains("{class}"), class) {
                (true, None) => continue,
                (true, Some(class)) => &element.replace("{class}", class),
                (false, _) => element,
            };
            argv.push(text.replace("{tag}", tag).replace("{script}", file).replace("{program}", file));
        }
        Ok(argv)
    }

    pub(crate) fn check(&self, name: &JobType) -> Result<(), Error> {
        let refuse = |value: &str, rule: &str| {
            Err(Error::Config { field: "types", value: format!("{name}: {value}"), rule: rule.to_owned() })
        };
        if matches!(name.as_str(), "noop" | "anchor") {
            return refuse("a command", "noop and anchor are built in and run no command");
        }
        if self.command.first().is_none_or(|program| program.is_empty()) {
            return refuse("an empty command", "it has to name a program to run");
        }
        if self.extension.contains(|c: char| !c.is_ascii_alphanumeric()) {
            return refuse(&self.extension, "an extension is letters and digits");
        }
        for (kind, value) in self.limits.set() {
            let (least, most) = kind.range();
            if !(least..=most).contains(&value) {
                let rule = format!("a limit of this kind is {least} to {most}");
                return refuse(&format!("limits.{}: {value}", kind.field()), &rule);
            }
        }
        let reserved =
            |name: &&String| name.starts_with("TIDEMILL_") || name.is_empty() || name.contains('=');
        if let Some(bad) = self.env.keys().find(reserved) {
            return refuse(bad, "a variable needs a name without =, and TIDEMILL_ is reserved");
        }
        let external = self.external_work.as_ref().map_or(Ok(()), |external| external.check());
        external.or_else(|(value, rule)| refuse(&value, rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(command: &[&str], program: &Program) -> Result<Vec<String>, String> {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let plain = TypeConfig { command, ..defaults().into_values().next().unwrap() };
        plain.argv(&JobType::try_from("r").unwrap(), program, (Path::new("/a/script"), "t-1"))
    }

    fn argv(command: &[&str], program: &Program) -> Vec<String> {
        tried(command, program).unwrap()
    }

    #[test]
    fn text_runs_from_its_file_and_a_path_from_where_it_is() {
        let words = ["java", "-cp", "{program}", "{class}", "{arguments}", "--from={script}"];
        let path = Program::Path {
            path: "/opt/a.jar".to_owned(),
            class: Some("Main".to_owned()),
            arguments: vec!["1 2".to_owned(), "{class}".to_owned()],
        };
        let expected = ["java", "-cp", "/opt/a.jar", "Main", "1 2", "{class}", "--from=/opt/a.jar"];
        assert_eq!(argv(&words, &path), expected);
        let text = Program::Command("echo".to_owned());
        assert_eq!(argv(&words, &text), ["java", "-cp", "/a/script", "--from=/a/script"]);
    }

    /// JOB-1: text has its arguments, and what a type has no place for is not dropped.
    #[test]
    fn arguments_reach_the_command_line_or_are_refused_by_name() {
        let arguments = vec!["a b".to_owned()];
        let text = Program::Script { text: "echo $1".to_owned(), arguments: arguments.clone() };
        assert_eq!(argv(&["/bin/sh", "{script}", "{arguments}"], &text), ["/bin/sh", "/a/script", "a b"]);
        assert!(tried(&["run", "{script}"], &text).unwrap_err().starts_with("arguments: "));
        let class = Some("Main".to_owned());
        let path = Program::Path { path: "/p".to_owned(), class, arguments };
        assert!(tried(&["run", "{script}", "{arguments}"], &path).unwrap_err().starts_with("class: "));
        assert!(tried(&["run", "{script}", "{class}", "{arguments}"], &path).is_ok());
    }

    /// JOB-2: how each type that is known from the start is run, with a class and without.
    #[test]
    fn every_type_has_its_command_line() {
        let line = |name: &str, class: Option<&str>| {
            let arguments = vec!["-n".to_owned(), "a b".to_owned()];
            let program = Program::Path { path: "/p".to_owned(), class: class.map(str::to_owned), arguments };
            let name = JobType::try_from(name).unwrap();
            defaults()[&name].argv(&name, &program, (Path::new("/a/script"), "t-1")).unwrap().join("|")
        };
        assert_eq!(line("shell", None), "/bin/sh|/p|-n|a b");
        assert_eq!(line("python", None), "python3|/p|-n|a b");
        assert_eq!(line("java", Some("x.Main")), "java|-cp|/p|x.Main|-n|a b");
        assert_eq!(line("mapreduce", Some("x.Main")), "hadoop|jar|/p|x.Main|-Dmapreduce.job.tags=t-1|-n|a b");
        assert_eq!(line("mapreduce", None), "hadoop|jar|/p|-Dmapreduce.job.tags=t-1|-n|a b");
        let tags = "--hiveconf|mapreduce.job.tags=t-1|--hiveconf|tez.application.tags=t-1";
        assert_eq!(line("hive", None), format!("hive|{tags}|-f|/p|-n|a b"));
        assert_eq!(
            line("spark", Some("x.Main")),
            "spark-submit|--conf|spark.yarn.tags=t-1|--class=x.Main|/p|-n|a b"
        );
        assert_eq!(line("spark", None), "spark-submit|--conf|spark.yarn.tags=t-1|/p|-n|a b");
        assert_eq!(line("datahub", None), "datahub|ingest|-c|/p|-n|a b");
    }

    /// JOB-2: what the interface takes for known without asking any worker is what workers know.
    #[test]
    fn types_that_are_built_in_are_those_that_workers_know() {
        let types = defaults();
        let mut known: Vec<&str> = types.keys().map(JobType::as_str).chain(["noop", "anchor"]).collect();
        known.sort_unstable();
        assert_eq!(known, JobType::BUILT_IN);
    }

    #[test]
    fn types_that_could_not_run_are_refused() {
        let good = defaults().into_values().next().unwrap();
        let name = JobType::try_from("r").unwrap();
        assert!(good.check(&name).is_ok());
        assert!(good.check(&JobType::try_from("noop").unwrap()).is_err());
        assert!(TypeConfig { command: Vec::new(), ..good.clone() }.check(&name).is_err());
        assert!(TypeConfig { extension: "../x".to_owned(), ..good.clone() }.check(&name).is_err());
        let env = BTreeMap::from([("TIDEMILL_TOKEN".to_owned(), "1".to_owned())]);
        assert!(TypeConfig { env, ..good.clone() }.check(&name).is_err());
        let mut yarn = ExternalWorkConfig::yarn(ExternalSuccess::ExitCode);
        yarn.kill.clear();
        let external_work = Some(Box::new(yarn));
        assert!(TypeConfig { external_work, ..good }.check(&name).is_err());
        assert!(defaults().iter().all(|(name, config)| config.check(name).is_ok()));
    }
}
