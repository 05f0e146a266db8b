//! The responses of a simulated downstream.

use rand::{rngs::SmallRng, seq::SliceRandom};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tidegate::{
    request::{Flow, RequestId},
    stage::Receipt,
    store::Response,
};

use super::{Downstream, RespondBy, kinds::Shape};

impl Downstream {
    /// The receipt of a request; each call returns the same.
    ///
    /// One that carries the response has no reference: no response will name it.
    pub(super) fn receipt(&self, id: RequestId, shape: Shape, answered: bool) -> Receipt {
        let response = (shape.flow == Flow::Direct && answered).then(|| json!({ "simulated": id }));
        let reference = match response {
            Some(_) => None,
            None => self.reference(id),
        };
        Receipt { reference, response }
    }

    /// Posts the responses to a request that was taken just now.
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
        let responses = match (shape.flow, shape.shares) {
            // The receipt carries it.
            (Flow::Direct, _) => Vec::new(),
            (Flow::Proof, _) => {
                let accept = !self.options.verdict_reject_rate.happens(dice);
                vec![response(None, Some(accept))]
            }
            (Flow::Decrypt, None) => vec![response(None, None)],
            (Flow::Decrypt, Some(count)) => {
                let mut parts: Vec<_> = (1..=count).map(|part| Some(part.to_string())).collect();
                parts.shuffle(dice);
                parts.into_iter().map(|part| response(part, None)).collect()
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

/// The content of a response, as JSON text.
fn raw(id: RequestId, part: Option<&str>) -> Box<RawValue> {
    let content = match part {
        Some(part) => json!({ "simulated": id, "share": part }),
        None => json!({ "simulated": id }),
    };
    // A map with text keys can always be serialised.
    to_raw_value(&content).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
