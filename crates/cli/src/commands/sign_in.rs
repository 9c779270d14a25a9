//! `tidemill logout`, `password` and `token …`, and how `login` gets a token.

use serde_json::{Value, json};
use tidemill_client::{Client, Error, Token, segment};
use tidemill_model::Permission;

use super::{Session, write};
use crate::args::{Global, LoginArgs, PasswordArgs, TokenCommand};
use crate::contexts::{Context, Contexts};
use crate::exit::Exit;
use crate::failure::{Done, Failure};
use crate::output;
use crate::secret;
use crate::server::Server;
use crate::session::Host;
use crate::target::Target;

/// Of sessions, tokens and invitations.
pub(super) const CREDENTIALS: &str =
    "id, kind, title, may, ISSUED: issued_at, EXPIRES: expires_at, USED: used_at, NOW: calls_now";
pub(super) const NO_CREDENTIALS: &str = "No sessions, tokens or invitations.";

/// Signs a person in, makes a token that goes on without the password, and signs out again.
pub(super) fn token_of(server: &Server, person: &str, args: &LoginArgs) -> Done<Token> {
    let title = rustix::system::uname().nodename().to_string_lossy().chars().take(80).collect::<String>();
    let title = format!("command line on {title}");
    let token = |client: &Client| client.make_token(&title, &[], args.days);
    if !args.invitation {
        return signed_in(server, person, token);
    }
    let invitation = secret::ask("Invitation (ti_…)")?;
    let password = new_password(person)?;
    let invited = server.with(|client| client.redeem(&invitation, person, &password))?;
    let token = server.with(|_| token(&invited))?;
    signed_out(server, &invited);
    Ok(token)
}

/// Does this signed in as a person whose password is read.
pub(super) fn signed_in<T>(
    server: &Server,
    person: &str,
    ask: impl FnOnce(&Client) -> Result<T, Error>,
) -> Done<T> {
    let password = secret::ask(&format!("Password of {person}"))?;
    let signed_in = server.with(|client| client.sign_in(person, &password))?;
    let answer = server.with(|_| ask(&signed_in))?;
    signed_out(server, &signed_in);
    Ok(answer)
}

/// What was asked for is done, whether this works or not.
fn signed_out(server: &Server, signed_in: &Client) {
    if let Err(failure) = server.with(|_| signed_in.sign_out()) {
        output::note(format!("warning: the session goes on until it is over: {failure}"));
    }
}

/// Typed twice where somebody types.
fn new_password(person: &str) -> Done<String> {
    let password = secret::ask(&format!("New password of {person}"))?;
    if secret::is_typed() && secret::ask("Once more")? != password {
        return Err(Failure::bad_input("the two passwords differ; nothing was done"));
    }
    Ok(password)
}

/// Forgets the key of a context; a token ends, too.
pub(super) fn logout(global: &Global) -> Done<Exit> {
    let mut contexts = Contexts::read()?;
    let name = global.context.as_deref().or(contexts.current()).map(str::to_owned);
    let name = name.ok_or_else(|| {
        Failure::new(Exit::NotFound, "no context is current").hint("name one with --context")
    })?;
    let context = contexts.named(&name)?.clone();
    let Some(key) = &context.key else {
        return Err(Failure::new(Exit::NotFound, format!("context {name} has no key")));
    };
    // Tokens name themselves in their first letters.
    if let Some(id) = key.strip_prefix("tm_").and_then(|rest| rest.get(..16)) {
        let target = Target {
            server: context.server.clone(),
            server_from: "the context",
            key: Some(key.clone()),
            as_user: None,
            ca_file: context.ca_file.clone(),
        };
        let ended = Server::new(target)?.delete_own(&format!("/api/me/credentials/{id}"));
        // One that has ended already is forgotten all the same.
        if let Err(failure) = ended {
            output::note(format!("warning: the token was not ended now: {failure}"));
        }
    }
    contexts.put(&name, Context { key: None, as_user: None, ..context })?;
    contexts.write()?;
    output::answer(global.output, &json!({ "context": name }), |_| format!("Logged out of {name}."));
    Ok(Exit::Success)
}

pub(super) fn password(host: &dyn Host, global: &Global, args: &PasswordArgs) -> Done<Exit> {
    let session = Session::new(host, global)?;
    let old = secret::ask(&format!("Present password of {}", args.person))?;
    let new = new_password(&args.person)?;
    let signed_in = session.server.with(|client| client.sign_in(&args.person, &old))?;
    let changed = session.server.with(|_| signed_in.change_password(&old, &new))?;
    session.server.with(|_| changed.sign_out())?;
    Ok(session.show(&json!({ "person": args.person }), |_| {
        format!("{} has the new password; sessions of before have ended, tokens have not.", args.person)
    }))
}

pub(super) fn token(host: &dyn Host, global: &Global, command: TokenCommand) -> Done<Exit> {
    match command {
        TokenCommand::Ls => {
            let session = Session::new(host, global)?;
            let answer = session.server.get("/api/me/credentials", &[])?;
            session.show_list(&answer, CREDENTIALS, NO_CREDENTIALS)
        }
        TokenCommand::Create { title, person, may, days } => {
            let session = Session::new(host, global)?;
            let may = may.into_iter().map(|of| serde_json::from_value(Value::String(of)));
            let may: Vec<Permission> =
                may.collect::<Result<_, _>>().map_err(|error| Failure::bad_input(error.to_string()))?;
            let token = signed_in(&session.server, &person, |client| client.make_token(&title, &may, days))?;
            let answer = json!({ "id": token.id, "token": token.token, "expires_at": token.expires_at });
            Ok(session.show(&answer, |_| {
                format!("{}\nIt is not shown again. It is good until {}.", token.token, token.expires_at)
            }))
        }
        TokenCommand::Revoke { id } => {
            let session = Session::new(host, global)?;
            let path = format!("/api/me/credentials/{}", segment(&id));
            write::delete(&session, &path, format!("{id} has ended."))
        }
    }
}
