-- make_replays_counter: Makes the sequence that counts the replays of a kind, unless it is there.
--
-- Unlogged where PostgreSQL has that (15): counting then writes no log and takes no transaction id, and after a crash
-- of the server it begins at 0 again.
create or replace function tidegate_internal.make_replays_counter(p_kind text)
  returns void language plpgsql
  set client_min_messages = warning
as $$
begin
  execute format(
    'create %s sequence if not exists tidegate.%I',
    case when current_setting('server_version_num')::integer >= 150000 then 'unlogged' else '' end,
    'replays_' || p_kind
  );
end;
$$;
