select quarantined_at, because from tidegate.notice_copy();
