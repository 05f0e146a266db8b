//! The document of every page: what it loads, and nothing else.

use maud::{DOCTYPE, Markup, html};

use super::assets;

/// A page without navigation, for those who are not signed in.
pub(super) fn bare(title: &str, body: &Markup) -> Markup {
    let head = html! { header { a.brand href="/ui" { "Tidegate" } } };
    document(&format!("{title} · Tidegate"), None, &head, &html! { h1 { (title) } (body) })
}

pub(super) fn document(title: &str, colour: Option<&str>, head: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-colour=[colour] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="icon" href=(assets::ICON.path());
                link rel="stylesheet" href=(assets::STYLE.path());
                script defer src=(assets::SCRIPT.path()) {}
            }
            body {
                a.skip href="#main" { "Skip to the page" }
                (head)
                main #main tabindex="-1" { (body) }
                footer { "Tidegate " (env!("CARGO_PKG_VERSION")) }
            }
        }
    }
}
