-- queue_storage: Trigger on queue: a new row brings its pgmq table, its counters and its gate with it; a changed one
-- wakes the workers.
--
-- Runs as its owner, as the kinds' triggers do: an operator who may write the row may not write schema pgmq. A new
-- limit or a pause holds at once: workers that sleep until the old limit allows more read it again.
create or replace function tidegate_internal.queue_storage()
  returns trigger language plpgsql security definer as $$
begin
  if tg_op = 'UPDATE' then
    perform pg_notify('tidegate_queue', new.name);
  else
    perform tidegate_internal.make_storage(new.name, new.fair_by is not null, true);
    insert into tidegate.gate (queue) values (new.name) on conflict do nothing;
  end if;
  return null;
end;
$$;

-- After, so that a row which breaks a constraint is refused by its name and makes nothing.
create or replace trigger queue_storage
  after insert or update on tidegate.queue
  for each row
  execute function tidegate_internal.queue_storage();

-- function queue_branches: Trigger on queue: keeps a branch for each queue function.
create or replace function tidegate_internal.queue_branches()
  returns trigger language plpgsql security definer as $$
begin
  perform tidegate_internal.build_queue_functions();
  return null;
end;
$$;

create or replace trigger queue_branches
  after insert or delete on tidegate.queue
  for each statement
  execute function tidegate_internal.queue_branches();

-- Files with triggers come after all functions, and those that lock requests against writers after this one.
select tidegate_internal.build_queue_functions();

-- function queue_guard: Trigger on queue: its name, its stage and what it is fair by never change, and it is deleted
-- with its storage only when it is empty (TG005).
--
-- Rows keep the queue they are in, so a queue that holds any stays.
create or replace function tidegate_internal.queue_guard()
  returns trigger language plpgsql security definer as $$
declare
  v_depth   bigint;
  v_counter text;
begin
  if tg_op = 'UPDATE' then
    if (new.name, new.stage, new.fair_by) is distinct from (old.name, old.stage, old.fair_by) then
      raise exception using errcode = 'TG005',
        message = format('queue "%s" keeps its name and stage, and what it is fair by', old.name),
        hint = '`tidegate queue add`, move its kinds there (`tidegate config set KIND.tx_queue QUEUE`), let this one '
          'drain, then `tidegate queue remove`';
    end if;
    return new;
  end if;

  if to_regclass(tidegate_internal.queue_table(old.name)) is not null then
    -- In one statement: a release moves a request from one to the other.
    execute format(
      'select count(*) + tidegate_internal.leased_count($1) from (select 1 from %s limit 1) as first',
      tidegate_internal.queue_table(old.name)
    ) into v_depth using old.name;
  else
    v_depth := tidegate_internal.leased_count(old.name);
  end if;
  if v_depth > 0 then
    raise exception using
      errcode = 'TG005', message = format('queue "%s" holds requests and may not be deleted', old.name),
      hint = 'point its kinds elsewhere and let it drain';
  end if;
  -- A survey that is under way is waited for, and none begins after this.
  perform pg_advisory_xact_lock(tidegate.queue_lock_key(old.name, 'survey'));
  delete from tidegate.queue_survey as s where s.queue = old.name;
  delete from tidegate.kind_watermark as m where m.queue = old.name;
  delete from tidegate.claim as c where c.queue = old.name;
  perform pgmq.drop_queue(old.name);
  foreach v_counter in array tidegate_internal.queue_counters(old.fair_by is not null) loop
    execute format('drop sequence tidegate.%I', v_counter || '_' || old.name);
  end loop;
  if old.fair_by is not null then
    execute format('drop table if exists tidegate.%I, tidegate.%I', 'turn_' || old.name, 'arrival_' || old.name);
  end if;
  delete from tidegate.queue_sample as s where s.queue = old.name;
  delete from tidegate.queue_pace as p where p.queue = old.name;
  delete from tidegate.queue_drain as d where d.queue = old.name;
  delete from tidegate.queue_minute as m where m.queue = old.name;
  return old;
end;
$$;

create or replace trigger queue_guard
  before update or delete on tidegate.queue
  for each row
  execute function tidegate_internal.queue_guard();
