//! The pages for operators, as a browser without scripts gets them.

mod acts;
mod live;
mod sessions;
mod shown;

use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode,
    header::{COOKIE, HeaderMap, LOCATION, SET_COOKIE},
    redirect::Policy,
};
use tidegate::{internals::api_key::ApiKey, request::RequestId};
use tidegate_node::{ConnectionOptions, Node, NodeOptions, PageOptions};

use super::Api;
use crate::support::{TestDatabase, eventually};

const PAGES: [&str; 9] = [
    "/ui",
    "/ui/honesty",
    "/ui/requests",
    "/ui/gates",
    "/ui/stages",
    "/ui/workers",
    "/ui/webhooks",
    "/ui/settings",
    "/ui/doctor",
];

/// A node with its pages.
async fn pages(database: &TestDatabase, options: PageOptions) -> Api {
    let node = Node::of_store(database.store.clone(), NodeOptions::default());
    Api::serve(node.router().merge(node.pages(options)), ConnectionOptions::default()).await
}

/// A browser without scripts, which keeps its cookie and follows no redirect.
struct Browser<'a> {
    api: &'a Api,
    client: Client,
    cookie: Option<String>,
}

struct Shown {
    status: StatusCode,
    headers: HeaderMap,
    html: String,
}

impl<'a> Browser<'a> {
    fn of(api: &'a Api) -> Self {
        Self { api, client: Client::builder().no_proxy().redirect(Policy::none()).build().unwrap(), cookie: None }
    }

    async fn signed_in(api: &'a Api, key: &ApiKey) -> Self {
        let mut browser = Self::of(api);
        let shown = browser.sign_in(key.expose()).await;
        assert_eq!(shown.status, 303, "{}", shown.html);
        browser
    }

    async fn sign_in(&mut self, key: &str) -> Shown {
        let shown = self.send(self.ask(Method::POST, "/ui/sign-in").form(&[("key", key), ("to", "/ui/gates")])).await;
        let cookie = shown.headers.get(SET_COOKIE).map(|cookie| cookie.to_str().unwrap().to_owned());
        self.cookie = cookie.map(|cookie| cookie.split(';').next().unwrap().to_owned());
        shown
    }

    fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        let asking = self.client.request(method, self.api.url(path));
        match &self.cookie {
            Some(cookie) => asking.header(COOKIE, cookie),
            None => asking,
        }
    }

    async fn send(&self, asking: RequestBuilder) -> Shown {
        let answer: Response = asking.send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        Shown { status, headers, html: answer.text().await.unwrap() }
    }

    async fn get(&self, path: &str) -> Shown {
        self.send(self.ask(Method::GET, path)).await
    }

    /// Sends a form as the page at `page` has it, with its seal.
    async fn act(&self, page: &str, path: &str, fields: &[(&str, &str)]) -> Shown {
        let seal = self.get(page).await.seal();
        let fields: Vec<_> = fields.iter().copied().chain([("seal", &*seal)]).collect();
        self.send(self.ask(Method::POST, path).form(&fields)).await
    }
}

impl Shown {
    fn seal(&self) -> String {
        let (_, after) = self.html.split_once(r#"name="seal" value=""#).unwrap_or_default();
        after.split('"').next().unwrap_or_default().to_owned()
    }

    fn location(&self) -> &str {
        self.headers.get(LOCATION).map_or("", |location| location.to_str().unwrap())
    }

    fn says(&self, words: &str) {
        assert!(self.html.contains(words), "{words}: {}", self.html);
    }
}

async fn some_requests(database: &TestDatabase) -> Vec<RequestId> {
    let mut ids = Vec::new();
    for status in ["completed", "failure", "timed_out", "receipt_received", "processing"] {
        ids.push(RequestId(database.request_in("direct", status).await));
    }
    ids
}

/// Follows a job to its end; returns its page.
async fn ended(browser: &Browser<'_>, path: &str) -> Shown {
    eventually("the job has ended", || async { !browser.get(path).await.headers.contains_key("refresh") }).await;
    browser.get(path).await
}
