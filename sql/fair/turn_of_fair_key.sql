-- turn_of_fair_key: Trigger on fair_key: the turn of a key follows its settings, however they change.
create or replace function tidegate_internal.turn_of_fair_key()
  returns trigger language plpgsql security definer as $$
declare
  v_row tidegate.fair_key;
begin
  for v_row in select old.* where tg_op <> 'INSERT' union select new.* where tg_op <> 'DELETE' loop
    -- A queue that is removed takes its keys and its turns with it.
    if exists (select from tidegate.queue as q where q.name = v_row.queue and q.fair_by is not null) then
      perform pg_advisory_xact_lock(tidegate.queue_lock_key(v_row.queue, 'turns'));
      perform tidegate_internal.set_turn(v_row.queue, v_row.key);
      perform pg_notify('tidegate_queue', v_row.queue);
    end if;
  end loop;
  return null;
end;
$$;
create or replace trigger turn_of_fair_key
  after insert or update or delete on tidegate.fair_key
  for each row execute function tidegate_internal.turn_of_fair_key();

-- function key_of_fair_key: Trigger on fair_key: the key is that of the name (TG002, TG005, TG007).
create or replace function tidegate_internal.key_of_fair_key()
  returns trigger language plpgsql security definer as $$
begin
  new.key := tidegate_internal.key_of_name(new.queue, new.name);
  return new;
end;
$$;
create or replace trigger key_of_fair_key
  before insert or update on tidegate.fair_key
  for each row execute function tidegate_internal.key_of_fair_key();
