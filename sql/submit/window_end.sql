-- window_end: When the window of an idempotency key ends that begins at an instant. In UTC, where each day has 24
-- hours.
create or replace function tidegate_internal.window_end(p_from timestamptz, p_window interval)
  returns timestamptz language sql immutable parallel safe
return (p_from at time zone 'UTC' + p_window) at time zone 'UTC';
