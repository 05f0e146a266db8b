//! Outside the interface: the floors that Tidegate's other packages, tests and benchmarks stand on. They may change in any
//! version.

pub mod api_key {
    pub use crate::api_key::*;
}

pub mod coalescer {
    pub use crate::coalescer::*;
}

pub mod database {
    pub use crate::database::*;
}

pub mod doctor {
    pub use crate::doctor::*;
}

pub mod error {
    pub use crate::error::*;
}

pub mod json_text {
    pub use crate::json_text::*;
}

pub mod listener {
    pub use crate::listener::*;
}

pub mod lock {
    pub use crate::lock::*;
}

pub mod maintenance {
    pub use crate::maintenance::*;
}

pub mod metrics {
    pub use crate::metrics::*;
}

pub mod news {
    pub use crate::news::*;
}

pub mod recovery {
    pub use crate::recovery::*;
}

pub mod schema {
    pub use crate::schema::*;
}

pub mod shutdown {
    pub use crate::shutdown::*;
}

pub mod store {
    pub use crate::store::*;
}

pub mod traces {
    pub use crate::traces::*;
}

pub mod worker {
    pub use crate::worker::*;
}
