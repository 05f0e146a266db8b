select since as quarantined_at, because from tidegate.quarantine_state;
