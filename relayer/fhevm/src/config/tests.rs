use std::io::Write;

use super::*;

const GATEWAY: &str = r#"
    [gateway]
    chain_id = 54321
    http = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
    decryption = "0x63c6684e14e27dc59870c5595d574bd6ca5d6ac6"
    input_verification = "0x3f92107747fcccc58db838122c14149b1c6e5a81"

    [[host_chains]]
    chain_id = 31337
    http = ["http://127.0.0.1:3"]
    acl = "0x2551f5c609e466be6c27289440b08be0a5a7f96f"
"#;

fn load(text: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let environment = environment.iter();
    let environment = environment.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(Some(file.path()), environment).map_err(|error| format!("{error:#}"))
}

#[test]
fn a_short_file_is_enough() {
    let config = load(GATEWAY, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((config.gateway.poll_ms, config.gateway.range), (2000, 1000));
    assert_eq!((config.keys, config.duplicates), (Keys::Off, Duplicates::Shared));
    assert!(config.serves(31337) && !config.serves(5));
}

#[test]
fn the_file_of_the_manual_is_one() {
    let page = include_str!("../../../../docs/fhevm.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (file, _) = rest.split_once("```").unwrap();
    let config = load(file, &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.gateway.http.len(), 2);
}

#[test]
fn the_environment_has_every_key_and_precedence() {
    let config = load(
        GATEWAY,
        &[
            ("TIDEGATE_FHEVM__KEYS", "required"),
            ("TIDEGATE_FHEVM__GATEWAY__HTTP", "http://127.0.0.1:8, http://127.0.0.1:9"),
            ("TIDEGATE_FHEVM__GATEWAY__CONFIRMATIONS", "3"),
            ("TIDEGATE_FHEVM__HOST_CHAINS__0__CHAIN_ID", "7"),
            ("TIDEGATE_FHEVM__WALLETS__0__NAME", "a"),
            ("TIDEGATE_FHEVM__WALLETS__0__KEY_ENV", "KEY_A"),
            ("TIDEGATE_FHEVM__FEES__CAP", "2000000000000"),
            ("TIDEGATE_FHEVM_CONFIG", "another program's"),
        ],
    );
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.keys, Keys::Required);
    assert_eq!(config.gateway.http[1].as_str(), "http://127.0.0.1:9/");
    assert_eq!(config.gateway.confirmations, 3);
    assert!(config.serves(7));
    assert_eq!(config.wallets[0].key_env.as_deref(), Some("KEY_A"));
    assert_eq!(config.fees.cap, 2_000_000_000_000);
}

#[test]
fn an_error_names_the_key() {
    for (text, environment, named) in [
        ("cors_origins = []", vec![], "cors_origins"),
        ("[fees]\nflor = 1", vec![], "flor"),
        ("", vec![("TIDEGATE_FHEVM__GATEWAY__HTPP", "http://a")], "htpp"),
        ("", vec![("TIDEGATE_FHEVM__GATEWAY__HTTP", "")], "gateway.http"),
        ("", vec![("TIDEGATE_FHEVM__GATEWAY__CHAIN_ID", "x")], "gateway.chain_id"),
        ("", vec![("TIDEGATE_FHEVM__KEYS", "maybe")], "maybe"),
        ("[[wallets]]\nname = \"a\"", vec![], "key_env and key_file"),
        ("[[wallets]]\nname = \"Hot\"\nkey_env = \"KEY\"", vec![], "Hot"),
        ("[fees]\nfloor = 2\ncap = 1", vec![], "fees.floor"),
    ] {
        let text = match text.starts_with('[') {
            true => format!("{GATEWAY}\n{text}"),
            false => format!("{text}\n{GATEWAY}"),
        };
        let error = load(&text, &environment).err().unwrap_or_default();
        assert!(error.contains(named), "{named}: {error}");
    }
}
