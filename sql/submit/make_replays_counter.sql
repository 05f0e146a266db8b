-- make_replays_counter: Makes the sequence that counts the replays of a kind, in the place of an earlier one.
--
-- Unlogged where PostgreSQL has that (15): counting then writes no log and takes no transaction id, and after a crash
-- of the server it begins at 0 again.
create or replace function tidegate_internal.make_replays_counter(p_kind text)
  returns void language plpgsql
  set client_min_messages = warning
  set lock_timeout = '100ms'
as $$
begin
  execute format(
    'drop sequence if exists tidegate.%1$I; create %2$s sequence tidegate.%1$I', 'replays_' || p_kind,
    case when current_setting('server_version_num')::integer >= 150000 then 'unlogged' else '' end
  );
end;
$$;
