//! A call of the interface: what is said of it, what it needs, and who answers it. Router and document are made from it
//! alike, so neither can name a call that the other does not have.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn;
use axum::routing::{MethodFilter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use tidemill_model::Permission;

use crate::app::App;
use crate::layers;
use crate::needs::{Needs, Reach};
use crate::parameter::{Asked, Parameter};
use crate::params::{AT_LEAST, CURSOR, LIMIT};
use crate::view::{List, Written};

pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What the document says of a call.
#[derive(Default)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// Its name, where the one that follows from method and path reads badly.
    pub(crate) name: Option<&'static str>,
    /// What the caller needs; without it the call needs none.
    pub(crate) needs: Option<Needs>,
    /// What it shows as its right, by the name of the scheme.
    pub(crate) scheme: Option<&'static str>,
    pub(crate) query: Vec<Parameter>,
    pub(crate) request: Option<SchemaOf>,
    pub(crate) answer: Option<SchemaOf>,
    /// What 202 says of something that was begun and goes on.
    pub(crate) begun: Option<SchemaOf>,
    pub(crate) media: &'static str,
    /// It may be done and not yet be in effect.
    pub(crate) settles: bool,
    /// Its answer has the tag of a definition, and whoever changes that shows the tag.
    pub(crate) tagged: bool,
}

impl Call {
    fn new(method: Method, path: &'static str, summary: &'static str) -> Self {
        Self { method, path, summary, media: "application/json", ..Self::default() }
    }

    pub(crate) fn get(path: &'static str, summary: &'static str) -> Self {
        Self::new(Method::GET, path, summary)
    }

    pub(crate) fn post(path: &'static str, summary: &'static str) -> Self {
        Self::new(Method::POST, path, summary)
    }

    pub(crate) fn put(path: &'static str, summary: &'static str) -> Self {
        Self::new(Method::PUT, path, summary)
    }

    /// Shows what the tables hold about something of a group.
    pub(crate) fn one<T: JsonSchema>(path: &'static str, summary: &'static str) -> Self {
        Self::get(path, summary).of_group(Permission::View).fresh().gives::<T>()
    }

    /// Lists what is of groups, part by part.
    pub(crate) fn list<T: JsonSchema>(path: &'static str, summary: &'static str) -> Self {
        Self::get(path, summary).of_group(Permission::View).page().gives::<List<T>>()
    }

    /// Lets a user change something of a group; where nothing else is said, the answer says no more than that it is done.
    pub(crate) fn act(path: &'static str, summary: &'static str) -> Self {
        Self::post(path, summary).of_group(Permission::Operate).gives::<Written>()
    }

    /// As [`Call::act`], and takes something away.
    pub(crate) fn remove(path: &'static str, summary: &'static str) -> Self {
        Self { method: Method::DELETE, ..Self::act(path, summary) }
    }

    /// The document calls it so: another name than the one that follows from method and path.
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    fn needs(mut self, permission: Permission, reach: Reach) -> Self {
        self.needs = Some(Needs { permission, reach });
        self.scheme = Some("key");
        self
    }

    /// Shows what is of the whole site, to everybody who may do this.
    pub(crate) fn everybody(self, permission: Permission) -> Self {
        self.needs(permission, Reach::Everybody)
    }

    /// About something of a job or group, which the caller has to reach.
    pub(crate) fn of_group(self, permission: Permission) -> Self {
        self.needs(permission, Reach::Groups)
    }

    /// About what the caller asked for; of others, for those who are bound to nothing.
    pub(crate) fn own(self, permission: Permission) -> Self {
        self.needs(permission, Reach::Own)
    }

    /// About the whole site, for those who are bound to nothing.
    pub(crate) fn of_site(self, permission: Permission) -> Self {
        self.needs(permission, Reach::Site)
    }

    /// About the same, and what it does is another thing.
    pub(crate) fn needing(mut self, permission: Permission) -> Self {
        self.needs = self.needs.map(|needs| Needs { permission, ..needs });
        self
    }

    /// Its key may stand in fields of the call, so the handler looks at it.
    pub(crate) fn key_in_fields(mut self) -> Self {
        self.scheme = None;
        self
    }

    /// It waits until it is in effect in every group, for a bounded time.
    pub(crate) fn settles(mut self) -> Self {
        self.settles = true;
        self
    }

    /// It is about a definition with a tag (API-10).
    pub(crate) fn tagged(mut self) -> Self {
        self.tagged = true;
        self
    }

    /// Called by the program of an attempt, with the key of that.
    pub(crate) fn attempt_key(mut self) -> Self {
        self.scheme = Some("attempt_key");
        self
    }

    pub(crate) fn query(mut self, query: &[Parameter]) -> Self {
        self.query.extend(query);
        self
    }

    pub(crate) fn with<T>(mut self, asked: Asked<T>) -> Self {
        self.query.push(asked.parameter);
        self
    }

    /// It answers a part of a list.
    pub(crate) fn page(self) -> Self {
        self.with(LIMIT).with(CURSOR).fresh()
    }

    /// It answers what the tables hold.
    pub(crate) fn fresh(self) -> Self {
        self.with(AT_LEAST)
    }

    /// It answers this, with 202, where it begins something that goes on.
    pub(crate) fn begins<T: JsonSchema>(mut self) -> Self {
        self.begun = Some(|generator| generator.subschema_for::<T>());
        self
    }

    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.request = Some(|generator| generator.subschema_for::<T>());
        self
    }

    pub(crate) fn gives<T: JsonSchema>(mut self) -> Self {
        self.answer = Some(|generator| generator.subschema_for::<T>());
        self
    }

    pub(crate) fn gives_media(mut self, media: &'static str) -> Self {
        self.media = media;
        self
    }
}

/// Calls with their handlers.
#[derive(Default)]
pub(crate) struct Calls {
    pub(crate) router: Router<Arc<App>>,
    pub(crate) calls: Vec<Call>,
}

impl Calls {
    pub(crate) fn add<H, T>(mut self, call: Call, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        let method = MethodFilter::try_from(call.method.clone());
        let mut route = on(method.expect("the method of a call is a known one"), handler);
        // Calls of the form from outside look at their parameters where they look at their keys.
        if call.scheme.is_some() {
            let declared: Arc<[Parameter]> = call.query.as_slice().into();
            let declared = move |request, next| layers::declared(Arc::clone(&declared), request, next);
            route = route.route_layer(from_fn(declared));
        }
        // Whoever declares a need has it looked at, whatever the handler does.
        if let Some(needs) = call.needs.filter(|_| call.scheme.is_some()) {
            route = route.route_layer(from_fn(move |request, next| layers::permitted(needs, request, next)));
        }
        self.router = self.router.route(call.path, route);
        self.calls.push(call);
        self
    }
}
