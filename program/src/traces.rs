//! Exports traces by OTLP over HTTP, if the environment names a collector. The variables are those of OpenTelemetry's
//! standard.

mod collector;

use std::{env, time::Duration};

use anyhow::Context as _;
use opentelemetry::{
    Context, KeyValue,
    trace::{SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider},
};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{Config, IdGenerator, RandomIdGenerator, Sampler, SamplingDecision, SdkTracerProvider, ShouldSample},
};
use tidegate::internals::traces::{Origin, Placement, TARGET, install};
use tracing::{Metadata, Span, level_filters::LevelFilter};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
use tracing_subscriber::{
    Layer,
    filter::{FilterFn, filter_fn},
};

use self::collector::Collector;
use crate::logs::LogArgs;

/// Traces are exported if one of these is set.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// How long the end of a program waits for the last spans to reach the collector.
const LAST_EXPORT: Duration = Duration::from_secs(5);

/// The traces that a program exports.
#[must_use = "the last spans are exported by `end`"]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    /// None.
    pub const fn off() -> Self {
        Self(None)
    }

    /// Starts logging, and the traces of a program that has this name where the environment has no other; none if the
    /// environment names no collector. Called once, by binaries, in the runtime that sends them.
    ///
    /// # Errors
    ///
    /// A variable of the environment is invalid.
    pub fn start(program: &'static str, logs: &LogArgs, default_filter: &str) -> anyhow::Result<Self> {
        let is_named = ENDPOINTS.into_iter().any(|name| variable(name).is_some());
        let is_disabled = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        if !is_named || is_disabled {
            logs.start(default_filter);
            return Ok(Self::off());
        }
        let exporter = SpanExporter::builder().with_http().with_http_client(Collector::new()?).build();
        let exporter = exporter.context("cannot export traces: check the variables OTEL_EXPORTER_OTLP_…")?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(program))
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
            .with_batch_exporter(exporter)
            .build();
        let layer = OpenTelemetryLayer::new(provider.tracer("tidegate"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            // No other crate reads the current context.
            .with_context_activation(false);
        logs.start_with(default_filter, layer.with_filter(spans()), spans());
        install(Placed { sampler: Config::default().sampler, ids: RandomIdGenerator::default() });
        Ok(Self(Some(provider)))
    }

    /// Exports the last spans. For the end of the program.
    pub async fn end(self) {
        if let Some(provider) = self.0 {
            // It blocks. A failure has been logged with its reason.
            let ending = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST_EXPORT));
            let _ = ending.await;
        }
    }
}

/// Lets the spans of traces through, and nothing else.
fn spans() -> FilterFn {
    let is_one: fn(&Metadata<'_>) -> bool = |metadata| metadata.is_span() && metadata.target() == TARGET;
    filter_fn(is_one).with_max_level_hint(LevelFilter::INFO)
}

/// A variable of the environment. An empty one counts as absent, by the standard.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// What the spans come from. The environment may say more, and may name the program otherwise.
fn resource(program: &'static str) -> Resource {
    let is_named = variable("OTEL_SERVICE_NAME").is_some()
        || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|value| value.contains("service.name="));
    let name = (!is_named).then(|| KeyValue::new("service.name", program));
    let attributes = [
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ];
    Resource::builder().with_attributes(attributes).with_attributes(name).build()
}

/// Places the spans of the engine and the node. Its sampler decides before a span is made, because most traces may not be
/// exported; that of the exporter exports the spans of these.
struct Placed {
    sampler: Box<dyn ShouldSample>,
    ids: RandomIdGenerator,
}

impl Placement for Placed {
    /// A trace that links to another one is exported if that one is: the traces of one request are exported all, or none.
    fn sample(&self, origin: Origin<'_>) -> Result<(), String> {
        let before = match origin {
            Origin::New => None,
            Origin::Below(traceparent) | Origin::LinkedTo(traceparent) => span_context(traceparent),
        };
        let trace_id = match (&before, origin) {
            (Some(parent), Origin::Below(_)) => parent.trace_id(),
            _ => self.ids.new_trace_id(),
        };
        let before = before.map(|before| Context::new().with_remote_span_context(before));
        let sampled = self.sampler.should_sample(before.as_ref(), trace_id, "", &SpanKind::Internal, &[], &[]);
        match sampled.decision {
            SamplingDecision::RecordAndSample => Ok(()),
            SamplingDecision::Drop | SamplingDecision::RecordOnly => {
                Err(format!("00-{trace_id}-{}-00", self.ids.new_span_id()))
            }
        }
    }

    fn place(&self, span: &Span, origin: Origin<'_>, attributes: &[(&'static str, &str)]) -> Option<String> {
        match origin {
            Origin::New => {}
            Origin::Below(traceparent) => {
                // The sampler has decided, perhaps otherwise than the caller.
                let parent = span_context(traceparent)?;
                let parent = remote(parent.trace_id(), parent.span_id(), TraceFlags::SAMPLED);
                span.set_parent(Context::new().with_remote_span_context(parent)).ok()?;
            }
            Origin::LinkedTo(traceparent) => span.add_link(span_context(traceparent)?),
        }
        for (name, value) in attributes {
            span.set_attribute(*name, (*value).to_owned());
        }
        let context = span.context();
        let context = context.span().span_context().clone();
        let traceparent = || format!("00-{}-{}-01", context.trace_id(), context.span_id());
        context.is_valid().then(traceparent)
    }

    fn hide(&self, span: &Span) {
        let nowhere = remote(self.ids.new_trace_id(), self.ids.new_span_id(), TraceFlags::default());
        // It fails where the span is not one for the exporter at all.
        let _ = span.set_parent(Context::new().with_remote_span_context(nowhere));
    }
}

/// The span of a valid `traceparent`.
fn span_context(traceparent: &str) -> Option<SpanContext> {
    let trace_id = TraceId::from_hex(traceparent.get(3..35)?).ok()?;
    let span_id = SpanId::from_hex(traceparent.get(36..52)?).ok()?;
    let flags = u8::from_str_radix(traceparent.get(53..55)?, 16).ok()?;
    Some(remote(trace_id, span_id, TraceFlags::new(flags) & TraceFlags::SAMPLED))
}

fn remote(trace_id: TraceId, span_id: SpanId, flags: TraceFlags) -> SpanContext {
    SpanContext::new(trace_id, span_id, flags, true, TraceState::default())
}
