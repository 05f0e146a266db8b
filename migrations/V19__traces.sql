-- The place of a request in its caller's trace (W3C Trace Context).

alter table tidegate.request
  add column traceparent text,
  add constraint request_traceparent_is_of_w3c
    check (traceparent ~ '^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$');
