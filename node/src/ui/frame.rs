//! What every page has around it.

use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::{context::Ui, document::document, session::Viewer};

/// A page, and its way in the navigation.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// The path of its section, such as `/ui/gates`.
    pub(super) section: &'a str,
    /// What its live sections come from, if it has any.
    pub(super) live: Option<String>,
    pub(super) body: Markup,
}

const SECTIONS: [(&str, &str); 9] = [
    ("/ui", "Now"),
    ("/ui/honesty", "Honesty"),
    ("/ui/requests", "Requests"),
    ("/ui/gates", "Gates"),
    ("/ui/stages", "Stages"),
    ("/ui/workers", "Workers"),
    ("/ui/webhooks", "Webhooks"),
    ("/ui/settings", "Settings"),
    ("/ui/doctor", "Doctor"),
];

impl Page<'_> {
    pub(super) fn show(self, ui: &Ui, viewer: &Viewer) -> Response {
        let instance = ui.options.instance.as_deref();
        let head = html! {
            header {
                a.brand href="/ui" { "Tidegate" }
                @if let Some(instance) = instance { span.instance { (instance) } }
                nav aria-label="Pages" {
                    ul {
                        @for (path, name) in SECTIONS {
                            li { a href=(path) aria-current=[(path == self.section).then_some("page")] { (name) } }
                        }
                    }
                }
                div.who {
                    span { (viewer.name()) @if !viewer.may_act() { " (read only)" } }
                    @if viewer.is_signed_in() {
                        form method="post" action="/ui/sign-out" {
                            (viewer.seal())
                            button { "Sign out" }
                        }
                    } @else if viewer.has_keys() {
                        a href="/ui/sign-in" { "Sign in" }
                    }
                }
            }
        };
        let body = html! {
            div.top {
                h1 { (self.title) }
                @if let Some(live) = &self.live {
                    button #live type="button" hidden data-source=(live) { "Connecting …" }
                }
            }
            (self.body)
        };
        let title = match instance {
            Some(instance) => format!("{} · {instance} · Tidegate", self.title),
            None => format!("{} · Tidegate", self.title),
        };
        document(&title, ui.options.colour.as_deref(), &head, &body).into_response()
    }
}
