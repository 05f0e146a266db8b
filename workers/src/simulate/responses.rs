//! What a simulated downstream answers to the requests it took.

use rand::{rngs::SmallRng, seq::SliceRandom};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tidegate::{
    request::{Flow, RequestId},
    stage::Receipt,
    store::Response,
};

use super::{Downstream, RespondBy, kinds::Shape};

impl Downstream {
    /// The receipt of a request; the same at every asking.
    ///
    /// One that carries the response has no reference: nothing will come under it.
    pub(super) fn receipt(&self, id: RequestId, shape: Shape, answered: bool) -> Receipt {
        let response = (shape.flow == Flow::Direct && answered).then(|| content(id));
        let reference = match response {
            Some(_) => None,
            None => self.reference(id),
        };
        Receipt { reference, response }
    }

    /// Sends off the responses to a request that was taken just now.
    pub(super) fn answer(&self, id: RequestId, kind: &str, shape: Shape, dice: &mut SmallRng) {
        let Some(deliveries) = &self.deliveries else {
            return;
        };
        let response = |part: Option<String>, accept| {
            let reference = self.reference(id);
            Response {
                id: reference.is_none().then_some(id),
                response: raw(id, part.as_deref()),
                reference,
                part,
                accept,
            }
        };
        let responses = match shape {
            // The receipt carries it.
            Shape { flow: Flow::Direct, .. } => Vec::new(),
            Shape { flow: Flow::Proof, .. } => {
                let accept = !self.options.verdict_reject_rate.happens(dice);
                vec![response(None, Some(accept))]
            }
            Shape {
                flow: Flow::Decrypt,
                shares: None,
            } => vec![response(None, None)],
            Shape {
                flow: Flow::Decrypt,
                shares: Some(count),
            } => {
                let mut parts: Vec<u32> = (1..=count).collect();
                parts.shuffle(dice);
                parts
                    .into_iter()
                    .map(|part| response(Some(part.to_string()), None))
                    .collect()
            }
        };
        for response in responses {
            let latency = self.options.response_latency.draw(dice);
            deliveries.post(id, kind, latency, response);
        }
    }

    fn reference(&self, id: RequestId) -> Option<String> {
        match self.options.respond_by {
            RespondBy::Reference => Some(format!("sim-{}", id.0.simple())),
            RespondBy::JobId => None,
        }
    }
}

fn content(id: RequestId) -> Value {
    json!({ "simulated": id })
}

/// The content of a response, as JSON text.
fn raw(id: RequestId, part: Option<&str>) -> Box<RawValue> {
    let content = match part {
        Some(part) => json!({ "simulated": id, "share": part }),
        None => content(id),
    };
    // A map with text for keys always has a text.
    to_raw_value(&content).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
