-- kind_add: Makes a kind that takes submissions at once, and those of its queues that are missing, each with its gate;
-- returns the settings that it made.
--
-- `flow` is direct, verdict (or proof) or checked (or decrypt).
--
-- The queues are `tx_queue` (by default of the kind's name) and, for flow decrypt, `readiness_queue` (by default
-- KIND_readiness). A new queue gets the rate or the concurrency given, null for no limit, and a gate with these marks,
-- by default 2000 and half of `high_water`. The kind gets the threshold and the scope of keys given, observed ETAs, and
-- the nominal times and the retention that `initialise` would give it: R = 2 s (decrypt), P = 4 s (decrypt) or 2 s,
-- T = 100 ms, 30 days. If no call of `initialise` was before, it counts as the first: a later one leaves limits and
-- gates as they are.
--
-- `answers_in` is how long the downstream usually takes for an answer, 1 ms to 12 hours: P, and what follows from it. A
-- send of flow direct may take twice that, if that is more than the default, in as many attempts as fit; its requests
-- have ten times that to be sent, and those of all flows to be answered, where the defaults are shorter.
--
-- An existing kind and existing queues stay as they are, so a program may repeat the call at each start. Raises TG007
-- for an existing kind of another flow or other queues than those given, for an unknown flow, for a queue of the other
-- stage, and for an invalid name or value, with the constraint that it breaks. `actor` is recorded in the history.
create or replace function tidegate.kind_add(
  kind text, flow text, tx_queue text default null, readiness_queue text default null,
  response_threshold integer default 1, per_seconds numeric default null, max_concurrency integer default null,
  high_water integer default 2000, low_water integer default null, actor text default null,
  key_scope text default 'submitter', answers_in interval default null
)
  returns table (subject text, name text, value text) language plpgsql security definer as $$
#variable_conflict use_column
declare
  v_actor_before text := tidegate_internal.set_actor(kind_add.actor);
  v_flow         constant text := case kind_add.flow when 'checked' then 'decrypt' when 'verdict' then 'proof'
    else kind_add.flow end;
  v_has_checks   constant boolean := v_flow = 'decrypt';
  v_tx           constant text := coalesce(kind_add.tx_queue, kind_add.kind);
  v_readiness    constant text := coalesce(kind_add.readiness_queue,
    case when v_has_checks then kind_add.kind || '_readiness' end);
  v_answer_ms    constant numeric := extract(epoch from kind_add.answers_in) * 1000;
  v_kind         tidegate.kind;
  v_queues       text[];
  v_constraint   text;
  v_reason       text;
