-- The place of a request in its caller's trace (W3C Trace Context). The constraint is short, because each update of a
-- row checks it; functions write valid ones only.

alter table tidegate.request
  add column traceparent text,
  add constraint request_traceparent_has_55_characters check (length(traceparent) = 55);
