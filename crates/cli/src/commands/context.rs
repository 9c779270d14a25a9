//! `tidemill context …` and `tidemill login`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::sign_in;
use crate::args::{ContextCommand, ContextSetArgs, Global, LoginArgs};
use crate::contexts::{Context, Contexts, check_key};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::files;
use crate::output;
use crate::render;
use crate::secret;
use crate::server::Server;
use crate::session::Host;
use crate::target::{Target, bad_address};

/// The name of the context where a person has one server.
const USUAL: &str = "default";

const CONTEXTS: &str = "CURRENT: mark, name, server, KEY OF: key_of, as_user, ca_file";

pub(super) fn run(global: &Global, command: ContextCommand) -> Done<Exit> {
    let mut contexts = Contexts::read()?;
    let told = match command {
        ContextCommand::Ls => {
            let items: Vec<Value> =
                contexts.all().map(|(name, context)| shown(&contexts, name, context)).collect();
            let nothing = "No contexts. Make one with `tidemill login --server URL --context NAME`.";
            output::list(global.output, &json!({ "items": items }), CONTEXTS, nothing);
            return Ok(Exit::Success);
        }
        ContextCommand::Show { name } => {
            let name = name.or_else(|| contexts.current().map(str::to_owned)).ok_or_else(none_is_current)?;
            let context = shown(&contexts, &name, contexts.named(&name)?);
            output::answer(global.output, &context, |context| render::fields(context, &["mark"]));
            return Ok(Exit::Success);
        }
        ContextCommand::Use { name } => {
            contexts.make_current(&name)?;
            format!("Context {name} is current.")
        }
        ContextCommand::Set(args) => set(global, &mut contexts, &args)?,
        ContextCommand::Rm { name } => {
            contexts.remove(&name)?;
            format!("Context {name} is forgotten.")
        }
    };
    contexts.write()?;
    output::answer(global.output, &json!({ "current": contexts.current() }), |_| told);
    Ok(Exit::Success)
}

fn none_is_current() -> Failure {
    Failure::new(Exit::NotFound, "no context is current").hint(
        "name one, or make one current with `tidemill context use NAME`; `tidemill context ls` lists them",
    )
}

/// A context without what is secret of it.
fn shown(contexts: &Contexts, name: &str, context: &Context) -> Value {
    let is_current = contexts.current() == Some(name);
    json!({
        "name": name,
        "current": is_current,
        "mark": if is_current { "*" } else { "" },
        "server": context.server,
        "key_of": context.whose(),
        "as_user": context.as_user,
        "ca_file": context.ca_file,
    })
}

fn set(global: &Global, contexts: &mut Contexts, args: &ContextSetArgs) -> Done<String> {
    no_key_given(global)?;
    let before = contexts.get(&args.name);
    let server = match &global.server {
        Some(server) => address(server)?,
        None => before.map(|before| before.server.clone()).ok_or_else(|| no_server(&args.name))?,
    };
    let kept = before.filter(|before| before.server == server);
    let key = match &args.key_file {
        Some(file) => Some(key_of(file)?),
        None if args.read_key => Some(checked(secret::ask("Key")?)?),
        // A key is not passed on to another server.
        None => kept.and_then(|kept| kept.key.clone()),
    };
    let ca_file = global.ca_file.clone().or_else(|| kept.and_then(|kept| kept.ca_file.clone()));
    let as_user = global.as_user.clone().or_else(|| kept.and_then(|kept| kept.as_user.clone()));
    contexts.put(&args.name, Context { server, key, as_user, ca_file: absolute(ca_file)? })?;
    Ok(format!("Context {} is kept.", args.name))
}

/// Reads a key, tries it, and keeps it.
pub(super) fn login(host: &dyn Host, global: &Global, args: &LoginArgs) -> Done<Exit> {
    no_key_given(global)?;
    let mut contexts = Contexts::read()?;
    let current = contexts.current().filter(|_| global.server.is_none());
    let name = global.context.as_deref().or(current).unwrap_or(USUAL).to_owned();
    let before = contexts.get(&name);
    let server = match &global.server {
        Some(server) => address(server)?,
        None => before.map(|before| before.server.clone()).ok_or_else(|| no_server(&name))?,
    };
    if let Some(other) = before.filter(|before| before.server != server) {
        let told = format!("context {name} is of {}, and --server says {server}", other.server);
        return Err(Failure::bad_input(told).hint(format!(
            "name another one with --context, or forget it first: tidemill context rm {name}"
        )));
    }
    let ca_file = global.ca_file.clone().or_else(|| before.and_then(|before| before.ca_file.clone()));
    let settings = host.settings(global)?;
    let server_with = |key: Option<String>| {
        let as_user = global.as_user.clone().filter(|_| key.is_some());
        let target = Target { server: server.clone(), server_from: "--server", key, as_user, ca_file: None };
        Server::new(target.trusting(ca_file.as_deref().or(settings.ca_file.as_deref())))
    };
    let key = match &args.person {
        Some(person) => sign_in::token_of(&server_with(None)?, person, args)?.token,
        None => checked(secret::ask(&format!("Key for {server}"))?)?,
    };
    let rights = server_with(Some(key.clone()))?.get("/api/me/rights", &[])?;
    let (as_user, ca_file) = (global.as_user.clone(), absolute(ca_file)?);
    contexts.put(&name, Context { server: server.clone(), key: Some(key), as_user, ca_file })?;
    contexts.make_current(&name)?;
    contexts.write()?;
    let who = ["person", "app"].map(|field| rights[field].as_str());
    let who = who.into_iter().flatten().next().unwrap_or("?").to_owned();
    let role = render::one_line(&rights["role"]);
    let answer = json!({ "context": name, "server": server, "key_of": who, "role": rights["role"] });
    output::answer(global.output, &answer, |_| {
        format!("Logged in to {server} as {who}, {role}. It is the context {name}, which is current now.")
    });
    Ok(Exit::Success)
}

/// One that stands on the command line is in the list of processes, and one of the environment would go before that of the context.
fn no_key_given(global: &Global) -> Done {
    match global.key {
        None => Ok(()),
        Some(_) => Err(Failure::bad_input("--key or TIDEMILL_KEY: the key to keep is not taken from there")
            .hint("leave it out and type the key, or pipe it in; TIDEMILL_KEY would go before the context's key")),
    }
}

fn no_server(name: &str) -> Failure {
    Failure::bad_input(format!("--server: context {name} is new, and nothing says of which server"))
        .hint("name it as in --server https://tidemill.example:8780")
}

/// An address as the client takes it.
fn address(server: &str) -> Done<String> {
    let server = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    if !server.starts_with("http://") && !server.starts_with("https://") {
        return Err(bad_address(&server));
    }
    Ok(server.trim_end_matches('/').to_owned())
}

fn key_of(file: &Path) -> Done<String> {
    let text =
        files::text(file, files::MAX_SETTINGS_BYTES).map_err(|error| Failure::unreadable(file, &error))?;
    checked(text.trim().to_owned())
}

fn checked(key: String) -> Done<String> {
    check_key(&key).map_err(|rule| Failure::bad_input(format!("the key {rule}")))?;
    Ok(key)
}

/// The file is meant as seen from here, and used from anywhere.
fn absolute(file: Option<PathBuf>) -> Done<Option<PathBuf>> {
    let made = file.map(std::path::absolute).transpose();
    made.map_err(|error| Failure::caused("--ca-file: cannot tell the working directory", &error))
}
