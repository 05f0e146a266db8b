//! What this node's copy of the gates says.

use std::time::Duration;

use super::{
    Metrics,
    catalogue::{GATE_COPY_AGE, GATE_COPY_CLOSED},
};
use crate::gate::Gate;

/// The figures, as text. Each time anew, so that a gate that is gone does not go on being reported.
#[must_use]
pub fn render(gates: &[Gate], age: Duration) -> String {
    let metrics = Metrics::empty();
    for gate in gates {
        metrics
            .gauge(&GATE_COPY_CLOSED, &[("gate", &gate.name)])
            .set(f64::from(u8::from(!gate.accepting)));
    }
    metrics.gauge(&GATE_COPY_AGE, &[]).set(age.as_secs_f64());
    metrics.render()
}
