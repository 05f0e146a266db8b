//! Does a call with many responses do what as many calls with one each do, and are responses over HTTP stored together without
//! waiting for each other?

use rand::{Rng as _, seq::IndexedRandom as _, seq::SliceRandom as _};
use sqlx::Connection;
use tidegate::{
    internals::{
        error::StoreError,
        store::{Responded, Response},
    },
    request::RequestId,
};
use uuid::Uuid;

use crate::{
    http::Api,
    support::{TestDatabase, campaign, eventually, race::sound, raw, until_blocked},
};

const SCENE: [(&str, &str); 11] = [
    ("direct", "receipt_received"),
    ("direct", "receipt_received"),
    ("input_proof", "receipt_received"),
    ("input_proof", "receipt_received"),
    ("public_decrypt", "receipt_received"),
    ("user_decrypt", "receipt_received"),
    ("user_decrypt", "receipt_received"),
    ("direct", "completed"),
    ("direct", "timed_out"),
    ("user_decrypt", "timed_out"),
    ("direct", "tx_in_flight"),
];

/// What is told of a response: the place of its request, its status and the outcome.
type Told = (Option<usize>, Option<String>, String);

/// The requests of the scene, and at the end one that will be repeated.
async fn scene(database: &TestDatabase) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for (kind, status) in SCENE.into_iter().chain([("direct", "timed_out")]) {
        ids.push(database.request_in(kind, status).await);
    }
    ids
}

/// Repeats the last of them; adds its repeat, and an id that no request has.
async fn repeat(database: &TestDatabase, ids: &mut Vec<Uuid>) {
    let repeated = ids[ids.len() - 1];
    let redrive = format!("select new_ids[1] from tidegate.redrive(requests => '{{{repeated}}}', may_repeat => true)");
    ids.push(database.value(&redrive).await.parse().unwrap());
    ids.push(Uuid::now_v7());
}

/// A response to the request at a place, which may fit it or not.
fn response(place: usize, ids: &[Uuid], number: usize) -> Response {
    let mut random = rand::rng();
    let kind = SCENE.get(place).map_or("direct", |(kind, _)| kind);
    let odd = random.random_bool(0.1);
    let part = (kind.ends_with("decrypt") != odd && (kind == "user_decrypt" || random.random_bool(0.5)))
        .then(|| (*["a", "b", "c", "d"].choose(&mut random).unwrap()).to_owned());
    let accept = ((kind == "input_proof") != odd).then(|| random.random_bool(0.5));
    let reference = random.random_bool(0.4).then(|| format!("ref-{}", ids[place]));
    let id = (reference.is_none() || random.random_bool(0.1)).then(|| RequestId(ids[place]));
    Response { id, reference, part, accept, response: raw(&serde_json::json!({ "number": number })) }
}

fn told(ids: &[Uuid], result: Result<Responded, StoreError>) -> Told {
    match result {
        Ok(responded) => {
            let place = responded.id.map(|id| ids.iter().position(|other| *other == id.0).unwrap());
            (place, responded.status.map(|status| status.to_string()), responded.outcome)
        }
        Err(StoreError::UnknownRequest(_)) => (None, None, "unknown".to_owned()),
        Err(StoreError::Misuse(why)) => {
            let (_, why) = why.split_once(": ").unwrap();
            (None, None, why.to_owned())
        }
        Err(error) => panic!("{error}"),
    }
}

/// What there is of the requests.
async fn left(database: &TestDatabase, ids: &[Uuid]) -> Vec<String> {
    let mut left = Vec::new();
    for id in ids {
        let sql = format!(
            "select concat_ws(' ', r.req_status, r.cause, r.transition_no, r.response, r.error ->> 'code',
               (select string_agg(p.part || p.response, ' ' order by p.part) from tidegate.response_part as p where p.request_id = r.id),
               (select string_agg(i.late || coalesce(i.part, '-') || i.response, ' ' order by i.request_id is null, i.id)
                from tidegate.response_inbox as i where i.request_id = r.id or i.reference = 'ref-' || r.id),
               (select o.executed || o.source from tidegate.outcome as o where o.request_id = r.id))
             from (values ('{id}'::uuid)) as one(id) left join tidegate.request as r using (id)"
        );
        left.push(database.value(&sql).await.replace(&id.to_string(), "ID"));
    }
    left
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_do_what_one_after_the_other_do() {
    let database = TestDatabase::unlimited().await;
    for _ in 0..campaign(4, 100) {
        let (mut one, mut other) = (scene(&database).await, scene(&database).await);
        for ids in [&mut one, &mut other] {
            repeat(&database, ids).await;
        }
        let places: Vec<usize> = (0..60).map(|_| rand::random_range(0..one.len())).collect();
        let responses: Vec<_> =
            places.iter().enumerate().map(|(number, place)| (*place, response(*place, &one, number))).collect();
        let mut singly = Vec::new();
        for (_, response) in &responses {
            singly.push(told(&one, database.store.respond(response).await));
        }
        let of_the_other = responses.iter().map(|(place, response)| Response {
            id: response.id.map(|_| RequestId(other[*place])),
            reference: response.reference.as_ref().map(|_| format!("ref-{}", other[*place])),
            ..response.clone()
        });
        let mut results = Vec::new();
        for group in groups(of_the_other.collect()) {
            results.extend(database.store.respond_many(&group, None).await.unwrap());
        }
        // A request's status is told when all of its group are stored.
        let results: Vec<_> = results.into_iter().map(|result| told(&other, result)).collect();
        for (number, (single, many)) in singly.iter().zip(&results).enumerate() {
            let of = (&responses[number].1, SCENE.get(places[number]));
            assert_eq!((single.0, &single.2), (many.0, &many.2), "{of:?}");
        }
        let (after_one, after_other) = (left(&database, &one).await, left(&database, &other).await);
        for (place, (one, other)) in after_one.iter().zip(&after_other).enumerate() {
            assert_eq!(one, other, "{:?}", SCENE.get(place));
        }
        // Nothing waits when the next scenes are made.
        database
            .execute("select tidegate.cancel(r.id) from tidegate.request as r where r.req_status = 'processing'")
            .await;
    }
    sound(&database).await;
}

