-- replays_counter: The sequence that counts the replays of a kind; null where it is missing.
create or replace function tidegate_internal.replays_counter(p_kind text)
  returns regclass language sql stable
return to_regclass('tidegate.' || quote_ident('replays_' || p_kind));
