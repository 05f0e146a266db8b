//! Who looks at the pages: sessions, and the seal of each form.
//!
//! A viewer signs in with an API key and gets a cookie with a token; the database has its hash, so that any node knows
//! the session, and sign-out and the end of the key end it everywhere. Without any key the pages are open to browsers
//! on the same machine, as the API is.

use std::sync::Arc;

use axum::{
    Form,
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::{HeaderMap, Method, header::COOKIE, request::Parts},
};
use maud::{Markup, html};
use rand::{TryRngCore, rngs::OsRng};
use sha2::{Digest, Sha256};
use tidegate::internals::{api_key::Scope, store::Store};

use super::{
    context::{Ui, Visitors},
    fault::Fault,
};
use crate::state::access::{Caller, Refusal};

pub(super) const COOKIE_NAME: &str = "tidegate_session";

/// What a form has in its hidden field.
const SEAL: &str = "seal";

/// The token of a session, as the browser has it.
#[derive(Clone)]
pub(super) struct Token(pub(super) String);

impl Token {
    pub(super) fn generate() -> std::io::Result<Self> {
        let mut random = [0_u8; 32];
        OsRng.try_fill_bytes(&mut random).map_err(std::io::Error::other)?;
        Ok(Self(hex(&random)))
    }

    fn of(headers: &HeaderMap) -> Option<Self> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let (_, token) = pairs.find(|(name, _)| *name == COOKIE_NAME)?;
        Some(Self(token.to_owned()))
    }

    pub(super) fn hash(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Who looks at a page.
pub(super) struct Viewer {
    /// None: a visitor without a key, where those may look.
    caller: Option<Caller>,
    token: Option<Token>,
    /// What the forms of this viewer have in their hidden field.
    seal: String,
}

impl Viewer {
    pub(super) fn may_act(&self) -> bool {
        self.caller.as_ref().is_some_and(Caller::is_operator)
    }

    pub(super) fn sees_payloads(&self) -> bool {
        self.caller.as_ref().is_some_and(|caller| caller.require(Scope::Payload).is_ok())
    }

    pub(super) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    pub(super) fn is_signed_in(&self) -> bool {
        self.token.is_some()
    }

    /// Whether there are keys to sign in with.
    pub(super) fn has_keys(&self) -> bool {
        self.caller.as_ref().is_none_or(|caller| caller.key_id().is_some())
    }

    pub(super) fn name(&self) -> String {
        let name =
            self.caller.as_ref().map(|caller| caller.name().unwrap_or_else(|| "anyone on this machine".to_owned()));
        name.unwrap_or_else(|| "visitor".to_owned())
    }

    /// The hidden field of a form.
    pub(super) fn seal(&self) -> Markup {
        html! { input type="hidden" name=(SEAL) value=(self.seal); }
    }

    /// The store for acts of this viewer: histories have the name.
    pub(super) fn store(&self, ui: &Ui) -> Store {
        ui.store.clone().on_behalf_of(&self.name())
    }

    /// Whether the session and its key still live.
    pub(super) async fn check(&self, ui: &Ui) -> Result<(), Fault> {
        match (&self.token, &self.caller) {
            (Some(token), _) => Ok(ui.store.session_key(&token.hash()).await?.map(drop).ok_or(Refusal::Unknown)?),
            (None, Some(caller)) => Ok(caller.check_access().await?),
            (None, None) => Ok(()),
        }
    }

    async fn of(headers: &HeaderMap, ui: &Ui) -> Result<Self, Fault> {
        let access = &ui.node.access;
        if !access.needs_keys().await? {
            let caller = access.without_key(headers, Scope::Read)?;
            let seal = seal_of(&ui.secret);
            return Ok(Self { caller: Some(caller), token: None, seal });
        }
        if let Some(token) = Token::of(headers)
            && let Some(key) = ui.store.session_key(&token.hash()).await?
        {
            let caller = access.in_session(&key, Scope::Read).await?;
            let seal = seal_of(&token.0);
            return Ok(Self { caller: Some(caller), token: Some(token), seal });
        }
        match ui.options.visitors {
            Visitors::Read => Ok(Self { caller: None, token: None, seal: String::new() }),
            Visitors::SignIn => Err(Fault::SignIn("/ui".to_owned())),
        }
    }
}

fn seal_of(secret: &str) -> String {
    hex(&Sha256::digest(format!("{secret} forms")))
}

impl FromRequestParts<Arc<Ui>> for Viewer {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, ui: &Arc<Ui>) -> Result<Self, Fault> {
        let found = Self::of(&parts.headers, ui).await;
        found.map_err(|fault| match fault {
            // Back to the page that was asked for; an act is not repeated.
            Fault::SignIn(_) if parts.method == Method::GET => {
                Fault::SignIn(parts.uri.path_and_query().map_or("/ui", |path| path.as_str()).to_owned())
            }
            fault => fault,
        })
    }
}

/// The fields of a form, by name.
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn of(pairs: Vec<(String, String)>) -> Result<Self, Fault> {
        match pairs.iter().find(|(_, value)| value.contains('\0')) {
            Some((name, _)) => Err(Fault::Invalid(format!("{name} is text"))),
            None => Ok(Self(pairs)),
        }
    }

    /// A field that has a value, as it was sent: the name of a submitter may begin with a blank.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(field, value)| field == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn need(&self, name: &str) -> Result<&str, Fault> {
        self.get(name).ok_or_else(|| Fault::Invalid(format!("{name} is missing")))
    }

    /// All values of a field.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Fault> {
        let value = self.get(name).map(str::trim).filter(|value| !value.is_empty()).map(str::parse).transpose();
        value.map_err(|_| Fault::Invalid(format!("{name} is no number of its range")))
    }

    /// All that have a value, but for the seal.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter().filter(|(name, value)| name != SEAL && !value.is_empty());
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The fields of a query, with the same ways to read them.
impl<S: Send + Sync> FromRequestParts<S> for Fields {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Query(pairs) = query.map_err(|error| Fault::Invalid(error.body_text()))?;
        Fields::of(pairs)
    }
}

/// A form that an operator sent: with the seal of the session, by a key that may administer.
pub(super) struct Act {
    pub(super) viewer: Viewer,
    pub(super) fields: Fields,
}

impl FromRequest<Arc<Ui>> for Act {
    type Rejection = Fault;

    async fn from_request(request: Request, ui: &Arc<Ui>) -> Result<Self, Fault> {
        let (mut parts, body) = request.into_parts();
        let viewer = Viewer::from_request_parts(&mut parts, ui).await?;
        let sent = Form::<Vec<(String, String)>>::from_request(Request::from_parts(parts, body), ui).await;
        let Form(pairs) = sent.map_err(|error| Fault::Invalid(error.body_text()))?;
        let fields = Fields::of(pairs)?;
        if viewer.seal.is_empty() || fields.get(SEAL) != Some(&viewer.seal) {
            return Err(Fault::OldForm);
        }
        Ok(Self { viewer, fields })
    }
}

impl Act {
    /// The store for what the operator does.
    pub(super) fn store(&self, ui: &Ui) -> Result<Store, Fault> {
        if self.viewer.may_act() { Ok(self.viewer.store(ui)) } else { Err(Fault::Lacks("admin")) }
    }
}
