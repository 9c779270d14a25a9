//! Sign-in of people through an OpenID Connect provider (API-5): the authorization code flow with PKCE, and what the
//! provider's claims mean here.
//!
//! ```text
//!  begin ──► url, Pending            the browser goes to the provider, and comes back with code and state
//!                 │ (the caller keeps it, sealed)
//!  finish ◄───────┴── code, state
//!    ├─ state and age ── the answer belongs to this sign-in
//!    ├─ token endpoint ── code and PKCE verifier for an ID token
//!    ├─ ID token ── signature, issuer, audience, times, nonce
//!    ├─ userinfo ── for claims that the ID token lacks
//!    └─► SignedIn: subject, name, mail, role, departments
//! ```
//!
//! Role and departments are derived anew at each sign-in. *The provider does not say* ([`SignedIn::role`] is `None`) and
//! *the provider says nothing that counts* ([`Admission::Denied`], no department) are two answers: after the first, what
//! the directory has stays.
//!
//! What it must never do: serve HTTP, know a cookie or the directory, follow a redirect, wait without a bound, show a
//! secret, take an ID token that it has not verified.
//!
//! Where to start reading: [`Provider`], [`Settings`].

mod address;
mod claims;
mod derived;
mod discovery;
mod error;
mod http;
mod id_token;
mod kept;
mod keys;
mod pending;
mod provider;
mod settings;
mod token;
mod user_info;

pub use derived::{Admission, SignedIn};
pub use error::{Asked, Cause, Error, Fault, Refusal};
pub use pending::{Begun, Pending};
pub use provider::Provider;
pub use settings::Settings;
