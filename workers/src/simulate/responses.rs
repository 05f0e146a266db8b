//! The responses of a simulated downstream.

use rand::{rngs::SmallRng, seq::SliceRandom};
use serde_json::json;
use tidegate::{
    internals::store::Response,
    request::{Flow, RequestId},
    stage::Receipt,
};

use super::{Downstream, RespondBy, SimulatedKind};

impl Downstream {
    /// The receipt of a request; each call returns the same.
    ///
    /// A receipt with the response has no reference: no response will name it.
    pub(super) fn receipt(&self, id: RequestId, kind: &SimulatedKind, answered: bool) -> Receipt {
        let response = (kind.flow == Flow::Direct && answered).then(|| json!({ "simulated": id }).into());
        let reference = match response {
            Some(_) => None,
            None => self.reference(id),
        };
        Receipt { reference, response }
    }

    /// Posts the responses to a request that was taken just now.
    pub(super) fn answer(&self, id: RequestId, kind: &SimulatedKind, dice: &mut SmallRng) {
        let Some(deliveries) = &self.deliveries else {
            return;
        };
        let parts = match (kind.flow, kind.shares) {
            // The receipt has the response.
            (Flow::Direct, _) => return,
            (Flow::Decrypt, Some(count)) => {
                let mut parts: Vec<_> = (1..=count).map(|part| Some(part.to_string())).collect();
                parts.shuffle(dice);
                parts
            }
            _ => vec![None],
        };
        let accept = (kind.flow == Flow::Proof).then(|| !self.options.verdict_reject_rate.happens(dice));
        for part in parts {
            let mut content = json!({ "simulated": id });
            if let Some(part) = &part {
                content["share"] = json!(part);
            }
            let reference = self.reference(id);
            let response =
                Response { id: reference.is_none().then_some(id), reference, part, accept, response: content.into() };
            let latency = self.options.response_latency.draw(dice);
            deliveries.post(id, &kind.name, latency, response);
        }
    }

    fn reference(&self, id: RequestId) -> Option<String> {
        match self.options.respond_by {
            RespondBy::Reference => Some(format!("sim-{}", id.0.simple())),
            RespondBy::JobId => None,
        }
    }
}
