-- exact_times: Trigger on tables of configuration: keeps times as hours, minutes and seconds.
--
-- A day added to a time has 23 or 25 hours where the clocks of the session's time zone change, and a month 28 to 31
-- days: a key would stand for longer than its request is kept. Here a day has 24 hours, and a month 30 days.
create or replace function tidegate_internal.exact_times()
  returns trigger language plpgsql as $$
begin
  new := jsonb_populate_record(new, (
    select jsonb_object_agg(
      c.name, make_interval(secs => extract(epoch from (to_jsonb(new) ->> c.name)::interval)::float8)
    )
    from unnest(tg_argv) as c(name)
  ));
  return new;
end;
$$;

create or replace trigger exact_times
  before insert or update on tidegate.kind
  for each row execute function tidegate_internal.exact_times(
    'readiness_timeout', 'deadline', 'response_timeout', 'retention', 'key_bucket', 'resolve_for', 'not_before_max'
  );

create or replace trigger exact_times
  before insert or update on tidegate.policy
  for each row execute function tidegate_internal.exact_times('dedup_window', 'span_reorder');

create or replace trigger exact_times
  before insert or update on tidegate.setting
  for each row execute function tidegate_internal.exact_times('heal_window', 'heal_pause', 'event_retention');

create or replace trigger exact_times
  before insert or update on tidegate.webhook_policy
  for each row execute function tidegate_internal.exact_times('retention');
