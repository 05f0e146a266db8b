//! Traces: what joins the spans of one request, which several processes make.
//!
//! The engine makes spans of `tracing` and exports none. A program that exports them [installs](install) what places them in
//! traces. Without that there is no span, and the `traceparent` of a request is kept and passed on as it came.

use std::{ops::RangeInclusive, sync::OnceLock};

use tracing::{Span, level_filters::LevelFilter};

/// The target of the spans of traces: a program exports these.
pub const TARGET: &str = "tidegate::traces";

/// The header of HTTP that has a `traceparent`.
pub const TRACEPARENT: &str = "traceparent";

/// Where a span begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// In a trace of its own.
    New,
    /// In the trace of this `traceparent`, below its span.
    Below(&'a str),
    /// In a trace of its own, which links to this `traceparent`.
    LinkedTo(&'a str),
}

impl<'a> Origin<'a> {
    /// The origin of an attempt at a request with this `traceparent`.
    #[must_use]
    pub fn of_attempt(traceparent: Option<&'a str>, begins_trace: bool) -> Self {
        match traceparent {
            None => Self::New,
            Some(traceparent) if begins_trace => Self::LinkedTo(traceparent),
            Some(traceparent) => Self::Below(traceparent),
        }
    }
}

/// How a program places spans in traces.
pub trait Placement: Send + Sync + 'static {
    /// Whether a span that begins there is exported; if not, the `traceparent` that stands for it.
    fn sample(&self, origin: Origin<'_>) -> Result<(), String>;

    /// Places a new span, which no code has entered and which is exported, and adds attributes that no log line needs. Returns
    /// its `traceparent`; `None` if it does not reach the exporter.
    fn place(&self, span: &Span, origin: Origin<'_>, attributes: &[(&'static str, &str)]) -> Option<String>;

    /// Keeps a new span, which is made for lines of logs, from the exporter.
    fn hide(&self, span: &Span);
}

static PLACEMENT: OnceLock<Box<dyn Placement>> = OnceLock::new();

/// From now on, spans are made and placed in this way. Called once, at the start of a program.
pub fn install(placement: impl Placement) {
    // A second one is a mistake of the program: the spans of the first are exported already.
    let _ = PLACEMENT.set(Box::new(placement));
}

/// Whether spans are made.
#[must_use]
pub fn is_on() -> bool {
    PLACEMENT.get().is_some()
}

/// A span in its trace.
#[derive(Debug, Clone)]
pub struct Traced {
    /// The span.
    pub span: Span,
    /// Where it is, for calls within it.
    pub traceparent: String,
}

/// Where a span is to be made.
pub struct Place<'a> {
    placement: &'static dyn Placement,
    origin: Origin<'a>,
    /// What stands for a span that is not exported.
    unexported: Option<String>,
}

impl<'a> Place<'a> {
    /// `None`: the program exports no traces.
    #[must_use]
    pub fn of(origin: Origin<'a>) -> Option<Self> {
        let placement = &**PLACEMENT.get()?;
        Some(Self { placement, origin, unexported: placement.sample(origin).err() })
    }

    /// The span that `make` returns with its attributes, which has the id of its trace as the field `trace_id`. One that is not
    /// exported is made for lines of logs only, where single requests are logged.
    pub fn begin<const N: usize>(self, make: impl FnOnce() -> (Span, [(&'static str, String); N])) -> Option<Traced> {
        let are_lines_logged = LevelFilter::current() >= LevelFilter::DEBUG;
        let (span, traceparent) = match self.unexported {
            Some(traceparent) if !are_lines_logged => return Some(Traced { span: Span::none(), traceparent }),
            Some(traceparent) => {
                let (span, _) = make();
                self.placement.hide(&span);
                (span, traceparent)
            }
            None => {
                let (span, attributes) = make();
                let attributes = attributes.each_ref().map(|(name, value)| (*name, value.as_str()));
                let traceparent = self.placement.place(&span, self.origin, &attributes)?;
                (span, traceparent)
            }
        };
        span.record("trace_id", trace_id(&traceparent));
        Some(Traced { span, traceparent })
    }
}

/// Notes that what a span stands for has failed, with a code for programs: it declares `error.type` and
/// `otel.status_code`.
pub fn fail(span: &Span, code: &str) {
    span.record("error.type", code);
    span.record("otel.status_code", "ERROR");
}

/// The place of the id of the trace in a `traceparent`.
const TRACE_ID: RangeInclusive<usize> = 3..=34;

/// The id of the trace of a `traceparent`.
fn trace_id(traceparent: &str) -> &str {
    traceparent.get(TRACE_ID).unwrap_or_default()
}

/// A `traceparent` of [W3C Trace Context](https://www.w3.org/TR/trace-context/) as version 00 writes it. An invalid one is
/// ignored: no request may fail for its trace.
#[must_use]
pub fn valid_traceparent(header: &str) -> Option<String> {
    let fields = header.get(..55)?;
    let rest = &header[55..];
    let parts: Vec<_> = fields.split('-').collect();
    let [version, trace, parent, flags] = parts[..] else { return None };
    let is_hex = |text: &str, digits| {
        text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_id = |text: &str, digits| is_hex(text, digits) && text.bytes().any(|byte| byte != b'0');
    let ends = match version {
        "00" => rest.is_empty(),
        "ff" => false,
        // A later version may have more fields.
        _ => rest.is_empty() || rest.starts_with('-'),
    };
    let is_valid = is_hex(version, 2) && is_id(trace, 32) && is_id(parent, 16) && is_hex(flags, 2) && ends;
    is_valid.then(|| format!("00{}", &fields[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_as_w3c_has_it() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(valid_traceparent(valid).as_deref(), Some(valid));
        assert_eq!(valid_traceparent(&valid.replacen("00", "cc", 1)).as_deref(), Some(valid));
        assert_eq!(valid_traceparent(&format!("cc{}-more", &valid[2..])).as_deref(), Some(valid));
        assert_eq!(trace_id(valid), "0af7651916cd43dd8448eb211c80319c");
        for invalid in INVALID {
            assert_eq!(valid_traceparent(invalid), None, "{invalid}");
        }
    }

    /// `tests/trace` has the same for SQL.
    const INVALID: [&str; 9] = [
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
    ];
}
