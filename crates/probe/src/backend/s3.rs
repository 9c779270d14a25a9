//! A bucket of an object store.
//!
//! An object store has no directories: one *is there* as long as any object lies below it. So a path is there if
//! an object has its key, or any key begins with it and a slash; a mark is always an object.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use object_store::aws::AmazonS3;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{Error, ObjectStoreExt};
use tidemill_model::Timestamp;

use super::{Backend, Fault, Found, LOOKED_AT_BELOW, Page, Pages, Target, causes, of_millisecond, one_line};
use crate::config::S3;
use crate::{S3Access, s3_client};

/// A page of up to 1,000 keys costs about as much as this many single looks, by price and by time.
const LOOKS_PER_PAGE: usize = 16;

/// A bucket.
pub struct S3Backend {
    store: Arc<AmazonS3>,
}

impl S3Backend {
    /// The bucket, as configured. Nothing is connected yet.
    ///
    /// # Errors
    /// Settings that no client can be made of.
    pub fn open(bucket: &str, config: &S3) -> Result<Self, Fault> {
        // The caller has its own timeout and retries. These are for connections that it gave up.
        let access = S3Access {
            endpoint: config.endpoint.as_deref(),
            region: &config.region,
            keys: config.access_key_id.as_deref().zip(config.secret_access_key.as_deref()),
            connect: config.limits.timeout(),
            answer: config.limits.timeout() * 2,
            retries: 0,
        };
        let store = s3_client(bucket, &access).map_err(|error| Fault::Refused(one_line(&error)))?;
        Ok(Self { store: Arc::new(store) })
    }
}

fn fault(error: &Error) -> Fault {
    let text = causes(error);
    // The server's own name for it, where it gave one: it tells more than the status.
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let line = text.lines().next().unwrap_or_default();
    let reason = match code {
        Some((code, _)) => format!("{code}: {line}"),
        None => line.to_owned(),
    };
    let reason = reason.chars().take(300).collect();
    match error {
        Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::UnknownConfigurationKey { .. } => Fault::Refused(reason),
        // Of a listing only the text tells the status. 404 is a missing bucket there.
        Error::Generic { .. } if matches!(status(&text), Some(400 | 401 | 403 | 404)) => {
            Fault::Refused(reason)
        }
        _ => Fault::Unavailable(reason),
    }
}

fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

fn options(max_keys: Option<usize>, page_token: Option<String>) -> PaginatedListOptions {
    PaginatedListOptions {
        delimiter: Some(Cow::Borrowed("/")),
        max_keys,
        page_token,
        ..PaginatedListOptions::default()
    }
}

impl Backend for S3Backend {
    fn look(&self, target: Target) -> BoxFuture<'static, Result<Found, Fault>> {
        let store = Arc::clone(&self.store);
        async move {
            let key = Key::parse(&target.inside).map_err(|error| Fault::Refused(one_line(&error)))?;
            let mut calls = 0;
            if !target.mark {
                calls += 1;
                let below = format!("{}/", target.inside);
                let page = store.list_paginated(Some(&below), options(Some(1), None)).await;
                let page = page.map_err(|error| fault(&error))?.result;
                if !page.objects.is_empty() || !page.common_prefixes.is_empty() {
                    return Ok(Found { present: true, calls });
                }
            }
            calls += 1;
            match store.head(&key).await {
                Ok(_) => Ok(Found { present: true, calls }),
                Err(Error::NotFound { .. }) => Ok(Found { present: false, calls }),
                Err(error) => Err(fault(&error)),
            }
        }
        .boxed()
    }

    fn changed_at(&self, inside: &str) -> BoxFuture<'static, Result<Option<Timestamp>, Fault>> {
        let store = Arc::clone(&self.store);
        let inside = inside.to_owned();
        async move {
            let key = Key::parse(&inside).map_err(|error| Fault::Refused(one_line(&error)))?;
            let object = match store.head(&key).await {
                Ok(object) => Some(object.last_modified),
                Err(Error::NotFound { .. }) => None,
                Err(error) => return Err(fault(&error)),
            };
            let below = format!("{inside}/");
            let all = PaginatedListOptions { max_keys: Some(LOOKED_AT_BELOW), ..Default::default() };
            let page = store.list_paginated(Some(&below), all).await.map_err(|error| fault(&error))?.result;
            let times = page.objects.iter().map(|object| object.last_modified).chain(object);
            times.max().map(|newest| of_millisecond(newest.timestamp_millis())).transpose()
        }
        .boxed()
    }

    fn list(&self, directory: &str) -> Option<Box<dyn Pages>> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        Some(Box::new(Listing { store: Arc::clone(&self.store), prefix, token: Token::First }))
    }

    fn looks_per_page(&self) -> usize {
        LOOKS_PER_PAGE
    }

    fn retries_hung(&self) -> bool {
        true
    }
}

struct Listing {
    store: Arc<AmazonS3>,
    prefix: String,
    token: Token,
}

enum Token {
    First,
    Next(String),
    End,
}

impl Pages for Listing {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, Fault>> {
        async move {
            let token = match &self.token {
                Token::First => None,
                Token::Next(token) => Some(token.clone()),
                Token::End => return Ok(None),
            };
            let prefix = (!self.prefix.is_empty()).then_some(self.prefix.as_str());
            let page = self.store.list_paginated(prefix, options(None, token)).await;
            let page = page.map_err(|error| fault(&error))?;
            self.token = page.page_token.map_or(Token::End, Token::Next);
            let objects = page.result.objects.iter().map(|object| &object.location);
            let names = objects
                .chain(&page.result.common_prefixes)
                .filter_map(|key| key.filename().map(str::to_owned))
                .collect();
            // Not every store lists in order.
            let last = matches!(self.token, Token::End);
            Ok(Some(Page { names, complete_to: None, last }))
        }
        .boxed()
    }
}
