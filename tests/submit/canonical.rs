//! Do equal payloads have one canonical text, and different ones different texts?

use proptest::{collection::vec, prelude::*};

use crate::support::property::{Asked, for_all};

/// JSON as text, in one of the many spellings of a value.
fn json() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        "-?(0|[1-9][0-9]{0,3})(\\.[0-9]{1,4})?([eE][+-]?[0-9])?",
        Just("1".to_owned()),
        Just("1.0".to_owned()),
        Just("1e0".to_owned()),
        Just("-0.0".to_owned()),
        Just("100e-2".to_owned()),
    ];
    let text = prop_oneof![
        "[a-c\\.0é€😀]{0,3}",
        Just("1.0".to_owned()),
        Just("\\\"1.0".to_owned()),
        Just("\\\\".to_owned()),
        Just("\\n.00".to_owned()),
        Just("\\u0031.0".to_owned()),
    ]
    .prop_map(|text| format!("\"{text}\""));
    let leaf = prop_oneof![
        3 => number,
        2 => text.clone(),
        1 => Just("null".to_owned()),
        1 => Just("true".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            vec((text.clone(), inner), 0..4).prop_map(|items| {
                let items: Vec<_> = items.into_iter().map(|(key, value)| format!("{key} : {value}")).collect();
                format!("{{{}}}", items.join(", "))
            }),
        ]
    })
}

#[test]
fn two_payloads_have_one_canonical_text_exactly_when_they_are_equal() {
    let database = Asked::new();
    let judge = |a: &str, b: &str| {
        database.value(&format!(
            "select row(a = b, tidegate_internal.canonical(a) = tidegate_internal.canonical(b), tidegate_internal.canonical(a)::jsonb = a)::text
             from (select $json${a}$json$::jsonb as a, $json${b}$json$::jsonb as b) as pair"
        ))
    };
    // The same value with all numbers written longer, against another value, and against itself.
    for_all(400, &(json(), json()), |(a, b)| {
        let longer = database.value(&format!(
            "select regexp_replace($json${a}$json$::jsonb::text, '(\"(?:[^\"\\\\]|\\\\.)*\")|([0-9]+)(\\.[0-9]+)?', '\\1\\2\\3', 'g')"
        ));
        for (a, b) in [(&a, &b), (&a, &a), (&longer, &a), (&b, &longer)] {
            let verdict = judge(a, b);
            prop_assert!(verdict == "(t,t,t)" || verdict == "(f,f,t)", "{}: {} and {}", verdict, a, b);
        }
        Ok(())
    });
    for (a, b) in [
        ("1", "1.0"),
        ("1.0", "1e0"),
        ("1200e-2", "12.000"),
        ("-0.0", "0"),
        ("{\"a\": 1, \"b\": 2.0}", "{\"b\": 2, \"a\": 1}"),
        ("{\"é\": 1.0, \"zz\": 1}", "{\"é\": 1, \"zz\": 1}"),
        ("{\"zzz\": 1, \"éé\": [1.10], \"€\": 0}", "{\"€\": 0.0, \"éé\": [1.1], \"zzz\": 1}"),
        ("[{\"x\": [1.0, {\"y\": 2.50}]}]", "[{\"x\": [1, {\"y\": 2.5}]}]"),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.1"),
    ] {
        assert_eq!(judge(a, b), "(t,t,t)", "{a} and {b}");
    }
    for (a, b) in [
        ("[1, 2]", "[2, 1]"),
        ("\"1.0\"", "\"1\""),
        ("{\"a.0\": 1}", "{\"a\": 1}"),
        ("1", "\"1\""),
        ("null", "[]"),
        ("10", "1"),
        ("1.01", "1.1"),
        ("{\"a\": \"x\\\" : 1.0\"}", "{\"a\": \"x\\\" : 1\"}"),
    ] {
        assert_eq!(judge(a, b), "(f,f,t)", "{a} and {b}");
    }
}

/// A list of small JSON values, with an order to put it in.
fn shuffled() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
    vec(json(), 0..6).prop_flat_map(|items| (Just(items.clone()), Just(items).prop_shuffle()))
}

#[test]
fn only_the_order_of_what_a_kind_calls_a_set_makes_no_difference() {
    let database = Asked::new();
    let text = |payload: &str, sets: &str| {
        database.value(&format!("select tidegate_internal.canonical($json${payload}$json$::jsonb, {sets}::text[])"))
    };
    for_all(200, &(shuffled(), shuffled()), |(tags, list)| {
        let payload = |tags: &[String], list: &[String]| {
            let (tags, list) = (tags.join(","), list.join(","));
            format!("{{\"order\": {{\"tags\": [{tags}]}}, \"list\": [{list}], \"rest\": [2, 1]}}")
        };
        let sets = "'{order.tags,rest,missing,order.missing,list.tags}'";
        let first = text(&payload(&tags.0, &list.0), sets);
        prop_assert_eq!(&text(&payload(&tags.1, &list.0), sets), &first);
        // What is no set keeps its order: the texts are equal exactly when the lists are.
        let same = database.value(&format!(
            "select $json$[{}]$json$::jsonb = $json$[{}]$json$::jsonb",
            list.0.join(","),
            list.1.join(",")
        ));
        let moved = text(&payload(&tags.1, &list.1), sets);
        prop_assert_eq!(moved == first, same == "t");
        // The same elements, each as often, and no other paths.
        let more = [tags.0.as_slice(), &["1".to_owned()]].concat();
        prop_assert_ne!(&text(&payload(&more, &list.0), sets), &first);
        prop_assert_eq!(text(&payload(&tags.0, &list.0), "null"), text(&payload(&tags.0, &list.0), "'{}'"));
        Ok(())
    });
    for (payload, sets, canonical) in [
        ("[2, 1]", "'{a}'", "[2, 1]"),
        ("{\"a\": [2, 1.0, 1]}", "'{a}'", "{\"a\": [1, 1, 2]}"),
        ("{\"a\": [[2, 1]]}", "'{a.0}'", "{\"a\": [[2, 1]]}"),
        ("{\"a\": {\"0\": [2, 1]}}", "'{a.0}'", "{\"a\": {\"0\": [1, 2]}}"),
        ("{\"a\": {\"b\": 1}}", "'{a}'", "{\"a\": {\"b\": 1}}"),
        ("null", "'{a}'", "null"),
    ] {
        assert_eq!(text(payload, sets), canonical, "{payload} by {sets}");
    }
}