begin
  if v_flow = any(enum_range(null::tidegate.flow)::text[]) is not true then
    v_reason := format('there is no flow "%s"; there are: direct (send, response), verdict or proof (send, verdict), '
      'checked or decrypt (check, send, response or shares)', left(kind_add.flow, 100));
  elsif kind_add.max_concurrency is not null and not v_has_checks then
    v_reason := format('max_concurrency limits readiness checks, and flow %s has none', kind_add.flow);
  elsif v_answer_ms not between 1 and 43200000 then
    v_reason := format('answers_in is between 1 ms and 12 hours, not %s', kind_add.answers_in);
  end if;
  if v_reason is not null then
    raise exception using errcode = 'TG007', hint = 'nothing has changed',
      message = format('kind "%s" is refused: %s', left(kind_add.kind, 100), v_reason);
  end if;

  if not exists (select from tidegate.kind as k where k.name = kind_add.kind) then
    begin
      update tidegate.setting as s set initialised_at = tidegate.clock() where s.initialised_at is null;
      if found then
        return query
          update tidegate.setting as s set event_retention = interval '720 hours' where s.event_retention is null
          returning 'setting', 'event_retention', tidegate.config_value('interval', 1, s.event_retention::text);
      end if;

      with made as (
        insert into tidegate.queue as q (name, stage, per_seconds, max_concurrency)
        select n.name, n.stage, n.per_seconds, n.max_concurrency
        from (values
          (v_tx, 'tx'::tidegate.stage, kind_add.per_seconds, null::integer),
          (v_readiness, 'readiness', null, kind_add.max_concurrency)
        ) as n(name, stage, per_seconds, max_concurrency)
        where n.stage = 'tx' or v_has_checks
        order by n.name
        on conflict do nothing
        returning q.name
      )
      select array_agg(m.name) into v_queues from made as m;
      return query
        select 'queue ' || q.name, s.name, s.value
        from tidegate.queue as q
        cross join lateral (values
          ('stage', q.stage::text), ('per_seconds', q.per_seconds::text), ('max_concurrency', q.max_concurrency::text)
        ) as s(name, value)
        where q.name = any(v_queues) and s.value is not null;
      return query
        update tidegate.gate as g
        set high_water = kind_add.high_water, low_water = coalesce(kind_add.low_water, kind_add.high_water / 2)
        where g.queue = any(v_queues)
        returning 'gate ' || g.queue, 'high_water/low_water', format('%s/%s', g.high_water, g.low_water);

      return query
        with made as (
          insert into tidegate.kind as k (
            name, flow, readiness_queue, tx_queue, response_threshold, retention, readiness_ms, processing_ms,
            tx_confirmation_ms, key_scope, eta, deadline, response_timeout
          )
          values (
            kind_add.kind, v_flow::tidegate.flow, v_readiness, v_tx, kind_add.response_threshold, '30 days',
            case when v_has_checks then 2000 end,
            coalesce(round(v_answer_ms), case when v_has_checks then 4000 else 2000 end), 100, kind_add.key_scope,
            'observed', greatest(interval '1 hour', case when v_flow = 'direct' then 10 * kind_add.answers_in end),
            greatest(interval '30 minutes', 10 * kind_add.answers_in)
          )
          on conflict do nothing
          returning k
        )
        select s.* from made as m cross join lateral tidegate_internal.new_settings(m.k) as s;
      return query select * from tidegate_internal.fit_answer_time(kind_add.kind, v_answer_ms);
    exception
      when check_violation or not_null_violation or data_exception or sqlstate 'TG005' then
        get stacked diagnostics v_constraint = constraint_name, v_reason = message_text;
        raise exception using errcode = 'TG007', constraint = coalesce(v_constraint, ''),
          message = format('kind "%s" is refused: %s', left(kind_add.kind, 100),
            coalesce(replace(nullif(v_constraint, ''), '_', ' '), v_reason)),
          hint = coalesce(tidegate_internal.constraint_hint(v_constraint), 'nothing has changed');
    end;
  end if;

  select * into v_kind from tidegate.kind as k where k.name = kind_add.kind;
  if v_kind.flow <> v_flow::tidegate.flow or v_kind.tx_queue <> kind_add.tx_queue
      or v_kind.readiness_queue is distinct from coalesce(kind_add.readiness_queue, v_kind.readiness_queue) then
    raise exception using errcode = 'TG007', message = format(
      'kind "%s" exists with flow %s and %s, and was given flow %s and %s', kind_add.kind, v_kind.flow,
      concat_ws(' and ', 'tx_queue ' || v_kind.tx_queue, 'readiness_queue ' || v_kind.readiness_queue), kind_add.flow,
      concat_ws(' and ', 'tx_queue ' || v_tx, 'readiness_queue ' || v_readiness)),
      hint = case when v_kind.flow <> v_flow::tidegate.flow
        then 'nothing has changed; the flow of a kind stays, so give the new kind another name'
        else format('nothing has changed; point the kind at other queues with `tidegate config set %s.tx_queue QUEUE`',
          kind_add.kind) end;
  end if;
  perform set_config('tidegate.actor', v_actor_before, true);
end;
$$;
select tidegate_internal.allow('kind_add', '{admin}');
