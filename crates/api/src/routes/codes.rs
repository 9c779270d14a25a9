use std::sync::Arc;

use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use ed25519_dalek::{Signature, VerifyingKey};
use schemars::JsonSchema;
use serde::Deserialize;
use tidemill_model::{Command, Token, WorkerCommand};

use super::requests::written;
use crate::Problem;
use crate::app::App;
use crate::body::{Body, parse};
use crate::params::id;
use crate::rights::{Asks, Right};
use crate::view::{Answered, Written};
use crate::write::Write;

/// What a program says of itself.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodeRequest {
    /// 0: it has succeeded; anything else: it has not. After a 0 no further code is taken.
    code: i32,
}

/// The program of a running attempt reports a code (EXE-4). It shows the key that its worker gave it, the group's
/// signature over its token: nobody needs an application key for it, and it is good for this attempt alone.
pub(super) async fn report(
    State(app): State<Arc<App>>,
    Path(text): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Answered<Written> {
    let token: Token = id("attempt", &text)?;
    let group = app.group_of_shard(token.shard()).await?.filter(|_| token.0 > 0);
    let group =
        group.filter(|group| is_signed(&headers, token, &group.worker_key)).ok_or_else(unauthorized)?;
    // Of nobody else a body is read.
    let Body(body) = Body::from_request(request, &app).await?;
    let CodeRequest { code } = parse(body)?;
    let right = Right::of_attempt(token, Asks::new([code.to_string().as_bytes()]));
    let write = Write::new(&app, right, &headers)?;
    // Its key was checked here, and only here.
    let command = Command::Worker(WorkerCommand::ReportUserCode { token, code, seal: String::new() });
    let command = app.secret.sealed(command, group.shard, Some(&write.request));
    written(write.send(group.shard, command).await?)
}

fn is_signed(headers: &HeaderMap, token: Token, worker_key: &str) -> bool {
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|shown| bytes::<64>(shown.strip_prefix("Bearer ")?.trim()));
    let key = bytes::<32>(worker_key).and_then(|key| VerifyingKey::from_bytes(&key).ok());
    let text = token.attempt_key_text();
    shown.zip(key).is_some_and(|(shown, key)| {
        key.verify_strict(text.as_bytes(), &Signature::from_bytes(&shown)).is_ok()
    })
}

fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let digits = Some(hex.as_bytes()).filter(|digits| digits.len() == 2 * N)?;
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? * 16 + digit(pair[1])?;
    }
    Some(bytes)
}

fn unauthorized() -> Problem {
    let detail = "the attempt's key is missing or wrong; send what its environment has as TIDEMILL_ATTEMPT_KEY in \
        `Authorization: Bearer <key>`";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}