/// Some of them at a time.
fn groups(mut responses: Vec<Response>) -> Vec<Vec<Response>> {
    let mut groups = Vec::new();
    while !responses.is_empty() {
        let rest = responses.split_off(responses.len().min(rand::random_range(1..=30)));
        groups.push(std::mem::replace(&mut responses, rest));
    }
    groups
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_in_groups_from_many_sessions_complete_each_request_once() {
    let database = TestDatabase::unlimited().await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(RequestId(database.request_in("user_decrypt", "receipt_received").await));
    }
    let sessions = (0..20).map(|_| {
        let mut shares: Vec<_> = ids
            .iter()
            .flat_map(|id| (0..rand::random_range(2..=13)).map(move |part| (*id, format!("part {part}"))))
            .map(|(id, part)| Response {
                id: Some(id),
                reference: None,
                part: Some(part),
                accept: None,
                response: raw(&serde_json::json!(1)),
            })
            .collect();
        shares.shuffle(&mut rand::rng());
        let store = database.store.clone();
        tokio::spawn(async move {
            let mut completed = 0;
            for group in groups(shares) {
                let results = store.respond_many(&group, None).await.unwrap();
                completed +=
                    results.into_iter().filter(|result| result.as_ref().unwrap().outcome == "completed").count();
            }
            completed
        })
    });
    let mut completed = 0;
    for session in sessions.collect::<Vec<_>>() {
        completed += session.await.unwrap();
    }
    assert_eq!(completed, ids.len());
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_that_do_not_fit_each_other_are_refused() {
    let database = TestDatabase::unlimited().await;
    for arguments in [
        "'{}'",
        "array_fill('1'::jsonb, array[1001]), refs => array_fill('a'::text, array[1001])",
        "array['1'::jsonb, '2']",
        "array['1'::jsonb, '2'], refs => '{a}'",
        "array['1'::jsonb, '2'], refs => '{a,null}'",
        "array['1'::jsonb, null], refs => '{a,b}'",
        "array['1'::jsonb], refs => '{a}', parts => '{b,c}'",
    ] {
        let refused = database.refused(&format!("select tidegate.respond_many({arguments})")).await;
        assert_eq!(refused.code, "TG007", "{arguments}");
    }
    let early = "select outcome from tidegate.respond_many(array['1'::jsonb, '2'], refs => '{a,a}')";
    assert_eq!(database.column(early).await, ["early", "early"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_whose_request_is_locked_delays_no_other() {
    let database = TestDatabase::unlimited().await;
    let locked = database.request_in("direct", "receipt_received").await;
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(database.request_in("direct", "receipt_received").await);
    }
    let api = Api::of(&database).await;
    let mut holder = database.session().await;
    let mut lock = holder.begin().await.unwrap();
    sqlx::query("select from tidegate.request where id = $1 for update")
        .bind(locked)
        .execute(&mut *lock)
        .await
        .unwrap();

    let respond = |id: Uuid| {
        let call = reqwest::Client::builder().no_proxy().build().unwrap().post(api.url("/v1/responses"));
        tokio::spawn(call.json(&serde_json::json!({ "job_id": id, "response": 1 })).send())
    };
    let late = respond(locked);
    until_blocked(&database, 1).await;
    let answers: Vec<_> = others.into_iter().map(respond).collect();
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap().status(), 200);
    }
    assert!(!late.is_finished());
    lock.rollback().await.unwrap();
    assert_eq!(late.await.unwrap().unwrap().status(), 200);
    eventually("all are answered", || async {
        database.number("select count(*) from tidegate.request where req_status <> 'completed'").await == 0
    })
    .await;
}
