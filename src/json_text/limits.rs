//! Limits of JSON, so that PostgreSQL can store it and workers can read it.
//!
//! The size of the text is not enough. A depth of 100,000 exhausts the database's stack, and `[1e131071, …]` is a short
//! text, but workers receive 131,072 digits for each number: a payload that was accepted and that no worker could
//! fetch.

/// `serde_json` parses no deeper, so no stage could either.
const DEPTH_MAX: usize = 128;

/// The largest power of ten of an IEEE double, which is as far as JSON is interoperable (RFC 7493, section 2.2).
const EXPONENT_MAX: u32 = 308;

/// How many digits the exponents of all numbers may unfold into.
const UNFOLDED_MAX: u32 = 1_000_000;

/// The reason to refuse this JSON, if there is one. `json` is valid JSON text.
pub fn objection(json: &[u8]) -> Option<String> {
    let mut depth = 0_usize;
    let mut unfolded = 0_u32;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Some(format!("it is nested deeper than {DEPTH_MAX} levels"));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            // Outside strings an E occurs only in numbers (the e's of `true` and `false` have no digits after them).
            b'e' | b'E' => {
                let exponent = exponent(bytes.as_slice());
                if exponent > EXPONENT_MAX {
                    return Some(format!("it holds a number with an exponent beyond {EXPONENT_MAX}"));
                }
                unfolded += exponent;
                if unfolded > UNFOLDED_MAX {
                    return Some(format!("written out, its numbers have more than {UNFOLDED_MAX} digits more"));
                }
            }
            _ => {}
        }
    }
    None
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return,
            _ => {}
        }
    }
}

/// The absolute value of the exponent that starts here; 0 without one.
fn exponent(bytes: &[u8]) -> u32 {
    let digits = match bytes {
        [b'+' | b'-', digits @ ..] | digits => digits,
    };
    digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |exponent: u32, digit| exponent.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::objection;

    #[test]
    fn ordinary_json_is_taken() {
        for json in
            [r#"{"a": [1, -2.5e10, 1E-308, true, false, null], "e9999": "1e9999 [[["}"#, r#""\"[[[ 1e999 \\""#, "1e308"]
        {
            assert_eq!(objection(json.as_bytes()), None, "{json}");
        }
    }

    #[test]
    fn the_hundred_and_twenty_ninth_level_is_too_deep() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));

        assert_eq!(objection(nested(128).as_bytes()), None);
        assert!(objection(nested(129).as_bytes()).is_some());
    }

    #[test]
    fn siblings_are_not_depth() {
        let json = format!("[{}0]", "[],{},".repeat(1000));

        assert_eq!(objection(json.as_bytes()), None);
    }

    #[test]
    fn many_exponents_that_unfold_into_more_than_the_text_are_refused() {
        let numbers = |count| format!("[{}0]", "1e308,".repeat(count));

        assert_eq!(objection(numbers(3246).as_bytes()), None);
        assert!(objection(numbers(3247).as_bytes()).is_some());
    }

    #[test]
    fn an_exponent_that_unfolds_into_many_digits_is_refused() {
        for json in ["1e309", "[1E+131071]", "-0.1e-99999999999999999999"] {
            assert!(objection(json.as_bytes()).is_some(), "{json}");
        }
    }
}
