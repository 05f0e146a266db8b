-- tidegate.gate_cap: a new gate of a kind or submitter counts its requests that are in queues already
--
-- Up to ten thousand messages of each queue at once; the rest in the first round of `count_members`, which begins anew.
-- Those requests stay where they are until this commits.
create or replace function tidegate.gate_cap()
  returns trigger
  language plpgsql
  security definer
  set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch constant integer := 10000;
  v_queue text;
begin
  -- Of an earlier one of this name.
  delete from tidegate.gate_member as m
  where m.gate = new.name and not exists (
    select from tidegate.request as r where r.id = m.request_id and r.req_status in ('queued', 'processing', 'tx_in_flight')
  );
  for v_queue in select q.name from tidegate.queue as q order by q.name loop
    perform tidegate.add_members(v_queue, 0, v_batch, new.name);
  end loop;
  update tidegate.gate_round as r set queue = '', msg_id = 0, is_new = true;
  perform tidegate.look_at_gate(new.name);
  return null;
end;
$$;

create or replace trigger gate_cap
  after insert on tidegate.gate
  for each row
  when (new.queue is null)
  execute function tidegate.gate_cap();
