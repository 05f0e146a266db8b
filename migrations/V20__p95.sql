-- The 95th percentile of what sends took, between the median and the 99th.

alter table tidegate.call_minute add column p95_ms integer;
