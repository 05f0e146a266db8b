//! Failures of TLS connections, with what to do.

use std::error::Error;

use rustls::CertificateError;

use super::CLIENT_CERTIFICATE;

/// Why a TLS connection could not be made, and what to do.
pub(super) fn failure(error: &(dyn Error + 'static)) -> Option<String> {
    let error = error.downcast_ref::<rustls::Error>()?;
    let (what, remedy) = match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            ("no trusted root has signed the server's certificate", "name the file of its root with sslrootcert")
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => ("the server's certificate is for other hosts", "connect to a host that it names"),
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => ("the server's certificate is not valid at this time", "renew it, and check the clock of this machine"),
        rustls::Error::InvalidCertificate(_) => (
            "the server's certificate is not accepted",
            "replace it by one for TLS servers (CA:FALSE), signed by a trusted root",
        ),
        rustls::Error::AlertReceived(_) => ("the server refused this client's TLS", CLIENT_CERTIFICATE),
        _ => ("TLS failed", "check sslmode, sslrootcert, sslcert and sslkey"),
    };
    Some(format!("{what} ({error}): {remedy}"))
}
