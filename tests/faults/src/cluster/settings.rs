//! The settings of the programs of the cluster: Patroni of each member, and `HAProxy`.

use std::path::Path;

use serde_json::{Value, json};

use super::{Member, Replication};

impl Member {
    /// What its Patroni is told.
    pub(super) fn patroni_settings(&self, directory: &Path, bin: &Path, replication: Replication) -> Value {
        let is_synchronous = replication == Replication::Synchronous;
        json!({
            "scope": "tidegate",
            "name": self.name,
            "restapi": {"listen": format!("127.0.0.1:{}", self.rest), "connect_address": format!("127.0.0.1:{}", self.rest)},
            // Without a search for other addresses of etcd, which would go around the proxy.
            "etcd3": {"hosts": self.to_etcd.address.to_string(), "use_proxies": true},
            "bootstrap": {
                "dcs": {
                    // The least that Patroni allows.
                    "ttl": 20,
                    "loop_wait": 3,
                    "retry_timeout": 5,
                    "synchronous_mode": is_synchronous,
                    "synchronous_mode_strict": is_synchronous,
                    "postgresql": {
                        "use_pg_rewind": true,
                        "parameters": {
                            "max_connections": 200,
                            "hot_standby": "on",
                            "wal_log_hints": "on",
                            "wal_keep_size": "512MB",
                        },
                    },
                },
                "initdb": [{"encoding": "UTF8"}, "data-checksums", {"locale": "C"}],
            },
            "postgresql": {
                "listen": format!("127.0.0.1:{}", self.port),
                "connect_address": self.to_standbys.address.to_string(),
                "data_dir": self.data,
                "bin_dir": bin,
                "pgpass": directory.join(format!("{}.pgpass", self.name)),
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
                "authentication": {
                    "superuser": {"username": "tidegate", "password": "tidegate"},
                    "replication": {"username": "follower", "password": "follower"},
                    "rewind": {"username": "rewinder", "password": "rewinder"},
                },
                "parameters": {"unix_socket_directories": directory},
            },
        })
    }
}

/// `HAProxy` leads every connection to the member that says that it is the leader, and ends those of one that is none.
pub(super) fn haproxy_settings(port: u16) -> String {
    format!(
        "global
  maxconn 1000
defaults
  mode tcp
  timeout connect 2s
  timeout client 30m
  timeout server 30m
  timeout check 2s
  retries 2
listen leader
  bind 127.0.0.1:{port}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
"
    )
}
